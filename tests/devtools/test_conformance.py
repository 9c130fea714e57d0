"""The kits hold what keeps to its interface and name what does not; ours keep to it, and the command runs the same checks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loom.compute.scheduling import FairScheduler, PriorityScheduler
from loom.core.errors import InvalidDeclaration
from loom.devtools.conformance import running
from loom.devtools.conformance.running import KITS, Check
from loom.plugins.files import FileContent
from loom.plugins.sqlite import SqliteContent, SqliteStorage
from loom.spi.clock import SeededEntropy, SystemClock, SystemEntropy, VirtualClock
from loom.spi.content_memory import MemoryContent
from loom.spi.event_store import AppendResult
from loom.spi.gate_hook import GateNotice
from loom.spi.host import SystemHost, VirtualHost
from loom.spi.memory import MemoryStorage
from loom.spi.scheduler import Job


class AdaOnly:
    """Allows everything to one person."""

    async def authorize(self, principal: str | None, action: str, execution_id: str, flow: str) -> str | None:
        return None if principal == "ada" else f"only ada may {action}"


def sqlite(folder: Path, clock: VirtualClock) -> SqliteStorage:
    return SqliteStorage(folder / "loom.db", clock=clock)


class Noting:
    """A hook that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[GateNotice] = []

    def wants(self, flow: str) -> bool:
        return flow == "refund"

    async def tell(self, notice: GateNotice) -> None:
        self.told.append(notice)


OURS: dict[str, tuple[str, Callable[..., Any]]] = {
    "memory": ("event-store", MemoryStorage),
    "memory-archive": ("archive-store", MemoryStorage),
    "memory-refs": ("ref-store", MemoryStorage),
    "memory-forks": ("event-fork", MemoryStorage),
    "memory-import": ("event-import", MemoryStorage),
    "memory-schedules": ("schedule-store", MemoryStorage),
    "memory-lines": ("admission-store", MemoryStorage),
    "memory-trim": ("event-trim", MemoryStorage),
    "memory-changes": ("change-feed", MemoryStorage),
    "memory-snapshots": ("snapshot-store", MemoryStorage),
    "memory-models": ("read-model-store", MemoryStorage),
    "sqlite-models": ("read-model-store", sqlite),
    "sqlite-snapshots": ("snapshot-store", sqlite),
    "sqlite-schedules": ("schedule-store", sqlite),
    "memory-content": ("content-store", MemoryContent),
    "sqlite-content": ("content-store", lambda folder, clock: SqliteContent(folder / "loom.db", clock=clock)),
    "file-content": ("content-store", lambda folder, clock: FileContent(folder / "content", clock=clock)),
    "system-clock": ("clock", SystemClock),
    "virtual-clock": ("clock", VirtualClock),
    "system-entropy": ("entropy", SystemEntropy),
    "seeded-entropy": ("entropy", partial(SeededEntropy, 7)),
    "system-host": ("host", SystemHost),
    "virtual-host": ("host", VirtualHost),
    "priority": ("scheduler", partial(PriorityScheduler, 3)),
    "fair": ("scheduler", partial(FairScheduler, 1)),
    "authorizer": ("authorizer", AdaOnly),
    "gate-hook": ("gate-hook", Noting),
}


@pytest.mark.proves("GOV-02")
@pytest.mark.parametrize("name", OURS)
async def test_what_is_ours_conforms(name: str) -> None:
    kind, factory = OURS[name]

    checks = await running.run(kind, factory)

    assert [check for check in checks if check.failure] == []
    assert len(checks) == len(running.names_of(KITS[kind])) > 1


def test_there_is_a_kit_for_each_interface_and_it_is_tried() -> None:
    assert {kind for kind, _ in OURS.values()} == set(KITS)


# What does not conform


class Forgetful(MemoryStorage):
    """A store that takes every append, whatever is there already."""

    async def append(self, batch: Any) -> Any:
        found: list[AppendResult] = []
        for each in batch:
            head = await self.head(each.execution_id)
            fits = each if head is None or not each.expected else replace(each, expected=head.length)
            found += await super().append([fits])
        return found


class Lossy(PriorityScheduler):
    """A scheduler that loses who comes while another runs."""

    def add(self, job: Job) -> None:
        if not self._waiting:
            super().add(job)


class SeededEntropyThatRepeats:
    def token(self, bytes_count: int) -> bytes:
        return bytes(bytes_count)


class EveryoneIsGone(VirtualHost):
    def is_gone(self, name: str) -> bool:
        return True


class Seconds(VirtualClock):
    def now_ms(self) -> int:
        return super().now_ms() // 1000


class SaysFalse:
    async def authorize(self, *asked: Any) -> Any:
        return False


@pytest.mark.parametrize(
    ("kind", "factory", "found"),
    [
        ("event-store", Forgetful, "test_the_same_append_id_at_another_place_is_a_conflict"),
        ("scheduler", partial(Lossy, 1), "test_every_job_has_its_place_once"),
        ("entropy", SeededEntropyThatRepeats, "test_no_two_are_alike"),
        ("host", EveryoneIsGone, "test_who_lives_is_not_gone"),
        ("clock", Seconds, "test_it_tells_milliseconds_since_the_epoch"),
        ("authorizer", SaysFalse, "test_every_action_has_an_answer_for_somebody_and_for_nobody"),
    ],
)
async def test_what_does_not_conform_is_told_with_the_check_and_its_line(
    kind: str, factory: Callable[..., Any], found: str
) -> None:
    failed = {check.name: check for check in await running.run(kind, factory) if check.failure}

    assert found in failed
    assert "assert" in failed[found].where


async def test_an_adapter_that_raises_is_told_and_the_other_checks_go_on() -> None:
    class Breaks(VirtualHost):
        def boottime_s(self) -> float:
            raise OSError("no clock here")

    checks = await running.run("host", Breaks)

    assert [check.failure for check in checks if check.failure] == ["OSError: no clock here"]
    assert len([check for check in checks if not check.failure]) == 3


async def test_a_check_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs:
        async def authorize(self, *asked: Any) -> str | None:
            await asyncio.Event().wait()
            return None

    monkeypatch.setattr(running, "CHECK_S", 0.01)

    checks = await running.run("authorizer", Hangs)

    assert {check.failure for check in checks} == {"it did not end within 0.01 s"}


# What a factory may be


async def test_a_factory_is_given_what_it_takes_and_what_it_makes_is_closed() -> None:
    lives: list[str] = []

    @asynccontextmanager
    async def made(clock: VirtualClock) -> AsyncIterator[VirtualClock]:
        lives.append("made")
        yield clock
        lives.append("closed")

    async def awaited() -> VirtualClock:
        return VirtualClock()

    checks = await running.run("clock", made)

    assert not [check for check in checks if check.failure]
    assert lives == ["made", "closed"] * len(checks)
    assert not [check for check in await running.run("clock", awaited) if check.failure]


@pytest.mark.parametrize(
    ("kind", "factory", "words"),
    [
        ("event-stor", MemoryStorage, "no conformance kit 'event-stor'"),
        ("clock", 5, "5 is no factory"),
        ("clock", lambda url, port: None, "needs url, port"),
    ],
)
async def test_what_cannot_be_used_is_refused_in_words(kind: str, factory: Any, words: str) -> None:
    told: list[Check] = []

    with pytest.raises(InvalidDeclaration, match=words):
        await running.run(kind, factory, told=told.append)

    assert told == []
