"""Forks: a run that begins as a copy of another and then goes its own way (spec 4.5, kernel rule 11.1).

The prefix is copied inside the store, byte for byte, and the source is not touched. What stood open there is asked anew, sleeps
keep their due time, and requests are not copied. A fork is on nobody's list of what can go on: it is driven once somebody
resumes it. The children that the source waited for then are forked with it, as they were at that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom import values
from loom.core import facts as f
from loom.core.child_names import CHILD_TOPIC
from loom.core.envelope import EDITED, EventEnvelope
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ID_LENGTH_MAX, ExecutionId, execution_id, label
from loom.core.json import JsonObject
from loom.core.links import chosen_id
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.driving.authorizing import Authorization
from loom.driving.chains import Aside
from loom.driving.driver import Driver
from loom.driving.edit_fitting import fitted
from loom.driving.edits import Edit, Placed, placed
from loom.driving.errors import CompactedForkPoint, ExecutionAlreadyExists, ExecutionNotFound, ForkRefused
from loom.driving.fork_points import compacted_through, known_last, prefix_of
from loom.driving.parents import sends_of, tells_of_child
from loom.driving.reading import refuse_newer, refuse_newer_rules
from loom.driving.snapshot_codecs import unpacked
from loom.driving.snapshots import snapshot_of
from loom.driving.stored_log import StoredLog, log_of
from loom.driving.unsettled import unsettled_at
from loom.spi.event_fork import EventFork, Source, SourceLacking
from loom.spi.event_store import Append, Appended, Conflict, ExecutionQuery, ExecutionRow, Lane, Send
from loom.spi.snapshot_store import Snapshot, SnapshotStore

Event = EventEnvelope[Any]
Reuse: TypeAlias = Literal["only", "live"]

_ASKED_ANEW: Final = frozenset({"STEP_STARTED", "GATE_OPENED"})
_LINKS_MAX: Final = 10_000
_CHILD_MAX: Final = ID_LENGTH_MAX - len(CHILD_TOPIC)
_PARENT_KEPT: Final = 100
_READ_MAX: Final = 5
"""So often a log is read anew that was compacted between its reading and its copying."""


class Wish(NamedTuple):
    """What is wished: a fork once event *at* has happened, or where *edit* says; under *id*, or one that is made up.

    With *reuse* it is served what its source has recorded: loom/driving/reusing.py.
    """

    at: int | None = None
    edit: Edit | None = None
    id: str | None = None
    reason: str | None = None
    reuse: Reuse | None = None


class Origin(NamedTuple):
    """The beginning of a log: its events so far, and their fold under the id of the fork.

    Of the settled calls of *state* some may be left out, none that tells of a child. *base* is the state in place of events that
    the source does not have any more, None where it has all.
    """

    source: Source
    state: ExecutionState
    base: ExecutionState | None = None


class Family(NamedTuple):
    """A run that is to be forked, with its *children* that are; *messages* are what those that had ended had sent it."""

    origin: Origin
    fact: f.ExecutionForked
    messages: Sequence[Send]
    children: Sequence[Family]


def fact_of(origin: Origin, seed: str, *, place: Placed | None = None, reason: str | None = None) -> f.ExecutionForked:
    """Return the fact with which a fork of *origin* goes its own way."""
    kept = place.keeps if place is not None else None
    opened = sorted(origin.state.open.items())
    void = [sequence for sequence, start in opened if start.type in _ASKED_ANEW and sequence != kept]
    about: JsonObject = {
        "execution_id": origin.source.execution_id,
        "incarnation": origin.source.incarnation,
        "sequence": origin.source.through,
    }
    return f.ExecutionForked(about, seed, void, given=place.given if place is not None else None, reason=reason)


def known_events(log: StoredLog) -> list[Event]:
    """Return the events of a log that are known: those that are there, and those that the state in place of others has kept."""
    kept: dict[int, Event] = {}
    for settled in log.start.settled:
        kept |= {event.sequence: event for event in settled}
    kept |= {event.sequence: event for event in (*log.start.open.values(), *log.events)}
    return [kept[sequence] for sequence in sorted(kept)]


def unheard(state: ExecutionState) -> list[ExecutionId]:
    """Return the children that the run had started, and whose end it had not received."""
    started: dict[str, None] = {}
    heard: set[str] = set()
    for start, outcome in filter(tells_of_child, state.settled):
        if outcome.type == "STEP_COMPLETED":
            started[outcome.payload.result] = None
        else:
            heard.add(start.payload.topic.removeprefix(CHILD_TOPIC))
    return [ExecutionId(child) for child in started if child not in heard][::-1]


class Forking:
    """Forks executions."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._storage = driver, driver.around.storage

    async def fork(self, id: str, wish: Wish, principal: str | None) -> Outcome[Any]:
        """Fork *id* as wished, its children with it; see `ForkingVerbs.fork`."""
        store = self._storage
        if not isinstance(store, EventFork):
            raise InvalidDeclaration(f"{store.url} cannot copy logs", hint="Its adapter has to implement EventFork.")
        run_id = execution_id(id)
        await self._driver.open()
        row = await store.row(run_id)
        if row is None:
            raise ExecutionNotFound(execution_id=id, store=store.url)
        by: JsonObject = {"principal": label("principal", principal)} if principal else {}
        fork_id = chosen_id(execution_id(wish.id)) if wish.id is not None else self._made_up_id(run_id)
        place = await self._place(row, wish)
        through = place.through if place is not None else wish.at
        if through is None:
            raise TypeError("fork() takes the number of an event, or an edit")
        if await store.row(fork_id) is not None:
            raise ExecutionAlreadyExists(execution_id=fork_id)
        origin = await self._origin(row, through, fork_id)
        # What is drawn is as it was there, where it is served from there; keys of effects are the fork's own all the same.
        seed = origin.state.facts.seed if wish.reuse is not None else self._driver.token(16)
        fact = fact_of(origin, seed, place=place, reason=wish.reason)._replace(reuse=wish.reuse)
        return self._driver.outcome(await self._made(store, origin, fact, by=by, place=place), None)

    async def again(self, id: ExecutionId, *, reason: str | None, principal: str | None) -> ExecutionState:
        """Fork for real what the simulated run *id* is a fork of, at the same event and with the same edit.

        Raises:
            ForkRefused: what it is a fork of was simulated itself, or is not there any more.
            CompactedForkPoint: how it was forked is in an archive, or what it is a fork of and no snapshot stands there.
        """
        store = self._storage
        assert isinstance(store, EventFork)
        log = await log_of(self._storage, id)
        simulated, events = log.state().facts.forked, {event.sequence: event for event in log.events}
        assert simulated is not None
        if simulated.sequence not in events:
            raise CompactedForkPoint(
                execution_id=id, through=log.start.sequence, at=simulated.payload.source["sequence"]
            )
        fact, behind = simulated.payload, events.get(simulated.sequence + 1)
        row = await store.row(ExecutionId(fact.source["execution_id"]))
        if row is None or row.incarnation != fact.source["incarnation"]:
            raise ForkRefused(execution_id=id, why=f"{fact.source['execution_id']}, which it is a fork of, is gone")
        through = fact.source["sequence"]
        origin = await self._origin(row, through, self._made_up_id(row.execution_id))
        if origin.state.facts.simulated:
            hint = f"Promote {row.execution_id} first, and fork what comes of it."
            raise ForkRefused(execution_id=id, why=f"{row.execution_id} is simulated up to there, too", hint=hint)
        place = None
        if behind is not None and EDITED in behind.metadata:
            place = Placed(through, behind.metadata[EDITED], outcome=(behind.type, behind.payload))
        again = fact._replace(seed=self._driver.token(16), parent=None, reason=reason, promotes=id, reuse=None)
        by: JsonObject = {"principal": principal} if principal else {}
        return await self._made(store, origin, again, by=by, place=place)

    def _made_up_id(self, source: ExecutionId) -> ExecutionId:
        return ExecutionId(f"{source.replace('~', '-')[:150]}-fork-{self._driver.token(6).lower()}")

    async def _place(self, row: ExecutionRow, wish: Wish) -> Placed | None:
        if wish.edit is None:
            return None
        log = await log_of(self._storage, row.execution_id)
        events, edit = known_events(log), wish.edit._replace(value=values.plain(wish.edit.value))
        placed(row.execution_id, events, edit)  # is there such a call?
        edit = await fitted(self._driver, row, log.state().facts.flow, edit)
        place = placed(row.execution_id, events, edit)
        if wish.at is not None and wish.at != place.through:
            why = f"an edit of the {edit.what} of {edit.id} forks at event {place.through}, and not at {wish.at}"
            hint = "Leave `at` (--at) out: an edit says itself where it forks."
            raise ForkRefused(execution_id=row.execution_id, why=why, hint=hint)
        return place

    async def _origin(self, row: ExecutionRow, through: int, fork_id: ExecutionId) -> Origin:
        run_id = row.execution_id
        if not 0 <= through < row.length:
            why = f"there is no event {through}: its events are numbered 0 to {row.length - 1}"
            raise ForkRefused(execution_id=run_id, why=why)
        origin = await self._beginning(row, through, fork_id)
        if origin.state.is_terminal:
            why = f"with event {through} it is {origin.state.status}, and there is nothing left to go on with"
            raise ForkRefused(execution_id=run_id, why=why, hint="Fork it at an event before its end.")
        return origin

    async def _made(
        self, store: EventFork, origin: Origin, fact: f.ExecutionForked, *, by: JsonObject, place: Placed | None = None
    ) -> ExecutionState:
        """Fork a run, its children before it, so that one which is there is whole."""
        family = await self._family(origin, fact)  # whoever cannot be forked says so before anything is written
        return await self._write(store, family, by, place)

    async def _family(self, origin: Origin, fact: f.ExecutionForked) -> Family:
        """Return what is to be forked with a run: its children as they were when it was, and theirs."""
        messages, children = list[Send](), list[Family]()
        for child in unheard(origin.state):
            found = await self._as_it_was(child, origin)
            if found is None:
                continue
            row, through = found
            parent_id = origin.state.execution_id
            its = await self._beginning(row, through, _child_of(parent_id, child, origin.source.execution_id))
            if its.state.is_terminal:  # what it had sent by then
                messages += sends_of(its.state._replace(execution_id=row.execution_id))
                continue
            about = {**(its.state.facts.parent or {}), "execution_id": parent_id, "stands_for": child}
            children.append(await self._family(its, fact_of(its, self._driver.token(16))._replace(parent=about)))
        return Family(origin, fact, messages, children)

    async def _write(
        self, store: EventFork, family: Family, by: JsonObject, place: Placed | None = None
    ) -> ExecutionState:
        for child in family.children:
            await self._write(store, child, by)
        origin, fact = family.origin, family.fact
        run_id = origin.state.execution_id
        journal = self._driver.journal(origin.state, None, drives=False, writer=Aside())
        journal.commit("EXECUTION_FORKED", fact, by)
        if place is not None and place.outcome is not None:
            type_, outcome = place.outcome
            journal.commit(type_, outcome, {**by, **place.metadata})
        forked = await self._written(store, origin, journal.take())
        for sent in family.messages:
            lane = Lane(run_id, forked.incarnation)
            await self._driver.around.before_insert(lane, sent.body)
            await self._storage.insert(*lane, kind="message", key=sent.key, at=sent.at, body=sent.body)
        return journal.state

    async def _written(self, store: EventFork, origin: Origin, item: Append) -> Appended:
        """Write a fork; where its source was compacted since it was read, as what is there by now allows."""
        source = origin.source
        for _ in range(_READ_MAX):
            checkpoint = self._checkpoint(origin)
            await self._cite(store, source, item, checkpoint)
            forked = await store.fork(source, item, checkpoint=checkpoint)
            if isinstance(forked, Conflict):
                raise ExecutionAlreadyExists(execution_id=item.execution_id)
            if not isinstance(forked, SourceLacking):
                return forked
            row = await self._storage.row(source.execution_id)
            if row is None or row.incarnation != source.incarnation:
                raise ForkRefused(execution_id=source.execution_id, why="it was deleted meanwhile")
            origin = await self._beginning(row, source.through, item.execution_id)
        why = "its log has changed meanwhile, again and again"
        hint = "Ask again, once nobody compacts it any more."
        raise ForkRefused(execution_id=source.execution_id, why=why, hint=hint)

    def _checkpoint(self, origin: Origin) -> Snapshot | None:
        """Return the checkpoint that a fork begins with; its life is given to it by the store."""
        if origin.base is None:
            return None
        at, codec = self._driver.around.clock.now_ms(), self._driver.around.snapshot_codec
        base = origin.base._replace(execution_id=origin.state.execution_id)
        return snapshot_of(base, origin.source.incarnation, at=at, codec=codec, is_checkpoint=True)

    async def _cite(self, store: EventFork, source: Source, item: Append, checkpoint: Snapshot | None) -> None:
        """Have noted what a fork names, which begins with a copy of *source*, or with a *checkpoint* and what comes after it."""
        citing = self._driver.around.citing
        if citing is None:
            return

        async def holding(text: bytes) -> Sequence[bytes]:
            found = await store.payloads_with(source, text)
            return found if checkpoint is None else [*found, unpacked(checkpoint.body, checkpoint.head.codec)]

        await citing.before_copy(item.execution_id, holding)
        await citing.before_append([item])

    async def _beginning(self, row: ExecutionRow, through: int, fork_id: ExecutionId) -> Origin:
        """Return the beginning of a log up to and including event *through*.

        Raises:
            CompactedForkPoint: some of it is gone, and no snapshot stands there.
        """
        state, base = await self._unsettled(row, through), None
        if state is None:
            log = await prefix_of(self._storage, row, through)
            if log.base is not None:
                refuse_newer_rules(row.execution_id, log.base.facts.rules)
            refuse_newer(log.tail)
            state, base = log.state(), log.base
        state = state._replace(execution_id=fork_id)
        return Origin(Source(row.execution_id, row.incarnation, through), state, base)

    async def _unsettled(self, row: ExecutionRow, through: int) -> ExecutionState | None:
        store = self._storage
        is_compacted = isinstance(store, SnapshotStore) and (
            compacted_through(await store.snapshots(row.execution_id, row.incarnation)) >= 0
        )
        return None if is_compacted else await unsettled_at(store, row, through)

    async def _as_it_was(self, child: ExecutionId, parent: Origin) -> tuple[ExecutionRow, int] | None:
        """Return the link of *child* that was the last at the time of *parent*, and its last event then.

        Raises:
            CompactedForkPoint: what it was then is in an archive, and no snapshot is known to stand just there.
        """
        at = parent.state.at
        rows = await self._storage.find(ExecutionQuery(chain=child, limit=_LINKS_MAX))
        begun = [row for row in rows if row.index.started_at <= at]
        if not begun:
            return None
        row = max(begun, key=lambda each: each.index.link)
        log = await log_of(self._storage, row.execution_id)
        if log.base is None or log.base.at <= at:
            passed = [event.sequence for event in log.tail if event.at <= at]
            return row, max(passed, default=log.start.sequence)
        through = await known_last(self._storage, row, log, at)
        if through is None:
            raise await self._child_compacted(log, log.base, parent.source.execution_id)
        return row, through

    async def _child_compacted(self, child: StoredLog, base: ExecutionState, parent: ExecutionId) -> CompactedForkPoint:
        """Return the refusal of a fork of *parent* at a time before that of *base*, up to which *child* was compacted."""
        known = await log_of(self._storage, parent)
        ended = {known.length - 1} if known.state().is_terminal else set[int]()
        late = (event.sequence for event in known.tail if event.at >= base.at and event.sequence not in ended)
        return CompactedForkPoint(
            execution_id=child.run_id, through=base.sequence, at=None, parent=parent, parent_from=next(late, None)
        )


