"""Who drives a run: this process, told apart from every other on this host, and whether another still lives.

A run that is being driven names its driver in its index row, so that a second process on the same host does not take up what
the first is busy with, and takes it up at once when the first is provably gone. It is no lease: about a process on another
host, or on a system where starts cannot be told, nothing is claimed.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final, Protocol

HOST_SPI_VERSION: Final = "1.0.0"


class Host(Protocol):
    """This process among others."""

    def me(self) -> str:
        """Return the name of this process: host, boot, process number and start, as one text."""
        ...

    def is_alive(self, driver: str) -> bool:
        """Return whether *driver*, as `me` named it, is another process of this host that still runs.

        False means gone, this very process, or not to be known from here.
        """
        ...


class SystemHost:
    """The machine's own answers; starts are told on Linux, from `/proc`."""

    def me(self) -> str:
        return f"{platform.node()} {_boot()} {os.getpid()} {_start_of(os.getpid())}"

    def is_alive(self, driver: str) -> bool:
        host, _, rest = driver.partition(" ")
        boot, _, process = rest.partition(" ")
        number, _, start = process.partition(" ")
        if (host, boot) != (platform.node(), _boot()) or not number.isdecimal() or start in ("", "?"):
            return False
        return int(number) != os.getpid() and _start_of(int(number)) == start


def process_of(driver: str) -> str:
    """Return the process number in a driver's name, for messages."""
    return driver.split(" ")[2] if driver.count(" ") >= 2 else "?"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "?"


def _start_of(process: int) -> str:
    """Return when *process* started, in ticks since boot; "?" when it is gone, or this cannot be told."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    fields = stat.rpartition(")")[2].split()
    return "?" if fields[0] in ("Z", "X") else fields[19]
