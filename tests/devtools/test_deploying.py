"""Old logs, new flow definitions, and what is said of the difference."""

from __future__ import annotations

import asyncio
import linecache
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

import loom
from loom.core.ids import ExecutionId
from loom.devtools.bundles import BundleUnreadable, lines_of, runs_of
from loom.devtools.deploying import Checking, StoredRun, family, report_of
from loom.driving.stored_log import stored_records
from loom.driving.verdicts import Verdict
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.devtools.changes import CHANGED, Claim, refund, unsteady
from tests.golden import logs

WAITING, DONE = "waiting", "done"

VERDICTS: Final[dict[str, tuple[str, str]]] = {
    "another result": ("migrates", "migrates, ends otherwise"),
    "a step at the end": ("migrates", "migrates, ends otherwise"),
    "a step at the beginning": ("breaks at assess", "breaks at assess"),
    "a step less at the end": ("migrates", "breaks at notify"),
    "two steps in another order": ("breaks at assess", "breaks at assess"),
    "a step of another kind": ("breaks at assess", "breaks at assess"),
    "a step with another name": ("breaks at assess", "breaks at assess"),
    "other arguments": ("migrates, 1 noted", "migrates, 1 noted"),
    "other arguments of what runs once": ("migrates", "breaks at pay"),
    "another question": ("breaks at approval", "breaks at approval"),
    "a new argument with a default": ("migrates", "migrates"),
    "a new field with a default": ("migrates", "migrates"),
    "a new field without a default": ("unreadable at event 0", "unreadable at event 0"),
    "a result of another type": ("breaks at approval", "breaks at approval"),
    "a crash at the end": ("migrates", "breaks, ends otherwise"),
    "a crash at the beginning": ("breaks at assess", "breaks at assess"),
    "a patch": ("migrates", "migrates"),
    "a draw that is new": ("migrates", "migrates"),
    "a branch round a step": ("breaks at assess", "breaks at assess"),
}
"""By the kind of change: what becomes of a run that waits at its gate, and of one that has ended."""


async def recorded() -> dict[str, list[EventRecord]]:
    """Return the logs of the flow as it was deployed: of a run that waits, and of one that has ended."""
    storage = MemoryStorage()
    app = loom.define_config(flows=[refund], storage=storage)
    await app.runtime.start(refund, Claim(amount=7), id=WAITING)
    await app.runtime.start(refund, Claim(amount=7), id=DONE)
    await app.runtime.resume(DONE, answer=True)
    return {run: await stored_records(storage, ExecutionId(run)) for run in (WAITING, DONE)}


async def verdict_on(flow: loom.Flow[Any, Any] | None, run: str, log: Sequence[EventRecord], **known: Any) -> Verdict:
    checking = Checking({flow.id: flow} if flow is not None else {})
    return (await checking.replayed(StoredRun(run, log, **known))).verdict


def told(verdict: Verdict) -> str:
    at = f" at {verdict.step}" if verdict.step else ""
    if verdict.kind == "unreadable":
        at += f"{',' if at else ' at'} event {verdict.sequence}"
    noted = f", {len(verdict.differences)} noted" if verdict.differences else ""
    return f"{verdict.kind}{at}{noted}{', ends otherwise' if verdict.end else ''}"


# -- kinds of change --------------------------------------------------------------------------------------------------


def test_every_change_has_its_verdicts() -> None:
    assert CHANGED.keys() == VERDICTS.keys()


@pytest.mark.proves("TST-10")
@pytest.mark.parametrize("change", VERDICTS)
async def test_a_change_has_its_verdict_on_a_run_that_waits_and_on_one_that_has_ended(change: str) -> None:
    log = await recorded()

    found = [await verdict_on(CHANGED[change], run, log[run]) for run in (WAITING, DONE)]

    assert [told(verdict) for verdict in found] == list(VERDICTS[change])
    for verdict in found:
        if verdict.kind == "breaks":
            assert Path(verdict.where.rpartition(":")[0]).name == "changes.py"
            assert verdict.why


@pytest.mark.proves("TST-10")
@pytest.mark.parametrize("change", VERDICTS)
async def test_the_verdict_on_a_run_that_waits_is_what_becomes_of_it(change: str) -> None:
    storage = MemoryStorage()
    before = loom.define_config(flows=[refund], storage=storage)
    await before.runtime.start(refund, Claim(amount=7), id=WAITING)
    verdict = await verdict_on(CHANGED[change], WAITING, await stored_records(storage, ExecutionId(WAITING)))
    after = loom.define_config(flows=[CHANGED[change]], storage=storage)

    refused: loom.LoomError | None = None
    try:
        await after.runtime.resume(WAITING, answer=True)
    except loom.LoomError as error:
        refused = error

    migrated = [e.payload for e in await after.runtime.events(WAITING) if e.type == "EXECUTION_MIGRATED"]
    assert verdict.is_fine is (refused is None)
    assert [fact.differences for fact in migrated] == ([list(verdict.differences)] if verdict.is_fine else [])


