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
    return f"a driver: {left}" if (left := left_words(row)) else driver_words(row.driver)


def left_words(row: ExecutionRow) -> str:
    """Return what became of who drove the execution of *row*; nothing where nobody did, or somebody does."""
    if not row.driver or not (row.released or row.lease_ms <= 0):
        return ""
    words = driver_words(row.driver)
    return f"{words} let it go" if row.released else f"the lease of {words} has lapsed"
