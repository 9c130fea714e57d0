"""`loom conformance` runs the kit of an interface against a factory of the project at hand, and ends with what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loom_cli.terminal import loom

CLOCKS = """
from loom.spi.clock import VirtualClock

class Seconds(VirtualClock):
    def now_ms(self) -> int:
        return super().now_ms() // 1000
"""


@pytest.mark.proves("GOV-02")
def test_an_adapter_that_conforms_ends_with_0_and_one_that_does_not_with_1(tmp_path: Path) -> None:
    (tmp_path / "clocks.py").write_text(CLOCKS)

    fine = loom("conformance", "clock", "clocks:VirtualClock", folder=tmp_path)
    wrong = loom("conformance", "clock", "clocks:Seconds", folder=tmp_path)

    assert (fine.status, wrong.status) == (0, 1)
    assert fine.out.splitlines()[-1] == "clocks:VirtualClock conforms: 4 of 4 checks hold"
    assert "clocks:Seconds does not conform: 1 of 4 checks hold" in wrong.out
    assert "assert now > _EARLIEST_MS" in wrong.out


def test_as_json_every_check_is_there(tmp_path: Path) -> None:
    ended = loom("conformance", "host", "loom.spi.host:SystemHost", "--json", folder=tmp_path)

    assert ended.json["kind"] == "host"
    assert [check["failure"] for check in ended.json["checks"]] == [""] * 4


@pytest.mark.parametrize(
    ("kind", "factory", "words"),
    [
        ("clok", "clocks:VirtualClock", "Did you mean clock"),
        ("clock", "nowhere:VirtualClock", "there is no module 'nowhere'"),
        ("clock", "clocks:Sundial", "has no 'Sundial'"),
        ("clock", "clocks", "not module:attribute"),
        ("scheduler", "loom.compute.scheduling:FairScheduler", "the factory needs limit"),
    ],
)
def test_what_cannot_be_held_to_anything_is_refused(kind: str, factory: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "clocks.py").write_text(CLOCKS)

    ended = loom("conformance", kind, factory, folder=tmp_path)

    assert ended.status == 2
    assert words in ended.err
    assert ended.out == ""
