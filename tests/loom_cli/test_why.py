"""`loom why` on the story's runs: what was asked and where it is from, in words and as JSON."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import loom
from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import loom as typed


def test_a_call_that_waits_is_explained_by_what_is_shown_there(project: Project) -> None:
    done = typed("why", "refund-42", folder=project.folder)

    assert done.status == ExitCode.DONE
    assert done.out.startswith("approval  event ")
    assert any(
        line.strip().startswith("show.claim") and "the input (event 0)" in line for line in done.out.splitlines()
    )
    assert "from outside the flow by then, and nothing declares it trusted: 1 decision, 4 steps, 1 input" in done.out


def test_everything_is_listed_when_that_is_asked_for(project: Project) -> None:
    done = typed("why", "refund-42", "--all", folder=project.folder)

    assert "the input" in done.out
    assert "not seen in it" in done.out or "may be in it" in done.out or "is in it" in done.out


@pytest.mark.parametrize("run", ["refund-41", "refund-42", "broken-1", "payout-1"])
def test_it_is_the_same_as_json(project: Project, run: str) -> None:
    [*found] = typed("why", run, "--json", folder=project.folder).json

    assert {each["run"] for each in found} == {run}
    for each in found:
        assert all(source["sequence"] < (each["call"] or {"start": 10**6})["start"] for source in each["seen"])


def test_no_text_of_a_run_drives_the_terminal(project: Project) -> None:
    runs = typed("ps", "--json", "--limit", "100", folder=project.folder).json
    for run in runs:
        done = typed("why", run["id"], "--all", folder=project.folder)
        assert done.status == ExitCode.DONE, done
        assert not set(done.out) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_call_that_was_never_asked_is_refused_in_words(project: Project) -> None:
    done = typed("why", "refund-42", "approvall", folder=project.folder)

    assert done.status == ExitCode.NOT_FOUND
    assert "Did you mean" in done.err


@loom.step
async def weigh(n: int) -> dict[str, Any]:
    return {"parcel": f"parcel number {n}", "grams": 10_000 + n}


@loom.step(retry=loom.Retry(attempts=1))
async def ship(parcels: list[dict[str, Any]], note: str) -> str:
    raise ValueError("too heavy")


@loom.flow
async def post(ctx: loom.Context, note: str) -> str:
    return await ctx.run(ship, list(await ctx.map(weigh, range(240), limit=240)), note)


@pytest.fixture
def posted(tmp_path: Path) -> Path:
    """A folder with a store in which a run of some 500 events has failed."""

    async def run() -> None:
        (tmp_path / ".loom").mkdir()
        async with loom.define_config(flows=[post], storage=loom.sqlite_storage(tmp_path / ".loom/loom.db")) as app:
            await app.runtime.start(post, "by the back door", id="post-1")

    asyncio.run(run())
    return tmp_path


def test_the_answer_for_a_run_of_500_events_fits_a_screen(posted: Path) -> None:
    short = typed("why", "post-1", folder=posted)
    whole = typed("why", "post-1", "--all", folder=posted)

    assert len(short.out.splitlines()) < 40
    assert len(whole.out.splitlines()) > 240
    assert "parcels[2]" in short.out
    assert "237 more like parcels[239] (--all shows them, --part parcels[239] one)" in short.out
    assert "note" in short.out, "what is of another kind is told"


def test_one_part_is_explained_by_itself(posted: Path) -> None:
    one = typed("why", "post-1", "--part", "parcels[100]", folder=posted)
    inner = typed("why", "post-1", "--part", "parcels[100].grams", "--json", folder=posted).json
    none = typed("why", "post-1", "--part", "parcel", folder=posted)

    assert "parcels[100]" in one.out
    assert "parcels[101]" not in one.out
    assert "note" not in one.out
    assert "map/100/weigh" in one.out
    assert [part["path"] for part in inner[0]["parts"]] == ["parcels[100]"]
    assert none.status == ExitCode.USAGE
    assert "there is no part 'parcel' of it" in none.err
    assert "Its parts are parcels[0], " in none.err
