"""What stands behind a command, and those of the commands that look into one run: the table of test_pure_cores.py goes on here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from loom.driving.breaking import Point
from loom.lenses.execution import ExecutionView, execution_view
from loom.lenses.folding import fold_at
from loom.lenses.provenance import Questions, provenance_json
from loom_cli.breaking import Wish, points
from tests.golden import logs


class Core(NamedTuple):
    """The function behind a command, a call of it with values, what it says, and a command line that comes to it."""

    function: Callable[..., Any]
    call: Callable[[], Any]
    says: Callable[[Any], bool]
    line: str


HELLO: Final = logs.read("hello").events


def hello_view() -> ExecutionView:
    return execution_view(fold_at(HELLO), HELLO)


OF_LOOKING: Final[dict[str, Core]] = {
    "why": Core(
        provenance_json,
        lambda: provenance_json(Questions(hello_view(), fold_at(HELLO), HELLO).run()[0]),
        lambda shape: (shape["what"], shape["parts"][0]["certainty"]) == ("result", "exact"),
        "why r1 --json",
    ),
    "debug": Core(
        points,
        lambda: points(hello_view(), Wish(["before:greet"])),
        lambda found: found == [Point("before", "greet")],
        "debug r1 --break end",
    ),
}

TIMED: Final = """
import loom
from app import hello


@loom.read_model
def count(row: int | None, event: loom.EventEnvelope) -> int:
    return (row or 0) + 1


app = loom.define_config(flows=[hello], schedules=[loom.schedule("nightly", "0 3 * * *", hello)], read_models=[count])
"""
"""An app with a schedule and a read model."""
