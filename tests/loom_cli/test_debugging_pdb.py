"""`P` in the debugger, on a terminal of its own: it is lent to pdb in the body of the flow, and taken back as it was."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Final

from tests.benchmarks.debugging import drawn_text
from tests.loom_cli.projects import loom

PATIENCE_S: Final = 60.0


class Screen:
    """A terminal of 120 cells by 40 lines with the debugger on it, as somebody types at it."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self._process, self._descriptor, self._drawn = process, descriptor, b""

    def until(self, text: str) -> str:
        """Wait until *text* is drawn, and return all that was drawn since it was last waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while text.encode() not in drawn_text(self._drawn):
            ready, _, _ = select.select([self._descriptor], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} was not drawn: {drawn_text(self._drawn)[-800:]!r}"
            self._drawn += os.read(self._descriptor, 1 << 16)
        drawn, self._drawn = self._drawn, b""
        return drawn_text(drawn).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def ended(self) -> int:
        """Return its status once the process has ended; what it draws meanwhile is read, or it could not."""
        while self._process.poll() is None:
            if select.select([self._descriptor], [], [], 0.05)[0]:
                try:
                    os.read(self._descriptor, 1 << 16)
                except OSError:  # Linux says so when the other end is closed
                    break
        return self._process.wait(PATIENCE_S)


@contextmanager
def debugging(folder: Path, run_id: str) -> Iterator[Screen]:
    here, there = pty.openpty()
    ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "HOME": str(folder)}  # nobody's .pdbrc
    command = [sys.executable, "-m", "loom_cli", "debug", run_id]
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=there, stdout=there, stderr=there, start_new_session=True
    )
    os.close(there)
    try:
        yield Screen(process, here)
    finally:
        process.kill()
        process.wait()
        os.close(here)


def test_p_lends_the_terminal_to_pdb_in_the_flow_and_the_debugger_goes_on_afterwards(desk: Path) -> None:
    assert loom("run", "refund", "--set", "order=A-7", "--set", "amount=1", "--id", "r1", "-q", folder=desk).status == 3
    store = (desk / ".loom" / "loom.db").read_bytes()

    with debugging(desk, "r1") as screen:
        screen.until("EXECUTION_STARTED")
        screen.type("P")
        screen.until("(loom-pdb) ")
        screen.type("p 'order', claim.order\r")
        answered = screen.until("(loom-pdb) ")
        screen.type("c\r")
        screen.until("Enter goes back to the debugger")
        screen.type("\r")
        screen.until("EXECUTION_STARTED")
        screen.type("q")
        status = screen.ended()

    assert "('order', 'A-7')" in answered
    assert status == 0
    assert (desk / ".loom" / "loom.db").read_bytes() == store
