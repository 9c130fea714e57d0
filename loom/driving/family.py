"""Parents and children in one process: who is driven beside whom, and who is driven on when a child has ended.

A child that was started here is driven here, in a task of this class, and a parent that waits for it waits in place. When a
child ends, its parent was told in the transaction that ended it (loom/driving/parents.py); here the parent is only made to
look: by a knock where it is driven, by being taken up where it is parked. What is missed because this process ends first is
made up for when the parent is driven again, or by a worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from loom import values
from loom.core.child_names import CHILD_TOPIC
from loom.core.errors import ExecutionTerminated, LoomError, UnknownFlow
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation
from loom.core.json import JsonObject
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.driving.errors import ExecutionAlreadyExists, ExecutionNotFound
from loom.driving.parents import known_as, sends_of
from loom.driving.standing import Standing
from loom.kernel.codec import decode_events
from loom.kernel.drive import Drive
from loom.kernel.errors import DriveInterrupted
from loom.spi.conflicts import SequenceConflict
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Lane, RequestTaken, cancel_key
from loom.spi.surroundings import Surroundings

FAMILY: Final[contextvars.ContextVar[Family]] = contextvars.ContextVar("loom_family")
"""That of the runtime which drives the running flow."""

Verb: TypeAlias = Callable[[], Awaitable[object]]

PAGE: Final = 1000
_QUIET: Final = (DriveInterrupted, ExecutionTerminated, ExecutionNotFound, SequenceConflict, UnknownFlow)
"""Why a run is not driven on here that need nobody's attention: it has ended, or goes on elsewhere, or later."""

_log = logging.getLogger("loom.driving")


class Birth(NamedTuple):
    """A child to be started: *flow* with *input*, as *run_id*; *parent* goes into its first event."""

    flow: Flow[Any, Any]
    input: Any
    run_id: ExecutionId
    parent: JsonObject


class Starts(Protocol):
    """How runs begin: `Starting`."""

    def encoded_input(self, flow: Flow[Any, Any], input: Any) -> Any: ...

    async def bear(
        self, birth: Birth, *, principal: str | None, linger_s: float, started: Callable[[], None]
    ) -> Outcome[Any] | None: ...


class Verbs(Protocol):
    """What the runtime can do with a run."""

    @property
    def starting(self) -> Starts: ...

    @property
    def flows(self) -> Mapping[str, Flow[Any, Any]]: ...

    def flow(self, flow: Flow[Any, Any] | str) -> Flow[Any, Any]: ...

    async def resume(
        self, execution_id: str, *, principal: str | None = ..., linger_s: float | None = ...
    ) -> Outcome[Any]: ...

    async def retry(
        self, execution_id: str, *, principal: str | None = ..., linger_s: float | None = ...
    ) -> Outcome[Any]: ...

    async def load_state(self, execution_id: str) -> ExecutionState: ...


class Drives(Protocol):
    """What is driven in this process, and who has what is not: `Driver`."""

    drives: dict[ExecutionId, Drive]

    def standing(self, status: str, row: ExecutionRow) -> Standing: ...


