"""The machine as an interface: what this process is called, which others are gone for certain, and how long it has been up.

A driver signs what it holds with a name that says where it runs. A driver on the same machine whose process is no more can
be told from one that is slow, without waiting for its lease. Nothing is ever guessed: where it cannot be proved that a
process is gone, it is not gone.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote, unquote

HOST_SPI_VERSION: Final = "1.0.0"

_PROC: Final = Path("/proc")
_ENDED: Final = "ended"
_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Linux has a clock of its own for it; that of macOS goes on while the machine sleeps."""


class Host(Protocol):
    """Names what runs in this process, and knows of whom it named whether their process has ended for certain."""

    def name(self) -> str:
        """Return a new name for something in this process: nobody else has it, here or elsewhere, now or ever."""
        ...

    def is_gone(self, name: str) -> bool:
        """Whether the process of whoever has that *name* has ended for certain; False where that cannot be known."""
        ...

    def boottime_s(self) -> float:
        """Return seconds that go on while the machine is suspended, and are never set."""
        ...


class ProcessName(NamedTuple):
    """A process: its machine, that machine's boot, the space in which its number counts, its number, and its start.

    *machine* and *boot* are empty where nothing is known that only one machine or one boot has; *start* where the system
    does not tell.
    """

    machine: str
    boot: str
    space: str
    pid: int
    start: str

    def __str__(self) -> str:
        return "/".join(quote(str(part), safe="") for part in self)

    @classmethod
    def parse(cls, text: str) -> ProcessName | None:
        """Return what *text* names, whatever follows it; None when it names no process like this."""
        parts = [unquote(part) for part in text.split("/")]
        if len(parts) < 5 or not parts[3].isdecimal():
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), parts[4])


class SystemHost:
    """The machine that this process runs on. Linux can tell the most, macOS whether a process exists, Windows nothing."""

    def name(self) -> str:
        pid = os.getpid()
        process = ProcessName(_machine(), _boot(), _space(), pid, _start_of(pid))
        return f"{process}/{os.urandom(4).hex()}"

    def is_gone(self, name: str) -> bool:
        process = ProcessName.parse(name)
        boot = _boot()
        if process is None or not boot or not process.boot:
            return False
        if process.boot != boot:
            return bool(process.machine) and process.machine == _machine()
        if process.space != _space():
            return False
        if not _exists(process.pid):
            return True
        start = _start_of(process.pid)
        return start == _ENDED or ("" not in {start, process.start} and start != process.start)

    def boottime_s(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class VirtualHost:
    """A host for tests: time moves when the test moves it, and only who is in `gone` is gone."""

    def __init__(self, name: str = "virtual") -> None:
        self._name, self._now_s, self._named = name, 0.0, 0
        self.gone: set[str] = set()

    def name(self) -> str:
        self._named += 1
        return f"{self._name}/{self._named}"

    def is_gone(self, name: str) -> bool:
        return name in self.gone

    def boottime_s(self) -> float:
        return self._now_s

    def advance(self, by_s: float) -> None:
        """Move time forward."""
        self._now_s += by_s


def _machine() -> str:
    """Return what only this machine is called. A name alone may be had by many, so there has to be an id beside it."""
    known = _read(Path("/etc/machine-id")) or _read(Path("/var/lib/dbus/machine-id"))
    return f"{os.uname().nodename}:{known}" if known and hasattr(os, "uname") else ""


def _boot() -> str:
    """Return the id that the kernel gave to this boot; no two boots of any machine have the same."""
    return _darwin_boot() if sys.platform == "darwin" else _read(_PROC / "sys" / "kernel" / "random" / "boot_id")


def _darwin_boot() -> str:
    import ctypes

    library, size = ctypes.CDLL(None), ctypes.c_size_t(64)
    text = ctypes.create_string_buffer(size.value)
    failed = library.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else text.value.decode("ascii")


def _space() -> str:
    """Return in which namespaces a number and a start are meant: a container counts its processes by itself."""
    try:
        return f"{(_PROC / 'self' / 'ns' / 'pid').readlink()} {(_PROC / 'self' / 'ns' / 'time').readlink()}"
    except OSError:
        return ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # asks, and sends nothing; /proc may hide the processes of others
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _start_of(pid: int) -> str:
    """Return when *pid* started, as the kernel counts it; `_ENDED` if only its entry is left, "" if that cannot be told."""
    fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()  # the name before it may hold anything
    if len(fields) < 20:
        return ""
    is_over = fields[0] in "ZX" and fields[17] == "1"  # its first thread may have ended before the others
    return _ENDED if is_over else fields[19]


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
