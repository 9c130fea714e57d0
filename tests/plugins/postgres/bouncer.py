"""A real transaction pooler in front of a server, where the machine has one."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from tests.plugins.postgres.server import SUPERUSER, Server, as_nobody

PORT: Final = 6432
START_S: Final = 20.0
_SETTINGS: Final = """
[databases]
* = host={home}
[pgbouncer]
pool_mode = transaction
unix_socket_dir = {folder}
listen_addr =
listen_port = {port}
auth_type = trust
auth_file = {folder}/users
default_pool_size = 3
logfile = {folder}/log
"""


class Bouncer:
    """PgBouncer in transaction mode: three processes of the server for each database, whoever asks."""

    def __init__(self, server: Server, program: str) -> None:
        self._server, self._folder = server, server.home / "bouncer"
        self._folder.mkdir()
        (self._folder / "users").write_text(f'"{SUPERUSER}" ""\n', "utf-8")
        settings = _SETTINGS.format(home=server.home, folder=self._folder, port=PORT)
        (self._folder / "ini").write_text(settings, "utf-8")
        if as_nobody():
            shutil.chown(self._folder, as_nobody()["user"])
        self._process = subprocess.Popen(
            [program, "-q", str(self._folder / "ini")], stderr=subprocess.DEVNULL, **as_nobody()
        )
        self._wait()

    def _wait(self) -> None:
        socket, until = self._folder / f".s.PGSQL.{PORT}", time.monotonic() + START_S
        while not socket.exists():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"pgbouncer did not start: {self.log()}")
            time.sleep(0.01)

    def dsn(self, dsn: str) -> str:
        """Return the way through the pooler to what *dsn* names."""
        return f"{dsn.replace(str(self._server.home), str(self._folder))}&port={PORT}"

    def log(self) -> str:
        log = Path(self._folder / "log")
        return log.read_text("utf-8", "replace")[-2000:] if log.exists() else ""

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(START_S)