class Family:
    """The runs that a runtime drives because others that it drives started them, or wait for them."""

    def __init__(self, around: Surroundings, driver: Drives, verbs: Verbs) -> None:
        self._around, self._storage, self._driver, self.verbs = around, around.storage, driver, verbs
        self.nesting_max = around.nesting_max
        self._beside: dict[ExecutionId, asyncio.Task[None]] = {}
        self._again: set[ExecutionId] = set()
        self._parents: set[ExecutionId] = set()
        self._news: set[ExecutionId] = set()
        """Runs in whose lane are ends of children that they did not wait for then."""
        self._contexts: dict[ExecutionId, contextvars.Context] = {}
        self.is_closing = False
        """While the runtime closes, nothing more is taken up."""

    # -- for those who drive -------------------------------------------------------------------------------------

    def entered(self, drive: Drive) -> None:
        """*drive* begins; what is driven for it will see the context variables that it sees."""
        self._contexts[drive.state.execution_id] = contextvars.copy_context()

    def stays(self, drive: Drive) -> bool:
        """Whether *drive* waits for a child that is driven in this process: then it waits in place."""
        here = self._driver.drives
        return any(child in self._beside or child in here for child in _awaited(drive))

    async def at_frontier(self, drive: Drive) -> None:
        """Take up the children of *drive* that can go on and that nobody drives; see that it hears of those that ended."""
        if drive.state.execution_id not in self._parents:
            return
        was_ended = drive.state.facts.generation > 0  # and what was sent to it then has not arrived
        async for row in self._children(drive.state, ended=None if was_ended else False):
            if row.index.ended:
                await self._tell_again(drive, row)
            elif self._can_go_on(row, drive.now_ms()):
                self._take_up(drive, ExecutionId(row.index.chain), self.verbs.resume)

    async def dismiss(self, state: ExecutionState, reason: str | None) -> None:
        """Ask the children of a run that is cancelled to end as well, durably, but for those that are to be abandoned."""
        async for row in self._children(state, ended=False):
            await self._cancel(row, reason, self._driver.drives.get(state.execution_id))

    def left(self, over: Drive) -> None:
        """A drive is over: the parent of its run has something to hear, or nothing to stay for."""
        state, run_id = over.state, over.state.execution_id
        has_ended = state.is_terminal and over.journal.error is None
        context = self._contexts.pop(run_id, None)
        self._parents.discard(run_id)
        self._news.discard(run_id)
        if state.facts.parent is None or state.status == "continued":
            return
        parent = ExecutionId(state.facts.parent["execution_id"])
        drive = self._drive_of(parent)
        if drive is not None and not has_ended:
            drive.delivery.stir()
        elif drive is not None:
            self._tell(drive, known_as(state))
        elif has_ended:
            self._drive_beside(parent, partial(self._wake, parent), context=context)

    def _tell(self, drive: Drive, child: ExecutionId) -> None:
        """Have *drive* look into its lane, where the end of *child* is: now if it waits for it, else when it waits again."""
        if drive.requests.inbox.mail.is_awaited(CHILD_TOPIC + child):
            drive.requests.knock()
        else:
            self._news.add(drive.state.execution_id)

    def listen(self, drive: Drive) -> None:
        """*drive* is about to wait for a child."""
        if drive.state.execution_id in self._news:
            self._news.discard(drive.state.execution_id)
            drive.requests.knock()

    def hand_on(self, runs: Iterable[ExecutionId]) -> None:
        """Drive *runs* beside, that were given the place of one which has ended here."""
        for run_id in runs:
            if run_id not in self._driver.drives:
                self._drive_beside(run_id, partial(self._wake, run_id), context=None)

    # -- for whoever starts children -----------------------------------------------------------------------------

    def drive_of(self, run_id: str) -> Drive:
        """Return the drive of a run that is driven here, whose body or step is asking; it is a parent from now on."""
        self._parents.add(ExecutionId(run_id))
        return self._driver.drives[ExecutionId(run_id)]

    async def start(self, drive: Drive, birth: Birth) -> None:
        """Start a child of *drive* and drive it beside; return when its start is on disk. Once done, it is done.

        Raises:
            ExecutionAlreadyExists: another run has its id.
        """
        if birth.run_id in self._beside or birth.run_id in self._driver.drives or not await self._begin(drive, birth):
            await self._recognize(birth)
            row = await self._storage.row(birth.run_id)
            if row is not None and not row.index.ended and self._can_go_on(row, drive.now_ms()):
                self._take_up(drive, birth.run_id, self.verbs.resume)

    async def _begin(self, drive: Drive, birth: Birth) -> bool:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        verb = partial(self._bear, birth, drive, begun)
        self._drive_beside(birth.run_id, verb, context=self._context_of(drive), parent=drive, begun=begun)
        try:
            await begun
        except ExecutionAlreadyExists:
            return False
        return True

    async def _bear(self, birth: Birth, parent: Drive, begun: asyncio.Future[None]) -> None:
        principal, linger_s = parent.state.facts.principal, parent.setting.linger_ms / 1000
        started = partial(_resolve, begun)
        bear = self.verbs.starting.bear
        if await bear(birth, principal=principal, linger_s=linger_s, started=started) is None:
            await self.verbs.resume(birth.run_id, linger_s=linger_s)

    async def cancel(self, drive: Drive, children: Iterable[str], *, reason: str) -> None:
        """Ask *children* of *drive* to end that have not, durably, but for those that are to be abandoned."""
        for child in children:
            for row in await self._storage.find(ExecutionQuery(chain=child, tips=True, ended=False)):
                await self._cancel(row, reason, drive)

    async def _recognize(self, birth: Birth) -> None:
        [started] = decode_events(birth.run_id, await self._storage.read(birth.run_id, stop=1))
        if started.payload.parent != birth.parent:
            raise ExecutionAlreadyExists(execution_id=birth.run_id)

    # -- driving beside ------------------------------------------------------------------------------------------

    async def settled(self) -> None:
        """Return once nothing is driven beside others any more."""
        while self._beside:
            await asyncio.wait(self._beside.values())

    @property
    def beside(self) -> list[str]:
        """The runs that are driven beside others."""
        return [*self._beside]

    def forget(self) -> None:
        """The event loop has ended, and with it what was driven in it."""
        self._beside, self._contexts = {}, {}
        self._again, self._parents, self._news = set(), set(), set()

    def _context_of(self, drive: Drive) -> contextvars.Context | None:
        return self._contexts.get(drive.state.execution_id)

    def _take_up(self, drive: Drive, child: ExecutionId, verb: Callable[..., Awaitable[Outcome[Any]]]) -> None:
        if child not in self._driver.drives:
            going_on = partial(
                verb, child, principal=drive.setting.about.get("principal"), linger_s=drive.setting.linger_ms / 1000
            )
            self._drive_beside(child, going_on, context=self._context_of(drive), parent=drive)

    def _drive_beside(
        self,
        run_id: ExecutionId,
        verb: Verb,
        *,
        context: contextvars.Context | None,
        parent: Drive | None = None,
        begun: asyncio.Future[None] | None = None,
    ) -> None:
        if run_id in self._beside:
            self._again.add(run_id)
        elif not self.is_closing:
            context = context.copy() if context is not None else None
            work = self._carry(run_id, verb, parent, begun)
            self._beside[run_id] = asyncio.get_running_loop().create_task(work, name=f"loom-{run_id}", context=context)

    async def _carry(
        self, run_id: ExecutionId, verb: Verb, parent: Drive | None, begun: asyncio.Future[None] | None
    ) -> None:
        try:
            await self._driven(run_id, verb, begun)
            while run_id in self._again and not self.is_closing:
                self._again.discard(run_id)
                await self._driven(run_id, partial(self._wake, run_id), None)
        finally:
            self._again.discard(run_id)
            del self._beside[run_id]
            if begun is not None:
                begun.cancel()
            if parent is not None and not parent.is_over:
                parent.delivery.stir()  # it has nothing to stay for any more

    async def _driven(self, run_id: ExecutionId, verb: Verb, begun: asyncio.Future[None] | None) -> None:
        try:
            await verb()
        except Exception as error:  # noqa: BLE001  # nobody waits for this task
            if begun is not None and not begun.done():
                begun.set_exception(error)
            elif not isinstance(error, _QUIET):
                _log.warning("%s is not driven on here: %s", run_id, error, exc_info=not isinstance(error, LoomError))

    async def _wake(self, parent: ExecutionId) -> Outcome[Any]:
        """Have a parked parent look at what it was told; one that somebody drives looks by itself."""
        row = await self._storage.row(parent)
        if row is None or self._driver.standing(row.index.status, row).is_driven:
            return Outcome(execution_id=parent, status="accepted")
        return await self.verbs.resume(parent)

    def _drive_of(self, chain: ExecutionId) -> Drive | None:
        here = self._driver.drives
        drive = here.get(chain) or next((each for each in here.values() if _chain_of(each.state)[0] == chain), None)
        return None if drive is None or drive.is_over else drive

    def _can_go_on(self, row: ExecutionRow, now_ms: int) -> bool:
        """Whether a run that nobody drives has something to do: it was cut off, or its time has come."""
        if self._driver.standing(row.index.status, row).is_driven:
            return False
        wake_at = row.index.wake_at
        return row.index.status in {"running", "forked"} or (wake_at is not None and wake_at <= now_ms)

    # -- children in the store -----------------------------------------------------------------------------------

    async def _children(self, state: ExecutionState, *, ended: bool | None) -> AsyncIterator[ExecutionRow]:
        query = ExecutionQuery(parent=_chain_of(state)[0], tips=True, ended=ended, limit=PAGE)
        while rows := await self._storage.find(query):
            for row in rows:
                yield row
            query = replace(query, before=(rows[-1].index.started_at, rows[-1].execution_id))

    async def _cancel(self, row: ExecutionRow, reason: str | None, parent: Drive | None) -> None:
        child = ExecutionId(row.index.chain)
        [started] = decode_events(child, await self._storage.read(child, stop=1))
        first = await self._storage.head(child)
        if started.payload.parent["policy"] == "abandon" or first is None:
            return
        key, at = cancel_key(row.index.link), self._around.clock.now_ms()
        body = values.dumps({"cause": "parent", "reason": reason})
        insert = self._storage.insert
        await insert(child, first.incarnation, kind="cancel", key=key, at=at, body=body, while_open=True)
        drive = self._drive_of(child)
        if drive is not None:
            drive.requests.knock()
        else:
            context = self._context_of(parent) if parent is not None else None
            self._drive_beside(child, partial(self._wake, child), context=context, parent=parent)

    async def _tell_again(self, drive: Drive, row: ExecutionRow) -> None:
        """See that a parent which has been retried hears of a child that ended while it had ended itself.

        A child whose failure it had heard of, which the retry made void, is tried again.
        """
        chain, incarnation = _chain_of(drive.state)
        [sent] = sends_of(await self.verbs.load_state(row.execution_id))
        insert, life = self._storage.insert, incarnation or _incarnation(drive)
        await self._around.before_insert(Lane(chain, life), sent.body)
        taken = await insert(chain, life, kind="message", key=sent.key, at=sent.at, body=sent.body)
        is_heard = not isinstance(taken, RequestTaken) or taken.pending or taken.number in _received(drive.state)
        if row.index.status == "failed" and not is_heard:
            self._take_up(drive, ExecutionId(row.index.chain), self.verbs.retry)


