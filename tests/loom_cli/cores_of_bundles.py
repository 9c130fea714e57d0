"""What stands behind the commands that write bundles and bring them in; see test_pure_cores.py."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.bundle.importing import Imported, ImportedLog
from loom.plugins.bundle.shapes import LogEntry, Manifest, Part
from loom.plugins.bundle.writing import Written
from loom.spi.event_store import ExecutionRow
from loom_cli.bundling import bundle_json
from loom_cli.importing import imported_json
from tests.golden.make import INDEX
from tests.loom_cli.cores import Core

ROW: Final = ExecutionRow(ExecutionId("r1"), Incarnation(1), 4, INDEX)

OF_BUNDLES: Final[dict[str, Core]] = {
    "bundle": Core(
        bundle_json,
        lambda: bundle_json(
            Written(Manifest("loom", [ExecutionId("r1")], [LogEntry(ROW, [Part("p", 0, 4, 9, "")])], {}), "d1"),
            Path("r1.loombundle"),
            size=90,
            unread=2,
        ),
        lambda shape: (
            (shape["file"], shape["events"], shape["unread"], shape["digest"]) == ("r1.loombundle", 4, 2, "d1")
        ),
        "bundle r1 --json",
    ),
    "import": Core(
        imported_json,
        lambda: imported_json(
            Imported([ImportedLog(ExecutionId("r1"), "suspended", 4, "imported", is_ended_here=True)], 2),
            file=Path("r1.loombundle"),
            store="sqlite:x",
        ),
        lambda shape: (shape["logs"][0]["ended_here"], shape["contents"]) == (True, 2),
        "import given.loombundle --json",
    ),
}
