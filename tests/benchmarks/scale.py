"""How much is measured: the full size, or one so small that only the shape of the result means anything."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final


class Unavailable(Exception):
    """What a benchmark measures does not work here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How often a measurement is repeated, and what a full size is divided by."""

    repeats: int
    divisor: int

    def of(self, full: int) -> int:
        return max(1, full // self.divisor)


FULL: Final = Scale(repeats=5, divisor=1)
QUICK: Final = Scale(repeats=1, divisor=100)


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder for databases, gone afterwards. TMPDIR says on which disk."""
    with tempfile.TemporaryDirectory(prefix="loom-benchmark-") as path:
        yield Path(path)