def _child_of(fork_id: ExecutionId, child: ExecutionId, parent: ExecutionId) -> ExecutionId:
    """Return the id of the fork of *child*, whose *parent* is forked as *fork_id*."""
    name = child.removeprefix(f"{parent}:") if child.startswith(f"{parent}:") else values.digest(child)
    whole = f"{fork_id}:{name}"
    return ExecutionId(whole if len(whole) <= _CHILD_MAX else f"{fork_id[:_PARENT_KEPT]}:{values.digest(whole)}")


def _checked(reuse: Any) -> Reuse | None:
    if reuse not in (None, "only", "live"):
        raise InvalidDeclaration(f"reuse={reuse!r}", hint="Write 'only' or 'live', or leave it out.")
    known: Reuse | None = reuse
    return known


class ForkingVerbs:
    """The verb of a runtime that forks."""

    _authorization: Authorization
    _forking: Forking

    async def fork(
        self,
        execution_id: str,
        *,
        at: int | None = None,
        edit: Edit | None = None,
        id: str | None = None,
        reason: str | None = None,
        reuse: Reuse | None = None,
        principal: str | None = None,
    ) -> Outcome[Any]:
        """Begin a run as a copy of another once event *at* has happened there; `resume` goes on with it, another way.

        The other run is not touched, and never hears of it. What stood open is asked anew: gates get answers of their own, and
        an effect that was under way is done again. With *edit* one input or output is another in the fork, and it begins just
        before; nothing need be said of *at*. With *reuse* it is served, from then on, the outcomes that the other run has for what it asks alike,
        answers and messages among them, and does none of it again: `only` those, and what else it asks stops it, or what else it
        asks happens `live`. The id is made up unless *id* is given. The outcome is `forked`.

        Raises:
            ExecutionNotFound, ForkRefused, ExecutionAlreadyExists, InvalidId: nothing was written.
            InvalidPayload: the value of *edit* is not what the code at hand takes there; nothing was written.
            Denied: only the refusal was written.
        """
        await self._authorization.ask("fork", execution_id, principal)
        return await self._forking.fork(execution_id, Wish(at, edit, id, reason, _checked(reuse)), principal)
