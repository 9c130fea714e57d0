"""Random writes for a store: batches, requests and leases, most of them fitting. What they come to, the store in memory says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, get_args

from hypothesis import strategies as st

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.event_trim import TrimmedStorage
from loom.devtools.conformance.logs import events
from loom.spi.event_store import (
    NOBODY,
    Append,
    ExecutionQuery,
    Head,
    IndexRow,
    Lane,
    LeaseChange,
    RequestKind,
    Send,
    Storage,
)
from loom.spi.memory import MemoryStorage
from loom.spi.where_text import parse_where

IDS: Final = [ExecutionId(name) for name in ("ü", 'q"\\')]
LINKS: Final = {ExecutionId(f"{name}~2"): name for name in IDS}
"""The second link of each chain, with the first."""
ALL: Final = [*IDS, *LINKS]


class AppendPlan(NamedTuple):
    """An item, but for where its log stands: *off* and *stranger* say how wrong it is about that."""

    execution_id: ExecutionId
    off: int
    stranger: bool
    payloads: list[bytes]
    row: IndexRow
    consumes: list[int]
    above: tuple[int | None, list[RequestKind]]
    lease: tuple[LeaseChange | None, bool, str]
    continues: bool
    sends: list[tuple[ExecutionId, str]]
    repeats: int | None


class InsertPlan(NamedTuple):
    """A request, but for the life of the execution."""

    execution_id: ExecutionId
    stranger: bool
    kind: RequestKind
    key: str
    body: bytes
    while_open: bool


class LeasePlan(NamedTuple):
    """What a driver does with its leases."""

    act: str
    driver: str
    executions: list[ExecutionId]
    number: int
    flows: list[str] | None
    gone: list[str]


class DeletePlan(NamedTuple):
    """Families to delete, but for where their logs stand; *off* says how wrong it is about that."""

    families: list[list[ExecutionId]]
    off: int
    dry_run: bool


Plan = list[AppendPlan] | InsertPlan | LeasePlan | DeletePlan

drivers = st.sampled_from(["a", "b"])
kinds = st.sampled_from(get_args(RequestKind)[:3])
indexes = st.builds(
    IndexRow,
    flow=st.sampled_from(["f", "g"]),
    status=st.sampled_from(["running", "suspended"]),
    started_at=st.just(7),
    updated_at=st.integers(0, 9),
    wake_at=st.none() | st.integers(1, 3),
    gates=st.sampled_from(["[]", '[{"address":"go"}]']),
    attributes=st.sampled_from(["{}", "{}", '{"a":"\\u00fc"}', '{"a":5,"b":true}']),
    chain=st.just(""),
    parent=st.just("p"),
    ended=st.sampled_from([False, False, False, True]),
)
append_plans = st.builds(
    AppendPlan,
    execution_id=st.sampled_from([*IDS, *ALL]),
    off=st.sampled_from([0, 0, 0, 0, 0, 1, 2, -1]),
    stranger=st.sampled_from([False, False, False, False, True]),
    payloads=st.lists(st.sampled_from([b"", b"1", b"\x00\xff", b"x" * 50]), max_size=3),
    row=indexes,
    consumes=st.lists(st.integers(1, 3), max_size=2, unique=True),
    above=st.tuples(st.none() | st.integers(0, 3), st.lists(kinds, max_size=1)),
    lease=st.tuples(
        st.none() | st.just(NOBODY) | st.builds(LeaseChange, drivers, st.integers(1, 2)), st.booleans(), drivers
    ),
    continues=st.booleans(),
    sends=st.lists(st.tuples(st.sampled_from(ALL), st.sampled_from(["", "gate:1"])), max_size=2),
    repeats=st.sampled_from([None, None, None, None, 1, 2, 3]),
)
insert_plans = st.builds(
    InsertPlan,
    execution_id=st.sampled_from([*IDS, *ALL]),
    stranger=st.sampled_from([False, False, False, False, True]),
    kind=kinds,
    key=st.sampled_from(["", "gate:1", "gate:2"]),
    body=st.sampled_from([b"{}", b"", b"\x00"]),
    while_open=st.booleans(),
)
lease_plans = st.builds(
    LeasePlan,
    act=st.sampled_from(["claim", "claim", "renew", "leave", "release"]),
    driver=drivers,
    executions=st.lists(st.sampled_from(ALL), max_size=3, unique=True),
    number=st.integers(0, 2),
    flows=st.sampled_from([None, None, ["f"], ["g", "f"]]),
    gone=st.lists(drivers, max_size=1),
)
together = [[IDS[0], f"{IDS[0]}~2"], [IDS[1], f"{IDS[1]}~2"], [IDS[0]], [IDS[1]], ALL]
delete_plans = st.builds(
    DeletePlan,
    families=st.lists(st.sampled_from(together), min_size=1, max_size=2),
    off=st.sampled_from([0, 0, 0, 0, 1]),
    dry_run=st.sampled_from([False, False, True]),
)
batches = st.lists(append_plans, min_size=1, max_size=6)
plans = st.lists(batches | insert_plans | lease_plans | delete_plans, min_size=1, max_size=6)


ours = st.sampled_from([IDS[0], IDS[0], next(iter(LINKS))])
one_plan = st.one_of(
    st.builds(lambda plan, name: [plan._replace(execution_id=name, off=0, stranger=False)], append_plans, ours),
    st.builds(lambda plan: plan._replace(execution_id=IDS[0], stranger=False), insert_plans),
    st.builds(lambda plan: plan._replace(executions=[IDS[0], *LINKS]), lease_plans),
    delete_plans,
)


class Known(NamedTuple):
    """Where a log stood before a round, and which requests of its lane were pending."""

    head: Head | None
    lane: Lane | None
    pending: set[int]


async def known_of(model: MemoryStorage, name: ExecutionId) -> Known:
    first = await model.head(LINKS.get(name, name))
    pending = await model.pending(first.execution_id, first.incarnation) if first else ()
    lane = Lane(first.execution_id, first.incarnation) if first and name in LINKS else None
    return Known(await model.head(name), lane, {request.number for request in pending})


Made = list[Append] | tuple[InsertPlan, Incarnation] | LeasePlan | tuple[DeletePlan, list[list[Head]]]


def made_of(plan: Plan, known: dict[ExecutionId, Known], past: list[Append]) -> Made:
    if isinstance(plan, LeasePlan):
        return plan
    if isinstance(plan, DeletePlan):
        heads = {name: each.head for name, each in known.items() if each.head is not None}
        stands = {name: head._replace(length=head.length + plan.off) for name, head in heads.items()}
        return plan, [[stands[name] for name in names if name in stands] for names in plan.families]
    if isinstance(plan, InsertPlan):
        head = known[plan.execution_id].head
        return plan, Incarnation((head.incarnation if head else 1) + plan.stranger)
    items = [_item(each, known, past) for each in plan]
    past.extend(items)
    return items


def _item(plan: AppendPlan, known: dict[ExecutionId, Known], past: Sequence[Append]) -> Append:
    if plan.repeats is not None and len(past) >= plan.repeats:
        return past[-plan.repeats]
    name = plan.execution_id
    head, lane, pending = known[name]
    length, incarnation = (head.length, head.incarnation) if head else (0, None)
    expected = max(0, length + plan.off)
    (above, lane_kinds), (lease, takes_over, gone) = plan.above, plan.lease
    return Append(
        execution_id=name,
        incarnation=Incarnation((incarnation or 0) + 1) if plan.stranger else incarnation,
        expected=expected,
        append_id=f"id{len(past)}{name}{len(plan.payloads)}",
        events=events(*plan.payloads, start=expected),
        index=replace(plan.row, chain=LINKS.get(name, name), link=1 + (name in LINKS), parent=_parent(name)),
        lane=lane,
        consumes=[number for number in plan.consumes if number in pending],
        lane_above=above,
        lane_kinds=lane_kinds,
        lease=lease,
        takes_over=takes_over,
        gone=gone,
        follows=_next_link(plan) if plan.continues and name in IDS else None,
        sends=[Send(chain, "message", key, 5, b"sent") for chain, key in plan.sends],
    )


def _parent(name: ExecutionId) -> str:
    """Return who spawned *name*, for good: of the two chains the second is a child of the first."""
    return IDS[0] if LINKS.get(name, name) == IDS[1] else "p"


def _next_link(plan: AppendPlan) -> Append:
    name = ExecutionId(f"{plan.execution_id}~2")
    row = replace(plan.row, chain=plan.execution_id, link=2, parent=_parent(plan.execution_id))
    written = events(*plan.payloads[:1])
    return Append(
        execution_id=name, incarnation=None, expected=0, append_id=name, events=written, index=row, lease=plan.lease[0]
    )


async def write(store: TrimmedStorage, made: Made) -> Any:
    if isinstance(made, list):
        return list(await store.append(made))
    if isinstance(made, LeasePlan):
        return await _lease(store, made)
    if isinstance(made[0], DeletePlan):
        return list(await store.delete(made[1], dry_run=made[0].dry_run))
    (execution_id, _, kind, key, body, while_open), incarnation = made
    return await store.insert(execution_id, incarnation, kind=kind, key=key, at=5, body=body, while_open=while_open)


async def _lease(store: Storage, plan: LeasePlan) -> Any:
    match plan.act:
        case "claim":
            limit = plan.number + 1
            wanted: Any = {"flows": plan.flows, "gone": plan.gone, "driving": plan.executions}
            return list(await store.claim(plan.driver, lease_ms=2, limit=limit, **wanted))
        case "renew":
            return list(await store.renew(plan.driver, plan.executions, lease_ms=2))
        case "leave":
            return await store.leave(plan.driver, dict.fromkeys(plan.executions, plan.number))
        case _:
            return await store.release(plan.driver, plan.executions)


async def all_of(store: TrimmedStorage) -> Any:
    rows = await store.find(ExecutionQuery())
    queries: list[Any] = [{"tips": True}, {"ended": False}, {"parent": "p", "ended": True}]
    queries += [{"chain": name} for name in ALL]
    queries += [
        {"where": parse_where(where, now_ms=9)} for where in ("attr.a=ü", "attr.a > 4 and attr.b=true", "ended != null")
    ]
    found: list[list[str]] = [
        [row.execution_id for row in await store.find(ExecutionQuery(**query))] for query in queries
    ]
    lanes = [list(await store.pending(row.execution_id, row.incarnation)) for row in rows]
    logs = [list(await store.read(row.execution_id)) for row in rows]
    found += [[row.execution_id for row in await store.ended(before=before)] for before in (5, 99)]
    found += [sorted(f"{of} {row.execution_id}" for of, row in await store.below([name])) for name in ALL]
    found.append([each.head.execution_id for each in sorted(await store.links(ALL))])
    return rows, found, lanes, logs, [await store.head(name) for name in ALL], list(await store.drivers())
