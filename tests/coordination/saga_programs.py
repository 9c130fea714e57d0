"""Sagas as operations of the programs of the kernel's tests, and what a log says was done and undone by each."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

import loom
from loom.coordination.saga import Saga
from loom.spi.event_store import EventRecord
from tests.kernel.programs import OPERATIONS, SLEEP_MS, WORLD, Block, carry_out

RETRY: Final = loom.Retry(attempts=2, delay=timedelta(milliseconds=SLEEP_MS))
INSIDE: Final[contextvars.ContextVar[tuple[str, Saga]]] = contextvars.ContextVar("INSIDE")
"""The innermost saga, and the place in the program where it stands."""


async def _happen(step: loom.StepContext, how: str) -> None:
    await WORLD.get().happen(step.step_id, step.attempt)
    if how == "fails" or (how == "flaky" and step.attempt == 1):
        raise ConnectionError(f"{step.step_id}, attempt {step.attempt}")


@loom.step(retry=RETRY)
async def do(step: loom.StepContext, saga: str, at: str, how: str, undo: str) -> str:
    await _happen(step, how)
    return f"did {at}"


@loom.step(retry=RETRY)
async def undo(step: loom.StepContext, saga: str, at: str, how: str, undo: str) -> None:
    await _happen(step, undo)


doing = do.undone_by(undo)


async def _saga(ctx: loom.Context, at: str, block: Block) -> None:
    async with loom.saga(ctx) as saga:
        token = INSIDE.set((at, saga))
        try:
            await carry_out(ctx, at, block)
        finally:
            INSIDE.reset(token)


async def _do(ctx: loom.Context, at: str, how: str, undo: str) -> None:
    name, saga = INSIDE.get()
    WORLD.get().saw(at, "did", await saga.run(doing, name, at, how, undo))


OPERATIONS["saga"] = _saga
OPERATIONS["do"] = _do


class Told(NamedTuple):
    """What a log says of one saga: where something was done, and where it was undone, each in the order it began."""

    done: list[str]
    undone: list[str]


def told(log: Sequence[EventRecord]) -> dict[str, Told]:
    """Return what *log* says of each saga, by the place where that stands."""
    sagas: dict[str, Told] = {}
    for record in log:
        fact = json.loads(record.payload)
        if record.type == "STEP_STARTED" and "saga" in (fact.get("args") or {}):
            about: dict[str, Any] = fact["args"]
            of = sagas.setdefault(about["saga"], Told([], []))
            (of.undone if "#compensate:" in fact["id"] else of.done).append(about["at"])
    return sagas


def settled(log: Sequence[EventRecord]) -> set[str]:
    """Return the ids of the steps that have their outcome in *log*."""
    starts = {record.sequence: json.loads(record.payload).get("id") for record in log if record.type == "STEP_STARTED"}
    ends = [record for record in log if record.type in ("STEP_COMPLETED", "STEP_FAILED")]
    return {starts[json.loads(record.payload)["start"]] for record in ends}
