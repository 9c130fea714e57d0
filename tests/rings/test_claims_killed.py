"""A process that claims results is killed at any moment: what a log names is there and cited, and the run comes to its end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.plugins.files import FileContent
from loom.rings.citing import named_in
from tests.rings import mortal

ROOT = Path(__file__).parents[2]
WORDS = 50


def killed(folder: Path, chance: random.Random) -> None:
    """Have the run driven by a process that is killed at a moment of *chance*'s, if it has not ended before."""
    command = [sys.executable, mortal.__file__, str(folder), "r1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(chance.randrange(1, WORDS)):
        process.stdout.readline()
    time.sleep(chance.random() * 0.003)  # somewhere between two words
    process.kill()
    _, errors = process.communicate()
    assert not errors, errors


async def faults(folder: Path) -> list[str]:
    """Return which contents a log names that are not there, or that its run does not cite."""
    content = FileContent(folder / "contents")
    async with mortal.app_in(folder, content) as app:
        found = []
        for run in await app.storage.ids():
            head = await app.storage.head(ExecutionId(run))
            assert head is not None
            events = await app.storage.read(ExecutionId(run), limit_bytes=1 << 30)
            named = {ref for event in events for ref in named_in(event.payload)}
            there = await content.get_many(named)
            citing = {
                citation.ref
                for citation in await content.citations(named)
                if citation.by.execution_id == run and citation.by.incarnation in (None, head.incarnation)
            }
            found += [f"{run} names {ref}, which is not there" for ref in named - set(there)]
            found += [f"{run} names {ref}, and does not cite it" for ref in named - citing]
        return found


@pytest.mark.proves("EFF-09", "EFF-11")
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 41))])
async def test_whatever_the_moment_what_a_log_names_is_there_and_cited(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):  # a step that three processes were lost in is left to a person
        killed(tmp_path, chance)
        assert await faults(tmp_path) == [], f"seed {seed}"

    async with mortal.app_in(tmp_path, FileContent(tmp_path / "contents")) as app:
        row = await app.storage.row(ExecutionId("r1"))
        if row is None:
            await app.runtime.start(mortal.exports, id="r1")
        elif not row.index.ended:
            await app.runtime.resume("r1")
        state = await app.runtime.load_state("r1")

    assert (state.status, state.facts.result) == ("completed", True)
    assert await faults(tmp_path) == []
