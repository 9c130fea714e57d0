"""Hooks: somebody is told of every gate that opens, in whatever process it opened.

Telling is a run of its own, of the flow `loom.gate_hook`, under an id that is made from the hook and the gate. So it is retried over
days, seen by `loom ps`, and begun once, whoever looks: a worker that finds the gate again finds the run there. Gates are found
by what has changed in the store since the last look, and once, when a worker begins, by all that wait.

A telling under which processes were lost, again and again, is in doubt like any step. It does no harm to tell once more, under the
same key, and nobody would look for it; so it is taken up again after a while, which leaves a hook that ends processes its rests.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple

import orjson

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.flow import Flow, flow
from loom.core.ids import ExecutionId, FlowId, declared_name
from loom.core.retry import Retry
from loom.core.step import StepContext, step
from loom.core.views import OpenGate, open_gates
from loom.driving.stored_log import log_of
from loom.kernel.context import Context
from loom.kernel.errors import LogCorrupt
from loom.services.scheduling import ScheduledStart, Starter
from loom.spi.change_feed import ChangeFeed, CursorUnknown
from loom.spi.clock import Clock
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Lane, Storage
from loom.spi.gate_hook import GATE_HOOK_SPI_VERSION, GateHook, GateNotice
from loom.spi.versions import require

FLOW: Final = FlowId("loom.gate_hook")
RESOURCE: Final = "loom.gate_hooks"

_PAGE: Final = 200
_KNOWN_MAX: Final = 10_000
_PATIENT: Final = Retry(attempts=30, delay=timedelta(seconds=1), delay_max=timedelta(hours=6))
"""Some four days of trying."""
DOUBT_REST_MS: Final = 30_000
"""A telling that is in doubt is left alone for so long."""


class HooksNotKept(LoomError):
    """The store cannot say what has changed in it."""

    code = "hooks-not-kept"
    hint = "Use loom.sqlite_storage(), or a store that is a ChangeFeed too."

    def __init__(self, *, store: str) -> None:
        self.store = store
        super().__init__(f"the store does not tell what has changed, so nobody can be told of gates ({store})")


class Waiting(NamedTuple):
    """A gate that *hook* is told of: its address and when it opened (ms since the epoch), in one life of a run."""

    hook: str
    execution_id: str
    incarnation: int
    gate: str
    opened_at: int


@step(retry=_PATIENT)
async def tell(context: StepContext, waiting: Waiting) -> str:
    """Tell a hook of a gate, unless nobody waits there any more; return which."""
    telling: Telling = context.resources[RESOURCE]
    return await telling.tell(waiting, context.idempotency_key)


@flow(id=FLOW)
async def gate_hook(ctx: Context, waiting: Waiting) -> str:
    """Tell a hook of one gate."""
    return await ctx.run(tell, waiting)


class Telling:
    """Tells *hooks* (by their names) what waits in *storage*."""

    def __init__(self, hooks: Mapping[str, GateHook], *, storage: Storage, clock: Clock) -> None:
        self._hooks, self._storage, self._clock = hooks, storage, clock

    async def tell(self, waiting: Waiting, key: str) -> str:
        """Tell of one gate, if it is still open and there is still such a hook; return what was done.

        Raises:
            Exception: the hook was not told; what it raised.
        """
        hook = self._hooks.get(waiting.hook)
        if hook is None:
            return "there is no such hook any more"
        row = await self._storage.row(ExecutionId(waiting.execution_id))
        gate = await self._gate(waiting) if row is not None and row.incarnation == waiting.incarnation else None
        if row is None or gate is None:
            return "it was not open any more"
        about = (row.execution_id, row.incarnation, row.index.flow)
        await hook.tell(GateNotice(key, self._clock.now_ms(), *about, gate))
        return "told"

    async def _gate(self, waiting: Waiting) -> OpenGate | None:
        log = await log_of(self._storage, ExecutionId(waiting.execution_id))
        found = open_gates(log.state()) if log.events else []
        return next((each for each in found if (each.gate, each.opened_at) == waiting[3:]), None)


def hook_resources(
    hooks: Mapping[str, GateHook], storage: Storage, clock: Clock
) -> dict[str, Callable[[], AbstractAsyncContextManager[Telling]]]:
    """Return the factories of what the flow of an app with *hooks* needs, by name; none without hooks."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Telling]:
        yield Telling(hooks, storage=storage, clock=clock)

    return {RESOURCE: opened} if hooks else {}


def checked_hooks(hooks: Mapping[str, GateHook], storage: Storage) -> Mapping[str, GateHook]:
    """Return *hooks* as they may be used on *storage*.

    Raises:
        InvalidId: a name is no word.
        InvalidDeclaration: a hook cannot be told.
        SpiMismatch: it was written against another version of the interface.
        HooksNotKept: the store cannot say what has changed.
    """
    for name, hook in hooks.items():
        declared_name("hook", name)
        require(hook, "gate hook", GATE_HOOK_SPI_VERSION)
        if not (callable(getattr(hook, "tell", None)) and callable(getattr(hook, "wants", None))):
            raise InvalidDeclaration(f"gate_hooks: {name}={hook!r} is no hook: it needs `wants` and `tell`")
    if hooks and not isinstance(storage, ChangeFeed):
        raise HooksNotKept(store=storage.url)
    return hooks