async def test_the_same_code_is_safe() -> None:
    for run, log in (await recorded()).items():
        assert told(await verdict_on(refund, run, log)) == "same"


@pytest.mark.proves("RPL-07")
async def test_both_sides_of_a_break_are_told_with_the_line_that_asks() -> None:
    log = await recorded()

    verdict = await verdict_on(CHANGED["two steps in another order"], WAITING, log[WAITING])

    assert verdict.recorded is not None
    assert verdict.asked is not None
    assert (verdict.recorded["kind"], verdict.recorded["id"], verdict.sequence) == ("STEP_STARTED", "assess", 1)
    assert (verdict.asked["kind"], verdict.asked["id"]) == ("GATE_OPENED", "approval")
    file, _, line = verdict.where.rpartition(":")
    assert "suspend" in linecache.getline(file, int(line))


async def test_what_reads_the_world_breaks_with_the_same_code() -> None:
    storage = MemoryStorage()
    app = loom.define_config(flows=[unsteady], storage=storage)
    await app.runtime.start(unsteady, id="r")
    log = await stored_records(storage, ExecutionId("r"))

    verdict = await verdict_on(unsteady, "r", log)

    assert told(verdict) == "breaks at notify"
    assert "clock, randomness" in verdict.why


# -- logs that are not what they should be ----------------------------------------------------------------------------


async def test_a_flow_that_is_gone_and_a_log_that_is_newer_are_told_as_such() -> None:
    log = (await recorded())[DONE]
    newer = [*log[:2], log[2]._replace(type="STEP_IMAGINED"), *log[3:]]

    gone, unknown = await verdict_on(None, DONE, log), await verdict_on(refund, DONE, newer)

    assert (gone.kind, gone.flow) == ("flow_missing", "refund")
    assert (unknown.kind, unknown.sequence) == ("newer", 2)
    assert "STEP_IMAGINED" in unknown.why


DAMAGED: Final[dict[str, Any]] = {
    "nothing": lambda log: [],
    "no beginning": lambda log: log[1:],
    "a gap": lambda log: [*log[:3], *log[4:]],
    "a tail that is missing": lambda log: log[:-1],
    "bytes that are no JSON": lambda log: [*log[:2], log[2]._replace(payload=b"\xff{"), *log[3:]],
    "a payload that is no object": lambda log: [*log[:2], log[2]._replace(payload=b"[]"), *log[3:]],
    "metadata that is no object": lambda log: [*log[:2], log[2]._replace(metadata=b"1"), *log[3:]],
    "an outcome of nothing": lambda log: [*log[:2], log[2]._replace(payload=b'{"start":5}'), *log[3:]],
    "an id that is no text": lambda log: [*log[:1], log[1]._replace(payload=b'{"id":1,"ordinal":0,"digest":""}')],
    "a time that is none": lambda log: [*log[:2], log[2]._replace(at="noon"), *log[3:]],
    "two ends": lambda log: [*log, log[-1]._replace(sequence=len(log))],
    "rules that are no numbers": lambda log: [
        log[0]._replace(payload=orjson.dumps({**orjson.loads(log[0].payload), "rules": {"identity": "new"}})),
        *log[1:],
    ],
}


@pytest.mark.parametrize("damage", DAMAGED)
async def test_a_log_that_is_not_whole_is_told_as_such(damage: str) -> None:
    log = (await recorded())[DONE]

    verdict = await verdict_on(refund, DONE, DAMAGED[damage](log), length=len(log))

    assert verdict.kind == "damaged"
    assert verdict.sequence is not None
    assert verdict.why


# -- the report -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CLI-10")
def test_a_thousand_runs_that_break_alike_are_one_finding() -> None:
    asked = {"kind": "STEP_STARTED", "id": "rate", "where": "flow.py:3"}
    verdicts = [
        Verdict(
            id=f"run-{n}",
            kind="breaks",
            flow="refund",
            step=f"map/{n}/assess#{n}",
            sequence=n,
            recorded={"kind": "STEP_STARTED", "id": f"map/{n}/assess#{n}", "args": {"n": n}},
            asked=asked,
            where="flow.py:3",
        )
        for n in range(1_000)
    ]
    safe = Verdict(id="safe", kind="same", flow="refund")
    other = replace(verdicts[0], id="other", where="flow.py:9")

    report = report_of([*verdicts, safe, other])

    assert [(each.step, each.count, each.samples[:2]) for each in report.findings] == [
        ("map/*/assess", 1_000, ("run-0", "run-1")),
        ("map/*/assess", 1, ("other",)),
    ]
    assert (report.runs, report.counts["same"], report.counts["breaks"]) == (1_002, 1, 1_001)
    assert not report.is_safe


