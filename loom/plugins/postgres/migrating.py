"""The numbered migrations, as they lie beside the code. The driver is not needed to know them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

VIEWS: Final = ("loom_runs", "loom_events", "loom_attributes", "loom_gates", "loom_read_models")
"""What people may read with SQL, in the schema `loom` (docs/guide/sql.md)."""

_FOLDER: Final = Path(__file__).parent / "migrations"
_SOFT: Final = "-- soft: "


class Migration(NamedTuple):
    """One step. *pending* says what is missing without it, if the code works without it; else it is empty.

    One *of_views* is the whole text of the views that people read: the last such one there is stands for all.
    """

    number: int
    script: str
    pending: str
    of_views: bool = False


def migrations() -> list[Migration]:
    """Return all migrations, in order."""
    return [_migration(file) for file in sorted(_FOLDER.glob("*.sql"))]


def _migration(file: Path) -> Migration:
    script = file.read_text("utf-8")
    line = script.partition("\n")[0]
    return Migration(
        int(file.name[:4]),
        script,
        line.removeprefix(_SOFT) if line.startswith(_SOFT) else "",
        file.stem.endswith("_views"),
    )


def schema_version() -> int:
    """Return the number of the last migration."""
    return max(int(file.name[:4]) for file in _FOLDER.glob("*.sql"))
