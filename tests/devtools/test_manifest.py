"""The manifest says what the code is, and what is committed says the same."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import loom
from loom.devtools.manifest import MATURITIES, ROOMS, manifest, maturity, text
from loom.kernel.context import KERNEL_ABI, Context
from loom.kernel.fold import EVENTS

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "reference" / "kernel-manifest.json"
MATURITY = ROOT / "docs" / "reference" / "maturity.md"


@pytest.mark.proves("GOV-01", "KER-24")
def test_the_committed_manifest_is_that_of_the_code() -> None:
    assert COMMITTED.read_text("utf-8") == text(manifest()), (
        "write it anew: python -m loom.devtools.manifest > docs/reference/kernel-manifest.json"
    )
    assert json.loads(COMMITTED.read_text("utf-8")) == manifest()


@pytest.mark.proves("GOV-01")
def test_the_rooms_are_those_of_the_import_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {each["id"]: each for each in config["tool"]["importlinter"]["contracts"]}
    layers = [
        {name.strip() for name in line.split("|") if not name.strip().startswith("(")}
        for line in reversed(contracts["rooms"]["layers"])
    ]

    assert [set(layer) for layer in ROOMS] == [layer for layer in layers if layer]
    assert {room["name"] for room in manifest()["rooms"]} == {
        path.parent.name for path in Path(loom.__file__).parent.glob("*/__init__.py")
    }


@pytest.mark.proves("RNG-01", "RNG-07")
def test_verbs_and_events_are_data() -> None:
    contracts = manifest()["contracts"]

    abi = contracts["KERNEL_ABI"]
    assert abi["version"] == KERNEL_ABI
    assert {"run", "suspend", "receive", "now"} <= set(abi["shape"]) <= {*vars(Context), *dir(Context), *abi["shape"]}
    assert set(contracts["EVENT_SCHEMA_VERSION"]["shape"]["events"]) == set(EVENTS)
    assert manifest()["upcasters"] == {}


def test_it_is_printed_as_a_module() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "loom.devtools.manifest"], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert printed.stdout == COMMITTED.read_text("utf-8")


@pytest.mark.proves("GOV-06")
def test_each_package_states_its_maturity_and_the_page_says_the_same() -> None:
    packages = [f"loom.{name}" for layer in ROOMS for name in layer] + ["loom_cli"]
    packages += [f"loom.plugins.{path.parent.name}" for path in (ROOT / "loom/plugins").glob("*/__init__.py")]
    rows = [line.split("|") for line in MATURITY.read_text("utf-8").splitlines() if line.startswith("| `")]
    told = {name.strip(" `"): word.strip() for _, name, word, *_ in rows}

    assert told == {package: maturity(package) for package in packages}
    assert set(told.values()) <= set(MATURITIES)


def test_a_package_that_does_not_say_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loom.lenses, "__maturity__", "great")

    with pytest.raises(LookupError, match=r"loom\.lenses\.__maturity__ is 'great', and none of experimental, beta"):
        maturity("loom.lenses")
