"""One state has one name, whichever tool prints it: show, logs, debug, replay, the page of inspect, and why no two can disagree."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from loom.plugins.sqlite import SqliteStorage
from loom_cli.web.inspector import Inspector
from tests.loom_cli.terminal import loom


def test_the_state_at_an_event_is_called_alike_by_show_replay_debug_and_inspect(desk: Path) -> None:
    assert loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", "-q", folder=desk).status == 3
    assert loom("resume", "r1", "--answer", '{"approved": true}', "-q", folder=desk).status == 0
    proof = loom("replay", "r1", "--prove", "--json", folder=desk).json

    shown = {
        n: loom("show", "r1", "--at", str(n), "--json", folder=desk).json["digest"] for n in range(len(proof["events"]))
    }
    logged = [json.loads(line) for line in loom("logs", "r1", "--digest", "--json", folder=desk).out.splitlines()]
    replayed = {line["sequence"]: line["state"] for line in proof["events"]}
    stops = loom("debug", "r1", "--step", "--break", "after:approval", "--break", "end", "--json", folder=desk).json[
        "stops"
    ]
    stood = {stop["sequence"] - (stop["when"] == "before"): stop["digest"] for stop in stops}

    assert len(set(shown.values())) == len(shown) > 5
    assert replayed == shown
    assert {event["sequence"]: event["digest"] for event in logged} == shown
    assert len(stood) > 3
    assert stood.items() <= shown.items()
    assert asyncio.run(inspected(desk, len(shown))) == shown


async def inspected(desk: Path, length: int) -> dict[int, str]:
    """Return what the page of `loom inspect` calls the state after each event."""
    storage = SqliteStorage(desk / ".loom" / "loom.db", readonly=True)
    try:
        page = Inspector(storage, now_ms=lambda: 0)
        return {n: (await page.state("r1", n))["digest"] for n in range(length)}
    finally:
        await storage.close()
