"""`--where` by what the rows of read models have."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.forked import Forks
from tests.loom_cli.projects import loom
from tests.loom_cli.terminal import process

APP = """
from typing import Any, TypedDict

import loom


class Totals(TypedDict):
    cost: float
    length: int


@loom.step
async def pay(cost: float) -> float:
    if cost > 2:
        raise ValueError("too much")
    return cost


@loom.flow
async def buy(ctx: loom.Context, cost: float) -> float:
    return await ctx.run(pay, cost)


@loom.read_model
def totals(row: Totals | None, event: loom.EventEnvelope[Any]) -> Totals | None:
    if event.type == "EXECUTION_STARTED":
        return {"cost": event.payload.input, "length": 7}
    return row


@loom.read_model
def bills(row: dict[str, Any] | None, event: loom.EventEnvelope[Any]) -> dict[str, Any] | None:
    return {"payer": "ada", "cost": 0} if MORE else None


MORE = False
app = loom.define_config(flows=[buy], read_models=[totals, bills], storage=loom.sqlite_storage())
"""


@pytest.fixture(scope="module")
def _opened(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "app.py").write_text(APP, encoding="utf-8")
    for cost in ("1.5", "2.5", "3"):
        process("run", "buy", "--id", f"b-{cost[0]}", "--input", cost, "--quiet", folder=folder, forks=forks)
    assert process("rows", "update", folder=folder, forks=forks).status == 0
    return folder


@pytest.fixture
def shop(_opened: Path, tmp_path: Path) -> Path:
    """A folder of the test's own with an app, three runs of it, and their rows."""
    shutil.copytree(_opened, tmp_path, dirs_exist_ok=True)
    return tmp_path


def found(folder: Path, where: str) -> list[str]:
    return [row["id"] for row in loom("ps", "--where", where, "--json", folder=folder).json]


@pytest.mark.proves("STO-08")
def test_runs_are_found_by_what_their_rows_have_in_another_process(shop: Path) -> None:
    assert found(shop, "status=failed and cost>1") == ["b-3", "b-2"]
    assert found(shop, "status=failed and cost > 2.5") == ["b-3"]
    assert found(shop, "totals.cost in (1.5, 2.5) or id = b-3") == ["b-3", "b-2", "b-1"]
    assert found(shop, "totals.length = 7 and length > 100") == []
    again = process("ps", "--where", "status=failed and cost>1", "--json", folder=shop)
    assert [row["id"] for row in again.json] == ["b-3", "b-2"]


def test_a_row_that_is_no_json_hides_its_own_run_alone(shop: Path) -> None:
    with closing(sqlite3.connect(shop / ".loom" / "loom.db")) as raw, raw:
        raw.execute("UPDATE model_rows SET body = CAST('{' AS BLOB) WHERE instr(CAST(body AS TEXT), '2.5')")

    found = loom("ps", "--where", "cost > 1", "--json", folder=shop)

    assert sorted(row["id"] for row in found.json) == ["b-1", "b-3"]


def test_a_name_that_no_row_has_is_refused_with_those_that_there_are(shop: Path) -> None:
    typed, column = loom("ps", "--where", "coast>1", folder=shop), loom("ps", "--where", "totals.coast>1", folder=shop)

    assert typed.status == column.status == 2
    assert "runs have no field 'coast'" in typed.err
    assert "and attr.NAME for an attribute; of totals: cost, length." in typed.err
    assert "the rows of totals have no 'coast'" in column.err
    assert "They have cost, length." in column.err


def test_a_name_that_two_models_have_is_not_guessed(shop: Path, forks: Forks) -> None:
    code = (shop / "app.py").read_text()
    (shop / "app.py").write_text(code.replace("MORE = False", "MORE = True").replace("event.type ==", "event.type  =="))
    process("rows", "update", "--afresh", folder=shop, forks=forks)

    refused = loom("ps", "--where", "cost > 0", folder=shop)

    assert refused.status == 2
    assert "several read models have 'cost'" in refused.err
    assert "Write bills.cost or totals.cost." in refused.err
    assert found(shop, "bills.cost > 0 or payer = nobody") == []


def test_a_store_without_rows_says_what_a_run_has(shop: Path, forks: Forks) -> None:
    process("rows", "erase", "--where", "cost > 0", "--yes", folder=shop, forks=forks)

    refused = loom("ps", "--where", "cost > 0", folder=shop)

    assert refused.status == 2
    assert "runs have no field 'cost'" in refused.err


def test_what_is_spelt_like_what_rows_have_is_opened_before_what_is_less_like_it(shop: Path) -> None:
    assert "Did you mean cost?" in loom("ps", "--where", "csot > 1", folder=shop).err


def test_a_list_of_nothing_says_how_many_runs_have_no_row_to_ask(shop: Path, forks: Forks) -> None:
    for run in ("new-1", "new-2"):
        process("run", "buy", "--id", run, "--input", "1", "--quiet", folder=shop, forks=forks)

    none = loom("ps", "--where", "cost > 100", folder=shop)
    some = loom("ps", "--where", "cost > 1", folder=shop)

    assert (none.status, none.out) == (0, "")
    assert "2 runs have no row in totals: `loom rows update` makes what is missing\n" in none.err
    assert "have no row" not in some.err
