"""The shipped fleet is what its generator makes, and it is ill from the deploy on."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import make_data
from fleet import DATA, Fleet


def rows(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as fleet:
        tables = [
            name for (name,) in fleet.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        return {table: fleet.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall() for table in tables}


def test_the_data_is_what_the_generator_makes(tmp_path: Path) -> None:
    make_data.make(tmp_path / "fleet.db")

    assert rows(tmp_path / "fleet.db") == rows(DATA)


def test_another_seed_makes_other_data(tmp_path: Path) -> None:
    make_data.make(tmp_path / "fleet.db", seed=12)

    assert rows(tmp_path / "fleet.db")["metrics"] != rows(DATA)["metrics"]


def test_it_is_well_until_the_deploy() -> None:
    fleet = Fleet(DATA)

    before = fleet.rates("checkout", "version", (0, 93))
    after = fleet.rates("checkout", "version", (97, 119))

    assert [rate.name for rate in before] == ["v41"]
    assert before[0].errors_percent < 0.5
    assert {rate.name: rate.errors_percent > 5 for rate in after} == {"v41": False, "v42": True}
