"""The zoo is whole: each flow has a row, each row a flow, and every clean flow runs as it should."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import loom
from loom.core.flow import Flow
from tests.zoo.table import BAD, CLEAN

HERE = Path(__file__).parent


def modules(folder: str) -> list[ModuleType]:
    return [importlib.import_module(f"tests.zoo.{folder}.{path.stem}") for path in sorted((HERE / folder).glob("*.py"))]


def flows(folder: str) -> dict[str, Flow[..., object]]:
    return {value.id: value for module in modules(folder) for value in vars(module).values() if isinstance(value, Flow)}


def test_each_bad_flow_has_a_row_that_says_who_catches_it() -> None:
    assert set(flows("bad")) == set(BAD)
    assert len(BAD) >= 40


def test_each_clean_flow_has_a_row() -> None:
    assert set(flows("clean")) == set(CLEAN)
    assert len(CLEAN) >= 20


@pytest.mark.parametrize("name", CLEAN)
async def test_a_clean_flow_runs(name: str) -> None:
    async with loom.define_config(flows=[flows("clean")[name]]) as app:
        outcome = await app.runtime.start(name, id="run")

    assert outcome.status == "completed"