class FamilyVerbs:
    """What a runtime says of the runs that it drives beside those of its verbs."""

    _family: Family

    @property
    def beside(self) -> list[str]:
        """The runs that are driven here beside those of the verbs: children, and parents whose child has ended."""
        return self._family.beside

    async def settled(self) -> None:
        """Return once nothing is driven beside others any more."""
        await self._family.settled()


def _awaited(drive: Drive) -> Iterator[ExecutionId]:
    """Yield the children whose end the body of *drive* waits for."""
    for call in drive.delivery.waiting:
        topic = getattr(call.syscall, "topic", "")
        if topic.startswith(CHILD_TOPIC):
            yield ExecutionId(topic.removeprefix(CHILD_TOPIC))


def _received(state: ExecutionState) -> set[int]:
    """Return the numbers of the messages that the run has received, less those that a retry made void."""
    outcomes = (settled.outcome for settled in state.settled)
    return {outcome.payload.number for outcome in outcomes if outcome.type == "MESSAGE_RECEIVED"}


def _chain_of(state: ExecutionState) -> tuple[ExecutionId, Incarnation | None]:
    return state.facts.chain or (state.execution_id, None)


def _incarnation(drive: Drive) -> Incarnation:
    assert drive.journal.incarnation is not None
    return drive.journal.incarnation


def _resolve(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)
