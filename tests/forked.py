"""Command lines without the start of a process: who has imported everything forks a child for each, which is a process of its own.

The start is most of what a command costs, and the same each time. `Forks` is the parent; its programs, put where a shell finds
them, hand over their arguments, surroundings, folder and standard streams, and end as the child did. A command that is to be
killed has to be a process from its beginning: what is killed here is who waits for it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import os
import pkgutil
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn, Self, TextIO

ROOT: Final = Path(__file__).resolve().parent.parent

_SIZE: Final = 8
_STREAMS: Final = 3
_PARTS: Final = b"\0\0"
"""What stands between folder, arguments and surroundings: neither of these has an empty part before its last."""

# All that is started for a command. It runs without `site`, and imports what costs nothing.
_ASKS: Final = """\
import _socket, os, sys
given = [[os.getcwdb()], map(os.fsencode, sys.argv[2:]), (b"=".join(pair) for pair in os.environb.items())]
told = b"".join(len(part).to_bytes(8, "big") + part for part in [b"\\0".join(each) for each in given])
asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
asked.connect(sys.argv[1])
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
told = told[asked.sendmsg([told], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)]):]
while told:
    told = told[asked.send(told):]
os._exit(int(asked.recv(4)))
"""


class Forks:
    """The parent of what is run, and the programs by which a shell has it run: `loom`, and `python` for a script."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start it in the surroundings *environ*; a command has those of who runs it."""
        self.programs = Path(tempfile.mkdtemp(prefix="loom-forks-", dir="/tmp"))  # a socket's path is a short one
        place, asks = self.programs / "asked", self.programs / "asks.py"
        asks.write_text(_ASKS, encoding="utf-8")
        python, ask = shlex.quote(sys.executable), shlex.join([sys.executable, "-I", "-S", str(asks), str(place)])
        program(self.programs, "loom", f'exec {ask} loom "$@"')
        program(self.programs, "python", f'case $1 in -*) exec {python} "$@" ;; *) exec {ask} "$@" ;; esac')
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", str(place)],
            cwd=ROOT,
            env={**environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._parent.stdout is not None
        assert self._parent.stdout.readline() == b"ready\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.killpg(self._parent.pid, signal.SIGKILL)
        self._parent.communicate()
        shutil.rmtree(self.programs)


def program(folder: Path, name: str, line: str) -> None:
    """Put a program into *folder* that is one *line* of shell."""
    (folder / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


# The parent


class _Parent:
    """Who forks, and tells who asked how the child ended."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._asking: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Fork for each who asks, for as long as this process lives; in a child, return once it is to run what was asked."""
        signal.signal(signal.SIGCHLD, lambda *_: self._tell())
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(self._place)
            listening.listen()
            print("ready", flush=True)  # noqa: T201  # to who started it
            while True:
                asking, _ = listening.accept()
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
                child = os.fork()
                if child == 0:
                    break
                self._asking[child] = asking
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        _be(asking)

    def _tell(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                code = os.waitstatus_to_exitcode(ended[1])
                with self._asking.pop(ended[0]) as asking, contextlib.suppress(BrokenPipeError):
                    asking.sendall(b"%d" % (code if code >= 0 else 128 - code))


def _be(asking: socket.socket) -> None:
    """Have this process be what was asked for: its streams, folder, surroundings and arguments."""
    with asking:
        first, streams, *_ = socket.recv_fds(asking, 1 << 16, _STREAMS)
        with asking.makefile("rb", buffering=0) as rest:
            told = first
            parts = []
            for _ in range(3):
                while len(told) < _SIZE or len(told) < _SIZE + int.from_bytes(told[:_SIZE], "big"):
                    told += rest.read(1 << 16) or b""
                until = _SIZE + int.from_bytes(told[:_SIZE], "big")
                parts.append([os.fsdecode(each) for each in told[_SIZE:until].split(b"\0")])
                told = told[until:]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # for as long as the process lives
    sys.stdout, sys.stderr = _writing(1, errors="strict"), _writing(2, errors="backslashreplace")
    [[folder], sys.argv, environ] = parts
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(each.partition("=")[::2] for each in environ)


def _writing(number: int, *, errors: str) -> TextIO:
    """Return a standard stream as PYTHONUNBUFFERED makes it."""
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


def _import_all() -> None:
    """Import what a command may need: all of Loom."""
    for room in ("loom", "loom_cli"):
        for found in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)


def _run() -> int:
    """Run what was asked for, as `python -m loom_cli` and `python FILE` do, and return its status."""
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    installed = [*(each for each in sys.path if each != str(ROOT)), str(ROOT)]
    try:
        if sys.argv[0] == "loom":
            sys.path[:] = [str(Path.cwd()), *paths, *installed]
            return importlib.import_module("loom_cli.main").main()  # type: ignore[no-any-return]
        sys.path[:] = [str(Path(sys.argv[0]).resolve().parent), *paths, *installed]
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            print(ended.code, file=sys.stderr)  # noqa: T201  # as Python does
            return 1
        return ended.code or 0
    except BaseException:  # noqa: BLE001  # a child must not come back from here into its parent's work
        traceback.print_exc()
        return 1
    return 0


def _end(status: int) -> NoReturn:
    """End this process as Python does, but for taking down all that its parent imported."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads that are to be waited for
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    _import_all()
    assert threading.active_count() == 1, "a process with threads is not to be forked"
    gc.freeze()  # a look for garbage would copy what parent and children share
    _Parent(sys.argv[1]).serve()
    _end(_run())
