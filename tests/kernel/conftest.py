"""Laws that hold for every log any test of this folder writes."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import TERMINAL, empty_state
from loom.kernel.codec import decode_events, encode_event
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import EVENTS, evolve, fold
from loom.spi.clock import Clock
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.kernel.running import Damaged


@pytest.fixture
def asyncio_is_quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Hold that asyncio has nothing to complain of: no exception that nobody retrieved, no task left pending."""
    with caplog.at_level(logging.WARNING, "asyncio"):
        yield
        gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.fixture(autouse=True)
def _every_log_keeps_the_laws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    stores: list[MemoryStorage] = []
    make = MemoryStorage.__init__

    def made(self: MemoryStorage, *, clock: Clock | None = None) -> None:
        make(self, clock=clock)
        stores.append(self)

    monkeypatch.setattr(MemoryStorage, "__init__", made)
    yield
    for store in stores:
        if isinstance(store, Damaged):
            continue
        for run, log in store._logs.items():
            _keeps_the_laws(run, log.events)


def _keeps_the_laws(run: ExecutionId, stored: Sequence[EventRecord]) -> None:
    assert [record.sequence for record in stored] == list(range(len(stored))), "sequences without gaps"
    assert [record.at for record in stored] == sorted(record.at for record in stored), "time never runs backward"
    try:
        events = decode_events(run, stored)
    except LogCorrupt:
        return  # a test damaged it
    if any(isinstance(event.payload, dict) for event in events):
        return  # a test wrote what no version of ours does
    assert [encode_event(event) for event in events] == list(stored), "encoding is the inverse of decoding"
    whole = fold(events, empty_state(run))
    for border in {0, 1, len(events) // 3, len(events) // 2, len(events) - 1}:
        assert fold(events[border:], fold(events[:border], empty_state(run))) == whole, "fold(a + b)"
    _ends_where_it_ended(run, events)


def _ends_where_it_ended(run: ExecutionId, events: Sequence[EventEnvelope[Any]]) -> None:
    state = empty_state(run)
    for event in events:
        if state.status in TERMINAL:
            assert EVENTS[event.type].after_end, f"{event.type} after the end"
        state = evolve(state, event)
