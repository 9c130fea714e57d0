"""Words for who drives a run, and how it stands by its row of the index. Pure."""

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


def is_cancelling(row: ExecutionRow) -> bool:
    """Whether somebody wants the execution of *row* cancelled, and it has not ended yet."""
    return row.cancel_asked and not row.index.ended


def status_word(row: ExecutionRow) -> str:
    """Return the status of *row* for people: how it stands, unless it is on its way to its end."""
    return "cancelling" if is_cancelling(row) else row.index.status.replace("_", " ")


def held_words(row: ExecutionRow) -> str:
    """Return who drives the execution of *row*, or what became of who did; nothing when nobody has it."""
    if not row.driver:
        return ""
    words = driver_words(row.driver)
    if row.released:
        return f"a driver: {words} let it go"
    return words if row.lease_ms > 0 else f"a driver: the lease of {words} has lapsed"
