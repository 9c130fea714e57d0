"""One state has one name, whichever tool prints it: show, logs, debug, replay, deploy check, the page of inspect: no two can disagree."""

from __future__ import annotations

import asyncio
import json
import sqlite3
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


def test_the_state_at_the_last_event_is_called_by_deploy_check_as_by_the_others(desk: Path) -> None:
    assert loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", "-q", folder=desk).status == 3
    logged = [loom("logs", "r1", "--digest", "--json", folder=desk).out.splitlines()]
    waits = loom("deploy", "check", "--json", folder=desk).json["checked"]
    assert loom("resume", "r1", "--answer", '{"approved": true}', "-q", folder=desk).status == 0
    logged.append(loom("logs", "r1", "--digest", "--json", folder=desk).out.splitlines())
    ended = loom("deploy", "check", "--json", folder=desk).json["checked"]

    for lines, [checked] in zip(logged, (waits, ended), strict=True):
        last = json.loads(lines[-1])
        assert (checked["id"], checked["sequence"], checked["digest"]) == ("r1", last["sequence"], last["digest"])
        shown = loom("show", "r1", "--at", str(last["sequence"]), "--json", folder=desk).json
        assert shown["digest"] == checked["digest"]
    stopped = loom("debug", "r1", "--break", "end", "--json", folder=desk).json
    [at_end] = stopped["stops"]  # of a run that has ended: before its last event, since its body has not ended yet
    assert at_end["digest"] == json.loads(logged[1][at_end["sequence"]])["digest"]
    assert stopped["verdict"]["digest"] == ended[0]["digest"]
    assert asyncio.run(inspected(desk, ended[0]["sequence"] + 1))[ended[0]["sequence"]] == ended[0]["digest"]
    replayed = loom("check", "replay", "r1", "--json", folder=desk).json
    assert replayed["digest"] == ended[0]["digest"]
    told = loom("deploy", "check", "--each", folder=desk)
    assert f"r1  safe     event {ended[0]['sequence']}" in told.out
    assert ended[0]["digest"] in told.out


def test_a_log_that_is_not_whole_has_no_digest_in_deploy_check(desk: Path) -> None:
    assert loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", "-q", folder=desk).status == 3
    raw = sqlite3.connect(desk / ".loom" / "loom.db")
    with raw:
        raw.execute("DELETE FROM events WHERE sequence = 1")
    raw.close()

    [checked] = loom("deploy", "check", "--json", folder=desk).json["checked"]

    assert (checked["verdict"], checked["digest"]) == ("damaged", None)


async def inspected(desk: Path, length: int) -> dict[int, str]:
    """Return what the page of `loom inspect` calls the state after each event."""
    storage = SqliteStorage(desk / ".loom" / "loom.db", readonly=True)
    try:
        page = Inspector(storage, now_ms=lambda: 0)
        return {n: (await page.state("r1", n))["digest"] for n in range(length)}
    finally:
        await storage.close()