def hook_flows(hooks: Mapping[str, GateHook]) -> tuple[Flow[Any, Any], ...]:
    """Return the flows that an app with *hooks* has beside its own."""
    return (gate_hook,) if hooks else ()


class GateWatch:
    """Finds what waits for a person, and has *hooks* (by their names) told of it; *start* begins the runs that tell."""

    def __init__(self, hooks: Mapping[str, GateHook], *, storage: Storage, start: Starter, clock: Clock) -> None:
        if not isinstance(storage, ChangeFeed):
            raise HooksNotKept(store=storage.url)
        self._hooks, self._storage, self._feed, self._start = hooks, storage, storage, start
        self._clock = clock
        self._doubted: dict[ExecutionId, int] = {}
        """When a telling that is in doubt is taken up again, ms since the epoch."""
        self._cursor: str | None = None
        self._left: tuple[int, str] | None = None
        self._has_looked_back = False
        self._begun: OrderedDict[ExecutionId, None] = OrderedDict()

    async def look(self) -> bool:
        """Look at a page of what there is to look at; return whether there was any.

        Raises:
            StoreError: the store could not be asked; what was not looked at is looked at next time.
        """
        await self._tell_again()
        if self._cursor is None:
            self._cursor = await self._feed.latest()  # before the look back, so that nothing is between the two
        if not self._has_looked_back:
            return await self._look_back()
        try:
            return await self._look_on()
        except CursorUnknown:  # the store was taken back to an earlier time: who waits there is looked for anew
            self._cursor, self._left, self._has_looked_back = None, None, False
            self._begun.clear()
            return True

    async def _look_back(self) -> bool:
        query = ExecutionQuery(with_gates=True, limit=_PAGE, before=self._left)
        page = await self._storage.find(query)
        for row in page:
            await self._begin(row)
        self._has_looked_back = len(page) < _PAGE
        if page:
            self._left = (page[-1].index.started_at, page[-1].execution_id)
        return True

    async def _look_on(self) -> bool:
        changes = await self._feed.changed(self._cursor or "")
        for run_id in dict.fromkeys(change.execution_id for change in changes):
            row = await self._storage.row(run_id)
            if row is not None:
                await self._begin(row)
        if changes:
            self._cursor = changes[-1].cursor
        return bool(changes)

    async def _begin(self, row: ExecutionRow) -> None:
        if row.index.flow == FLOW and row.index.status == "in_doubt":
            self._doubted[row.execution_id] = row.index.updated_at + DOUBT_REST_MS
        if row.index.ended or row.index.flow == FLOW:
            return
        names = [name for name, hook in self._hooks.items() if _wants(hook, row.index.flow)]
        for gate in orjson.loads(row.index.gates):
            for name in names:
                await self._tell(Waiting(name, row.execution_id, row.incarnation, gate["gate"], gate["opened_at"]))

    async def _tell_again(self) -> None:
        """Say of what was in doubt for long enough that it is to be tried again: it is driven on by whoever finds it due."""
        now = self._clock.now_ms()
        for run_id in [run_id for run_id, at in self._doubted.items() if at <= now]:
            row = await self._storage.row(run_id)
            if row is not None and row.index.status == "in_doubt":
                await self._retry(row, now)
            del self._doubted[run_id]

    async def _retry(self, row: ExecutionRow, now: int) -> None:
        try:
            attempts = (await log_of(self._storage, row.execution_id)).state().attempts
        except LogCorrupt:  # nobody can drive it
            return
        for start, doubt in ((start, each.doubt) for start, each in attempts.items()):
            if doubt is not None:
                lane, key = Lane(row.execution_id, row.incarnation), f"doubt:{start}:{doubt.sequence}"
                said = orjson.dumps({"start": start, "verdict": "retry", "value": None, "principal": "loom"})
                await self._storage.insert(*lane, kind="verdict", key=key, at=now, body=said, while_open=True)

    async def _tell(self, waiting: Waiting) -> None:
        run_id = telling_id(waiting)
        if run_id in self._begun:
            return
        start = ScheduledStart(
            flow=FLOW,
            input=waiting,
            execution_id=run_id,
            principal=f"hook:{waiting.hook}",
            attributes={"hook": waiting.hook, "of": waiting.execution_id},
        )
        await self._start(start)
        self._begun[run_id] = None
        if len(self._begun) > _KNOWN_MAX:
            self._begun.popitem(last=False)


def _wants(hook: GateHook, flow: str) -> bool:
    """Whether *hook* is told of what waits in runs of *flow*; one that cannot say is: rather once too often than never."""
    try:
        return hook.wants(flow)
    except Exception:  # noqa: BLE001  # code of somebody else's, for which no run may be left standing
        return True


def telling_id(waiting: Waiting) -> ExecutionId:
    """Return the id of the one run that tells of *waiting*."""
    said = orjson.dumps(list(waiting))
    return ExecutionId(f"hook-{waiting.hook[:60]}-{hashlib.sha256(said).hexdigest()[:24]}")
