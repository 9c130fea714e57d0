"""`loom compact`, killed at any moment, loses nothing: each run is whole, and each event is told once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from loom.plugins.sqlite import SqliteStorage
from tests.services.killed import Run, compacted_while_driven, filled, hold, killed


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Run]]:
    """A store that is filled once, and what is in it."""
    path = tmp_path_factory.mktemp("runs") / "loom.db"

    async def fill() -> Mapping[str, Run]:
        store = SqliteStorage(path)
        try:
            return await filled(store)
        finally:
            await store.close()

    return path, asyncio.run(fill())


@pytest.mark.proves("LIF-05", "LIF-07", "LIF-08")
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 50))])
async def test_whatever_the_moment_nothing_is_lost(
    template: tuple[Path, Mapping[str, Run]], tmp_path: Path, seed: int
) -> None:
    shutil.copytree(template[0].parent, tmp_path / "store")
    store, archive = SqliteStorage(tmp_path / "store" / "loom.db"), SqliteStorage(tmp_path / "archive.db")

    done = killed(str(tmp_path / "store" / "loom.db"), str(tmp_path / "archive.db"), seed)

    await hold(store, archive, template[1], done=done, seed=seed)
    await store.close()
    await archive.close()


@pytest.mark.proves("LIF-05")
async def test_a_process_that_drives_a_run_meanwhile_is_not_disturbed(tmp_path: Path) -> None:
    store, archive = SqliteStorage(tmp_path / "loom.db"), SqliteStorage(tmp_path / "archive.db")

    moved = await compacted_while_driven(store, archive, str(tmp_path / "loom.db"))

    assert moved > 5
    await store.close()
    await archive.close()
