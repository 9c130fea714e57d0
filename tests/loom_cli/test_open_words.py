"""What an author calls things is theirs: the kernel and the command show words that they have never heard of."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.plugins.sqlite import SqliteStorage
from loom.spi import Append
from tests.golden import logs
from tests.golden.make import INDEX
from tests.loom_cli.projects import loom as command

RUN = "run-1"

METERED = "meter.tokens-in/\u00e9.v2"


@loom.flow
async def metered(ctx: loom.Context) -> None:
    await ctx.emit(METERED, {"unit": "carats", "amount": 12})


def drive(folder: Path) -> list[Any]:
    async def run() -> list[Any]:
        async with loom.define_config(flows=[metered], storage=SqliteStorage(folder / ".loom" / "loom.db")) as app:
            await app.runtime.start(metered, id=RUN)
            state = await app.runtime.load_state(RUN)
            return [settled.outcome for settled in state.settled]

    return asyncio.run(run())


@pytest.mark.proves("KER-22")
def test_an_event_type_that_only_its_author_knows_is_folded_and_shown(tmp_path: Path) -> None:
    [folded] = drive(tmp_path)

    shown = command("show", RUN, "--json", folder=tmp_path).json["events"]
    logged = command("logs", RUN, "--type", f"user.{METERED}", "--json", folder=tmp_path).json
    listed = command("logs", RUN, folder=tmp_path).out

    assert (folded.type, folded.payload.data) == (f"user.{METERED}", {"unit": "carats", "amount": 12})
    assert [(each["type"], each["data"]) for each in shown] == [(folded.type, folded.payload.data)]
    assert (logged["type"], logged["payload"]["data"]["unit"]) == (folded.type, "carats")
    assert METERED in listed


@pytest.mark.proves("RPL-05")
def test_a_deliberate_second_attempt_has_an_id_of_its_own_and_shows_as_one(tmp_path: Path) -> None:
    asyncio.run(stored(tmp_path))

    steps = command("show", "golden-loops", "--json", folder=tmp_path).json["steps"]
    charges = {step["id"]: step for step in steps if step["id"].startswith("charge")}

    assert list(charges) == ["charge", "charge#retry:1"]
    assert charges["charge"]["result"] != charges["charge#retry:1"]["result"], "each has a key of its own"
    assert "charge#retry:1" in command("show", "golden-loops", folder=tmp_path).out
    assert "charge#retry:1" in command("logs", "golden-loops", folder=tmp_path).out


async def stored(folder: Path) -> None:
    golden = logs.read("loops")
    storage = SqliteStorage(folder / ".loom" / "loom.db")
    index = replace(INDEX, chain=golden.run)
    item = Append(execution_id=golden.run, incarnation=None, expected=0, append_id="x", events=golden.log, index=index)
    await storage.append([item])
    await storage.close()


APP = """
import os
import threading

import loom


@loom.step
async def where() -> list[int]:
    return [os.getpid(), threading.get_ident()]


@loom.flow
async def found(ctx: loom.Context) -> list[int]:
    return [*await ctx.run(where), os.getpid()]


app = loom.define_config(flows=[found], storage=loom.sqlite_storage())
"""


@pytest.mark.proves("CMP-03")
def test_loom_run_drives_in_its_own_process(desk: Path) -> None:
    (desk / "app.py").write_text(APP, encoding="utf-8")

    done = command("run", "found", "--json", folder=desk)

    assert done.json["result"] == [os.getpid(), threading.get_ident(), os.getpid()]
