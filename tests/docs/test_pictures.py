"""The pictures of the debugger in the guide show what it draws. WRITE_GOLDEN=1 draws them anew."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, first
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import EventRecord
from loom_cli.tui.app import Debugger
from tests.docs.pages import ROOT
from tests.golden import logs

PICTURES = ROOT / "docs" / "pictures"


class Picture(NamedTuple):
    """A picture: the golden log it shows, the size of the terminal, and the keys that lead there."""

    log: str
    size: tuple[int, int]
    keys: Sequence[str]


SHOWN = {
    "debug-state": Picture("blocks", (132, 34), ["g", *["j"] * 22]),
    "debug-changes": Picture("gates", (80, 24), ["2", "g", *["j"] * 3, "m", *["j"] * 4]),
    "debug-error": Picture("failures", (110, 32), ["3", "g", "f"]),
    "debug-calls": Picture("retried", (132, 30), ["4"]),
    "debug-help": Picture("hello", (100, 40), ["question_mark"]),
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    for name in ("NO_COLOR", "COLORTERM", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", SHOWN)
async def test_a_picture_shows_what_the_debugger_draws(name: str, tmp_path: Path) -> None:
    drawn = await picture(SHOWN[name], tmp_path)
    file = PICTURES / f"{name}.svg"

    if os.environ.get("WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(drawn, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == drawn


def test_every_picture_is_shown_in_a_page_and_drawn_here() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "guide").glob("*.md"))

    assert {file.stem for file in PICTURES.glob("debug-*.svg")} == set(SHOWN)
    assert [name for name in SHOWN if f"../pictures/{name}.svg" not in pages] == []


async def picture(shown: Picture, folder: Path) -> str:
    """Return the SVG of the debugger, without what differs from one time to the next."""
    await keep(folder / "golden.db", logs.read(shown.log).log)
    storage = SqliteStorage(folder / "golden.db", readonly=True)
    app = Debugger(storage, "refund-7", now_ms=lambda: 1_700_000_900_000, folder=folder)
    async with app.run_test(size=shown.size) as pilot:
        while not app.log_.is_read:
            await pilot.pause()
        for key in shown.keys:
            await pilot.press(key)
        await pilot.pause()
        svg = app.export_screenshot(title="loom debug refund-7")
    await storage.close()
    return re.sub(r"terminal-\d+", "terminal", svg)


async def keep(path: Path, log: Sequence[EventRecord]) -> None:
    """Write *log* to a store, as that of a refund."""
    storage = SqliteStorage(path)
    item = first(ExecutionId("refund-7"), index=INDEX)
    item.events = log
    await storage.append([item])
    await storage.close()
