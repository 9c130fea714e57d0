"""The pure cores of the commands of read models, in the form that all have."""

from __future__ import annotations

from typing import Final

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId, Incarnation
from loom.spi import ModelRow, ModelRows
from loom_cli.read_models import Updated, erased_json, model_json, row_json, updated_json
from tests.loom_cli.cores import Core

MODEL_CORES: Final[dict[str, Core]] = {
    "rows list": Core(
        model_json,
        lambda: model_json(ModelRows("totals", "1:a", 2, 7)),
        lambda shape: shape == {"model": "totals", "version": "1:a", "rows": 2, "since_at": 7},
        "rows list --json",
    ),
    "rows show": Core(
        row_json,
        lambda: row_json(ModelRow(ExecutionId("r1"), Incarnation(1), 5, b'{"n":1}')),
        lambda shape: shape == {"execution_id": "r1", "sequence": 5, "row": {"n": 1}},
        "rows show totals --json",
    ),
    "rows update": Core(
        updated_json,
        lambda: updated_json(Updated("totals", "1:a", 3, 2, [LoomError("it stops")])),
        lambda shape: (shape["advanced"], shape["removed"], len(shape["faults"])) == (3, 2, 1),
        "rows update --app timed:app --json",
    ),
    "rows erase": Core(
        erased_json,
        lambda: erased_json(["r1"], 2, dry_run=True),
        lambda shape: shape == {"runs": 1, "rows": 2, "dry_run": True},
        "rows erase r1 --dry-run --json",
    ),
}
