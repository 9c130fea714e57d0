"""Deterministic simulation: the real kernel under a seeded clock, faults by schedule, and invariants that must hold.

`loom torture` does it for a flow; a test does it with `search(play, seeds)`. Nothing that runs in production imports this.
"""

from __future__ import annotations

from loom.devtools.dst.schedule import Fault, Schedule
from loom.devtools.dst.searching import Finding, Report, Trial, normal, search, shrunk, tried
from loom.devtools.dst.stage import Play
from loom.devtools.dst.world import Desk, End, Message, World

__all__ = [
    "Desk",
    "End",
    "Fault",
    "Finding",
    "Message",
    "Play",
    "Report",
    "Schedule",
    "Trial",
    "World",
    "normal",
    "search",
    "shrunk",
    "tried",
]