@pytest.mark.parametrize(
    ("identity", "of"),
    [
        ("fetch#2", "fetch"),
        ("map#1/3/map/4/x#order-7", "map/*/map/*/x"),
        ("a/b/c", "a/b/c"),
    ],
)
def test_a_family_is_an_identity_without_what_data_decides(identity: str, of: str) -> None:
    assert family(identity) == of


# -- bundles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", logs.names())
def test_a_bundle_gives_back_the_very_records(name: str, tmp_path: Path) -> None:
    golden = logs.read(name)
    (tmp_path / f"{name}.jsonl").write_bytes(lines_of(golden.run, golden.log))

    [run] = runs_of(tmp_path)

    assert (run.id, list(run.records)) == (golden.run, golden.log)


def test_a_file_may_hold_the_links_of_a_chain_and_a_line_that_is_no_event_is_a_fault(tmp_path: Path) -> None:
    golden = logs.read("hello")
    (tmp_path / "a.jsonl").write_bytes(lines_of("a", golden.log) + lines_of("a~2", golden.log))
    (tmp_path / "b.jsonl").write_bytes(lines_of("b", golden.log)[:-9])
    (tmp_path / "notes.txt").write_text("no log", encoding="utf-8")

    runs = list(runs_of(tmp_path))

    assert [(run.id, len(run.records), bool(run.fault)) for run in runs] == [
        ("a", 4, False),
        ("a~2", 4, False),
        ("b", 0, True),
    ]
    assert runs[-1].fault.startswith("b.jsonl:4 is no event")


def test_an_export_that_failed_is_a_run_that_nobody_knows_to_be_safe(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.jsonl")

    runs = list(runs_of(tmp_path))

    assert [run.fault for run in runs] == [
        "empty.jsonl holds no event",
        "folder.jsonl cannot be read: it is no file",
        "gone.jsonl cannot be read: No such file or directory",
        "pipe.jsonl cannot be read: it is no file",
    ]


def test_a_folder_without_logs_is_no_bundle(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(BundleUnreadable, match=str(folder)):
            list(runs_of(folder))


# -- cut off from the world -------------------------------------------------------------------------------------------


async def _connects() -> None:
    with socket.socket() as there:
        there.connect(("127.0.0.1", 9))


async def _looks_up() -> None:
    socket.getaddrinfo("localhost", 9)


async def _opens_asynchronously() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def _begins_a_process() -> None:
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", ""], check=True)


async def _swallows() -> None:
    try:
        await _connects()
    except Exception:  # noqa: BLE001  # as authors do
        return


REACHING: Final[dict[str, Any]] = {"how": None}


@loom.flow
async def reaching(ctx: loom.Context) -> None:
    """A flow that reaches for the world, where it is told how."""
    if REACHING["how"] is not None:
        await REACHING["how"]()


@pytest.mark.proves("BEY-19")
@pytest.mark.parametrize("how", [_connects, _looks_up, _opens_asynchronously, _begins_a_process, _swallows])
async def test_a_replay_is_cut_off_from_the_world_and_says_who_reached_for_it(how: Any) -> None:
    storage = MemoryStorage()
    await loom.define_config(flows=[reaching], storage=storage).runtime.start(reaching, id="r")
    log = await stored_records(storage, ExecutionId("r"))
    REACHING["how"] = how

    try:
        verdict = await verdict_on(reaching, "r", log)
    finally:
        REACHING["how"] = None

    assert verdict.kind == "breaks"
    assert "only a step may" in verdict.why
    if how is not _begins_a_process:  # its thread stands in no line of the author's
        assert Path(verdict.where.rpartition(":")[0]) == Path(__file__)
    with socket.socket() as there:
        assert there.connect_ex(("127.0.0.1", 9)) != 0  # refused by nobody but the machine


async def test_verdicts_come_one_by_one() -> None:
    async def runs() -> AsyncIterator[StoredRun]:
        for run, log in (await recorded()).items():
            yield StoredRun(run, log)
        yield StoredRun("lost", (), fault="its rows are damaged")

    found = [verdict async for verdict in Checking({"refund": refund}).verdicts(runs())]

    assert [(verdict.id, verdict.kind) for verdict in found] == [
        (WAITING, "same"),
        (DONE, "same"),
        ("lost", "damaged"),
    ]


@pytest.mark.parametrize(("on_change", "kind"), [("check", "breaks"), ("refuse", "breaks"), ("allow", "same")])
async def test_an_app_that_allows_other_arguments_is_checked_as_one(on_change: Any, kind: str) -> None:
    storage = MemoryStorage()
    await loom.define_config(flows=[unsteady], storage=storage).runtime.start(unsteady, id="r")
    log = await stored_records(storage, ExecutionId("r"))

    checking = Checking({"unsteady": unsteady}, on_change=on_change)
    verdict = (await checking.replayed(StoredRun("r", log))).verdict

    assert (verdict.kind, len(verdict.differences)) == (kind, int(kind == "same"))
