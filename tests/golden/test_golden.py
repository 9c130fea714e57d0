"""Old logs are golden: every one folds, decodes and replays as it did when it was written. Add, never edit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from loom.core.middleware import EffectContext, Next
from loom.core.state import empty_state
from loom.driving.effects import EffectRuntime
from loom.kernel.codec import decode_events, encode_event
from loom.kernel.errors import LogNewerThanCode
from loom.kernel.fold import EVENTS, USER_PREFIX, fold
from loom.lenses.execution import execution_view
from loom.lenses.folding import fold_at, state_digest, states
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Append, EventRecord
from tests.golden import flows, logs
from tests.golden.logs import Golden, before_the_end
from tests.golden.make import INDEX, STORIES, Life, main, told
from tests.loom_cli.terminal import Ended
from tests.loom_cli.terminal import loom as command

NAMES: Final = logs.names()


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return logs.read(request.param)


def test_they_cover_every_type_of_event() -> None:
    types = {record.type for name in NAMES for record in logs.read(name).log}

    assert {type_ for type_ in types if not type_.startswith(USER_PREFIX)} == set(EVENTS)
    assert any(type_.startswith(USER_PREFIX) for type_ in types)


def test_every_story_is_told() -> None:
    assert set(NAMES) == set(STORIES)


@pytest.mark.proves("RPL-10")
def test_a_golden_log_folds_to_the_states_it_folded_to(golden: Golden) -> None:
    found = [state_digest(state) for state in states(golden.events)]

    assert found == golden.digests
    assert state_digest(fold(golden.events, empty_state(golden.run))) == golden.digests[-1]


@pytest.mark.proves("RPL-10")
def test_a_golden_log_is_encoded_as_it_was(golden: Golden) -> None:
    assert [encode_event(event) for event in golden.events] == golden.log


@pytest.mark.proves("RPL-10")
async def test_a_golden_log_replays_to_what_its_body_saw(golden: Golden) -> None:
    life = Life(golden.name, flows, forbidden=True)
    life.clock.advance(golden.log[-1].at - life.clock.now_ms())
    await life.hold(before_the_end(golden.log))

    await life.resume(golden.flow)

    assert life.world.saw == golden.saw
    assert life.world.acted == []
    assert ending(await life.log()) == ending(golden.log)


def ending(log: list[EventRecord]) -> Any:
    """Return what the last event of *log* says, but for tracebacks, which are another Python's."""
    payload = orjson.loads(log[-1].payload)
    payload.get("failure", {}).pop("traceback", None)
    return log[-1].type, payload


@pytest.mark.parametrize("name", NAMES)
async def test_a_golden_log_names_no_folder_of_the_machine_that_wrote_it(name: str) -> None:
    text = logs.text(logs.read(name).log)

    assert b'File \\"/' not in text
    assert logs.parsed(text) == logs.read(name).log


# What is written is never written again


def test_a_log_that_is_there_is_not_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hello.jsonl").write_text("mine")

    with pytest.raises(SystemExit) as refused:
        main(["hello", "--in", str(tmp_path)])

    assert refused.value.code == 1
    assert "never edited" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["hello.jsonl"]
    assert (tmp_path / "hello.jsonl").read_text() == "mine"
    with pytest.raises(FileExistsError):
        logs.write(logs.read("hello"), tmp_path)


# With clock and chance fixed, a log is the same bytes whatever is wired beside it


async def passing(effect: EffectContext, arguments: dict[str, Any], call_next: Next) -> Any:
    await asyncio.sleep(0)
    return await call_next(arguments)


def beside() -> dict[str, dict[str, Any]]:
    """Return what may be wired beside a run and decides nothing."""

    async def resources() -> dict[str, Any]:
        return {"model": object()}

    def listen(*_: Any) -> None: ...

    return {
        "nothing": {},
        "listeners": {"on_event": listen, "on_durable_event": listen, "on_stream": listen},
        "middleware": {"effects": EffectRuntime([passing, passing])},
        "resources": {"resources": resources},
        "writing behind": {"write_behind": True},
    }


@pytest.mark.proves("PRN-12")
@pytest.mark.parametrize("wired", beside())
async def test_the_log_of_hello_is_byte_for_byte_the_golden_one(wired: str) -> None:
    again = await told("hello", flows, **beside()[wired])

    assert logs.text(again.log) == logs.text(logs.read("hello").log)
    assert again == logs.read("hello")


# Logs of a newer Loom are shown and not driven


def newer_rules(log: list[EventRecord]) -> None:
    fields = orjson.loads(log[0].payload)
    fields["rules"]["delivery"] += 1
    log[0] = log[0]._replace(payload=orjson.dumps(fields))


def unknown_rules(log: list[EventRecord]) -> None:
    fields = orjson.loads(log[0].payload)
    fields["rules"]["dreaming"] = 1
    log[0] = log[0]._replace(payload=orjson.dumps(fields))


def unknown_type(log: list[EventRecord]) -> None:
    log[1] = log[1]._replace(type="STEP_DREAMT")


def newer_version(log: list[EventRecord]) -> None:
    log[2] = log[2]._replace(metadata=b'{"v":2}', payload=b'{"beginning":1,"dream":null}')


def newer_start(log: list[EventRecord]) -> None:
    fields = orjson.loads(log[0].payload)
    log[0] = log[0]._replace(metadata=b'{"v":2}', payload=orjson.dumps({**fields, "dream": 1}))


NEWER: Final = [newer_rules, unknown_rules, unknown_type, newer_version, newer_start]
Change = Callable[[list[EventRecord]], None]


def changed(change: Change) -> Golden:
    """Return the log of hello, cut before its end, as a newer Loom would have written it."""
    golden = logs.read("hello")
    log = before_the_end(golden.log)
    change(log)
    return golden._replace(log=log)


@pytest.mark.proves("RPL-10")
@pytest.mark.parametrize("change", NEWER)
async def test_a_log_of_a_newer_loom_is_not_driven(change: Change) -> None:
    newer = changed(change)
    life = Life(newer.name, flows, forbidden=True)
    await life.hold(newer.log)

    with pytest.raises(LogNewerThanCode):
        await life.resume(newer.flow)

    assert await life.log() == newer.log
    assert life.world.saw == []


@pytest.mark.parametrize("change", NEWER)
def test_a_log_of_a_newer_loom_is_shown_by_the_lenses(change: Change) -> None:
    events = decode_events(changed(change).run, changed(change).log)

    view = execution_view(fold_at(events), events)

    assert (view.sequence, view.flow) == (len(events) - 1, "hello")


@pytest.mark.parametrize("change", NEWER)
@pytest.mark.parametrize("arguments", [("show",), ("show", "--json"), ("logs",), ("logs", "--json")])
def test_a_log_of_a_newer_loom_is_shown_by_the_command(
    change: Change, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    newer = changed(change)
    asyncio.run(stored(newer, tmp_path / ".loom" / "loom.db"))

    shown: Ended = command(arguments[0], newer.run, *arguments[1:], folder=tmp_path)

    assert (shown.status, shown.err) == (0, "")
    assert "hello" in shown.out


async def stored(golden: Golden, path: Path) -> None:
    path.parent.mkdir()
    storage = SqliteStorage(path)
    item = Append(
        execution_id=golden.run,
        incarnation=None,
        expected=0,
        append_id="golden",
        events=golden.log,
        index=replace(INDEX, chain=golden.run),
    )
    await storage.append([item])
    await storage.close()
