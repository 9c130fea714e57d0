"""Where files cost no disk.

A store waits for the disk at each commit, which is most of the time of a test that commits. What it waits for is there for a
machine that falls; tests kill processes, and these lose nothing in memory that a disk would keep.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
"""Such a place, on Linux."""

_ROOM: Final = 2 << 30


def memory() -> Path | None:
    """Return a folder whose files cost no disk; none where there is none, or it is too small, or no program may lie there."""
    if not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ROOM:
        return None
    return None if os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC else _MEMORY


def keep_files_in_memory() -> None:
    """Have this process and those that it starts make their temporary files there, unless TMPDIR says where."""
    if "TMPDIR" not in os.environ and (place := memory()) is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)
