"""Words for who drives a run. Pure."""

from __future__ import annotations

from loom.spi.event_store import ExecutionRow
from loom.spi.host import ProcessName


def driver_words(name: str) -> str:
    """Return what a person knows the driver *name* by: its process, and its machine where that is known."""
    process = ProcessName.parse(name)
    if process is None:
        return name
    machine = process.machine.partition(":")[0]
    return f"process {process.pid}" + (f" on {machine}" if machine else "")


def held_words(row: ExecutionRow) -> str:
    """Return who drives the execution of *row*, or what became of who did; nothing when nobody has it."""
    if not row.driver:
        return ""
    words = driver_words(row.driver)
    if row.released:
        return f"a driver: {words} let it go"
    return words if row.lease_ms > 0 else f"a driver: the lease of {words} has lapsed"
