"""A store with runs of every kind, and what the views on it must say: what `loom ps --json` and `loom logs --json` say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import loom
from loom.core.ids import ExecutionId
from loom.driving.reading import read_log
from loom.lenses.folding import event_json
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage
from loom.spi.read_model_store import ModelRow, ReadModelStore
from loom.spi.where import searchable
from loom_cli.rows import row_json

Row: TypeAlias = dict[str, Any]

ODD: Final = 'odd \x00 \ud800 "text" \\u0000 😀'
ATTRIBUTES: Final = {"customer": "c7 😀", "seats": 3, "share": 0.25, "vip": True, "old": False, "tags": ["a"]}
TIMES: Final = {"started_at": "started_ms", "updated_at": "updated_ms", "ended_at": "ended_ms", "wake_at": "wake_ms"}

COLUMNS: Final = {
    "loom_runs": [
        *("id", "flow", "status", "cancelling", "started_at", "updated_at", "ended_at", "wake_at", "length", "gates"),
        *("attributes", "parent", "chain", "link", "is_last", "fork_of", "fork_sequence", "driver", "leased_until"),
        *("started_ms", "updated_ms", "ended_ms", "wake_ms", "life"),
    ],
    "loom_events": ["execution_id", "sequence", "type", "at", "payload", "metadata", "at_ms"],
    "loom_attributes": ["execution_id", "name", "text", "number", "truth"],
    "loom_read_models": ["execution_id", "model", "version", "sequence", "body"],
    "loom_gates": [
        *("execution_id", "flow", "gate", "opened_at", "due_at", "in_doubt", "key", "opened_ms", "due_ms"),
    ],
}
"""What the guide promises: more may follow; none goes away, changes its name or its place."""


@loom.step
async def echo(value: Any) -> Any:
    return value


@loom.flow
async def refund(ctx: loom.Context, amount: Any) -> Any:
    paid = await ctx.run(echo, amount)
    return [paid, await ctx.suspend("approval", show=amount, timeout=timedelta(days=3))]


@loom.flow
async def failing(ctx: loom.Context) -> None:
    raise ValueError(ODD)


@loom.flow
async def counting(ctx: loom.Context, number: int = 0) -> Any:
    if number < 2:
        await ctx.continue_as_new(number + 1)
    return await ctx.receive("more")


@loom.flow
async def asking(ctx: loom.Context) -> Any:
    return await loom.await_child(ctx, await loom.spawn(ctx, refund, 5, key="it"))


async def fill(store: Storage) -> None:
    """Have runs of every kind in *store*: open and ended, one of them on its way there, with children, links and a fork."""
    app = loom.define_config(flows=[refund, failing, counting, asking], storage=store)
    runtime = app.runtime
    await runtime.start(refund, {"odd": ODD, "much": 2**70, "none": float("nan")}, id="r-1", attributes=ATTRIBUTES)
    await runtime.start(failing, id="f-1", attributes={"customer": "c8"})
    await runtime.start(counting, id="c-1")
    await runtime.start(asking, id="a-1", principal="ann")
    await runtime.fork("r-1", at=3, id="r-1-again")
    await runtime.enqueue(refund, 7, id="r-2")
    await runtime.cancel("r-2", drive=False)
    await runtime.close()


async def rows_of(store: Storage) -> Sequence[ExecutionRow]:
    return await store.find(ExecutionQuery(limit=1_000))


async def runs_expected(store: Storage) -> dict[str, Row]:
    """Return what `loom_runs` has to say of each run of *store*, with times in ms as `--json` has them."""
    last = {row.execution_id for row in await store.find(ExecutionQuery(tips=True, limit=1_000))}
    told: dict[str, Row] = {}
    for row in await rows_of(store):
        shown = row_json(row)
        for name in ("line", "cursor", "lease_ms", "stopped"):  # they are of the moment, or of more than the run
            del shown[name]
        shown |= {"gates": len(shown["gates"]), "chain": row.index.chain, "link": row.index.link}
        fork = {"fork_of": "r-1", "fork_sequence": 3} if row.execution_id == "r-1-again" else {}
        none = {"fork_of": None, "fork_sequence": None}
        told[row.execution_id] = {**shown, "is_last": row.execution_id in last, "life": row.incarnation, **none, **fork}
    return told


async def events_expected(store: Storage) -> list[Row]:
    """Return what `loom logs --json` prints of all runs of *store*, in order."""
    ids = sorted(row.execution_id for row in await rows_of(store))
    return [json.loads(json.dumps(event_json(event))) for run in ids for event in await read_log(store, run)]


async def attributes_expected(store: Storage) -> set[tuple[str, str, Any]]:
    return {
        (row.execution_id, name, value)
        for row in await rows_of(store)
        for name, value in searchable(row.index.attributes).items()
    }


async def gates_expected(store: Storage) -> list[Row]:
    gates = [
        {"execution_id": row.execution_id, "flow": row.index.flow, **gate}
        for row in await rows_of(store)
        for gate in row_json(row)["gates"]
    ]
    return sorted(gates, key=lambda gate: str(gate["execution_id"]))


async def put_model_rows(store: ReadModelStore) -> list[Row]:
    """Put a row of two runs, one of which has nothing to say, and return what `loom_read_models` has to show."""
    behind = {each.head.execution_id: each.head for each in await store.behind("totals", "1:a")}
    rows = [ModelRow(*behind[ExecutionId(run)][:2], 1, body) for run, body in (("r-1", b'{"n":1}'), ("f-1", b""))]
    assert await store.put_model_rows("totals", "1:a", rows) == [True, True]
    return [{"execution_id": "r-1", "model": "totals", "version": "1:a", "sequence": 1, "body": {"n": 1}}]


def in_ms(row: Mapping[str, Any], times: Mapping[str, str]) -> Row:
    """Return *row* with its readable times as the ms beside them, once both are seen to be the same."""
    told = dict(row)
    for name, ms in times.items():
        at = told.pop(name)
        if isinstance(at, str):
            at = datetime.fromisoformat(at)
        told[name] = told.pop(ms)
        assert told[name] == (None if at is None else round((at - _EPOCH) / timedelta(milliseconds=1))), (row, name)
    return told


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
