"""Moving a run to the code as it is, on purpose: rehearsed first, then recorded as one fact, and only then driven.

The whole recorded prefix stays. The new body, given the new input, has to ask all that is recorded: kind and identity decide,
arguments that differ are noted, except those of what must not run twice and of the question of a gate. So nothing that has
happened is forgotten, and nothing happens again. A rehearsal is a replay that goes no further than the log: where the prefix
does not match it says so, and nothing is written.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from loom import values
from loom.core import facts as f
from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.errors import ExecutionTerminated, UnknownFlow
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, execution_id, label
from loom.core.json import Json, JsonObject
from loom.core.missing import MISSING
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.core.step import Step
from loom.driving.authorizing import Authorization
from loom.driving.driver import Driver
from loom.driving.errors import CodeNotPresent, ExecutionDriven, MigrationRefused
from loom.driving.inputs import encoded_input
from loom.driving.loading import Loaded, load
from loom.driving.messages import GoOn
from loom.driving.replaying import Replayed, Replayer
from loom.driving.stored_log import records_of
from loom.fingerprint import readable
from loom.kernel.codec import encode_event
from loom.spi.conflicts import SequenceConflict

SHORTEST: Final = 8
"""So much of a fingerprint has to be given to mean one."""


class Carried(NamedTuple):
    """What a run carries into another version: what it was started with, and what it has come to so far.

    *input* is plain: objects of the author's are dicts of their fields, since their type may be gone. *results* are those of
    steps, gates, decisions and messages by their identity, as encoded on the log.
    """

    execution_id: ExecutionId
    flow: str
    version: str
    input: Any
    results: Mapping[str, Json]


Migrate: TypeAlias = Callable[[Carried], Any]
"""Returns the input of the new version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What moving a run comes to, or came to: the *fact*, and whether it is recorded (as event *sequence*)."""

    execution_id: ExecutionId
    fact: f.ExecutionMigrated
    status: str
    flow_before: str
    version_before: str
    sequence: int | None = None

    @property
    def is_needless(self) -> bool:
        """Whether the run is on this code already, given what it was given, so that there is nothing to record."""
        fact, same_code = self.fact, self.fact.before == self.fact.after and readable(self.fact.after)
        same_flow = (fact.flow, fact.version) == (self.flow_before, self.version_before)
        noted = fact.given is not None or fact.differences or fact.unpatched
        return same_code and same_flow and not noted and self.status != "diverged"

    @property
    def is_new_input(self) -> bool:
        """Whether the run is given another input from here on."""
        return self.fact.given is not None


class Wish(NamedTuple):
    """What is wished: the *flow* and *version* to move to (None: as it is), the fingerprint *to*, and the new input."""

    flow: Flow[Any, Any] | str | None = None
    version: str | None = None
    to: str = "current"
    migrate: Migrate | None = None
    input: Any = MISSING
    reason: str | None = None


class Migrating:
    """Moves runs to the code as it is."""

    def __init__(
        self,
        driver: Driver,
        flow_of: Callable[[Flow[Any, Any] | str], Flow[Any, Any]],
        flows: Mapping[str, Flow[Any, Any]],
        tools: Mapping[str, Step[Any, Any]],
    ) -> None:
        self._driver, self._flow_of, self._flows, self._tools = driver, flow_of, flows, tools

    def fingerprint(self, flow: Flow[Any, Any] | str) -> str:
        """Return the fingerprint of the code of *flow*.

        Raises:
            UnknownFlow: it is not registered.
        """
        return self._driver.fingerprint_of(self._flow_of(flow))

    async def plan(self, id: str, wish: Wish) -> Migration:
        """Return what the move comes to; nothing is written.

        Raises:
            As `MigratingVerbs.migrate`.
        """
        await self._driver.open()
        return (await self._planned(execution_id(id), wish))[0]

    async def carry_out(self, id: str, wish: Wish, principal: str | None) -> Migration:
        """Rehearse the move, and record it, unless it changes nothing, on the condition that the log is as it was.

        Raises:
            As `MigratingVerbs.migrate`.
        """
        by: JsonObject = {"principal": label("principal", principal)} if principal else dict(NO_METADATA)
        await self._driver.open()
        while True:
            run_id = await self._driver.tip(execution_id(id))
            async with self._driver.place(run_id):
                planned, loaded = await self._planned(run_id, wish)
                if planned.is_needless:
                    return planned
                journal = self._driver.journal(loaded.state, loaded.row.incarnation, drives=False)
                event = journal.commit("EXECUTION_MIGRATED", planned.fact, by)
                try:
                    await journal.barrier()
                except SequenceConflict:
                    await asyncio.sleep(0)
                    continue
            return _recorded(planned, event.sequence, journal.state)

    async def _planned(self, run_id: ExecutionId, wish: Wish) -> tuple[Migration, Loaded]:
        loaded = await load(self._driver.around.storage, run_id)
        state, row, _ = loaded
        if state.is_terminal:
            raise ExecutionTerminated(execution_id=state.execution_id, status=state.status, hint=_hint(state.status))
        stands = self._driver.standing(state.status, row)
        if stands.is_driven or state.execution_id in self._driver.drives:
            raise ExecutionDriven(execution_id=state.execution_id, driver=stands.driver or "this process")
        flow = self._meant(state, wish)
        fact = f.ExecutionMigrated(
            before=state.facts.fingerprint,
            after=self._driver.fingerprint_of(flow),
            differences=[],
            flow=flow.id,
            version=flow.version,
            given=self._given(state, flow, wish),
            reason=wish.reason,
        )
        _require_present(state.execution_id, wish.to, fact.after)
        replayed = await self._rehearsed(state, fact)
        differences, declined = list(replayed.verdict.differences), list(replayed.declined) or None
        about = state.facts
        planned = Migration(
            execution_id=state.execution_id,
            fact=fact._replace(differences=differences, unpatched=declined),
            status=state.status,
            flow_before=about.flow,
            version_before=about.version,
        )
        return planned, loaded

    def _meant(self, state: ExecutionState, wish: Wish) -> Flow[Any, Any]:
        flow = self._flow_of(wish.flow or state.facts.flow)
        if wish.version is not None and flow.version != wish.version:
            name, known = f"{flow.id} version {wish.version}", [f"{flow.id} version {flow.version}"]
            raise UnknownFlow(kind="flow", name=name, known=known)
        both = {each.id: each for each in (flow, self._flows.get(state.facts.flow)) if each is not None}
        if len(both) > 1 and (counted := [id for id, each in both.items() if each.starts is not None]):
            why = f"The runs of {' and '.join(sorted(counted))} are counted, and this one would be lost to the count."
            raise MigrationRefused(execution_id=state.execution_id, why=why)
        return flow

    def _given(self, state: ExecutionState, flow: Flow[Any, Any], wish: Wish) -> JsonObject | None:
        """Return what the flow is given from here on, None where that is as it was."""
        if wish.migrate is None and wish.input is MISSING:
            return None
        input = wish.input if wish.migrate is None else wish.migrate(carried(state))
        encoded = encoded_input(flow, self._driver.hints_of(flow)[0], input)
        if encoded is MISSING:
            return {"defaulted": True} if flow.takes_input else {}
        return {"input": encoded}

    async def _rehearsed(self, state: ExecutionState, fact: f.ExecutionMigrated) -> Replayed:
        """Replay the run as if it were moved already; to the code that replays it is that of another.

        Raises:
            MigrationRefused: what is recorded does not fit.
        """
        moved = EventEnvelope(
            state.execution_id,
            state.length,
            "EXECUTION_MIGRATED",
            state.at,
            fact._replace(after=state.facts.fingerprint),
            NO_METADATA,
        )
        stored = await records_of(self._driver.around.storage, state.execution_id)
        records = [record for record in stored.records if record.sequence <= state.sequence]
        replayer = Replayer(self._flows, self._tools, is_lenient=True)
        replayed = await replayer.replay(state.execution_id, [*records, encode_event(moved)], base=stored.base)
        if not replayed.verdict.is_fine:
            why = replayed.verdict.why
            if fact.given is not None and replayed.verdict.kind == "breaks":
                why = f"{why} It was given another input as well."
            raise MigrationRefused(execution_id=state.execution_id, why=why, verdict=replayed.verdict)
        return replayed


class MigratingVerbs(ABC):
    """The verbs of a runtime that move executions to other code."""

    _authorization: Authorization
    _migrating: Migrating

    @abstractmethod
    def _going_on(self, principal: str | None, linger_s: float | None) -> GoOn: ...

    def fingerprint(self, flow: Flow[Any, Any] | str) -> str:
        """Return the fingerprint of the code of a registered flow as it is.

        Raises:
            UnknownFlow: it is not registered.
        """
        return self._migrating.fingerprint(flow)

    async def migrate(
        self,
        execution_id: str,
        flow: Flow[Any, Any] | str | None = None,
        *,
        version: str | None = None,
        to: str = "current",
        migrate: Migrate | None = None,
        input: Any = MISSING,
        reason: str | None = None,
        principal: str | None = None,
        dry_run: bool = False,
    ) -> Migration:
        """Move an execution to the code as it is, and leave it where it stands; with *dry_run* only say what that comes to.

        All that it has recorded stays, and the new code has to ask for it: it is replayed first, and nothing is written
        where it does not. *flow* is another flow to move to, *version* the one that its code has to have, *to* the fingerprint
        that it has to have (its beginning; or `current`). *input* is what the body is given from here on, or what
        *migrate* makes of what the run carries; it is recorded, and no later replay calls *migrate*.

        Raises:
            ExecutionNotFound, ExecutionTerminated, ExecutionDriven, UnknownFlow, CodeNotPresent, InvalidPayload: nothing was
                written.
            MigrationRefused: what is recorded does not fit the code; nothing was written.
            Denied: only the refusal was written.
        """
        wish = Wish(flow, version, to, migrate, input, reason)
        if dry_run:
            return await self._migrating.plan(execution_id, wish)
        await self._authorization.ask("migrate", execution_id, principal)
        return await self._migrating.carry_out(execution_id, wish, principal)

    async def resume_as(
        self,
        execution_id: str,
        flow: Flow[Any, Any] | str | None = None,
        *,
        version: str | None = None,
        migrate: Migrate | None = None,
        input: Any = MISSING,
        reason: str | None = None,
        principal: str | None = None,
        linger_s: float | None = None,
    ) -> Outcome[Any]:
        """Move an execution as `migrate` does, and go on with it.

        Raises:
            As `migrate`, and as `resume`.
        """
        go_on = self._going_on(principal, linger_s)
        await self.migrate(
            execution_id,
            flow,
            version=version,
            migrate=migrate,
            input=input,
            reason=reason,
            principal=principal,
        )
        return await go_on(execution_id)


def carried(state: ExecutionState) -> Carried:
    """Return what the run in *state* carries into another version."""
    facts = state.facts
    try:
        input = values.decode(facts.input)
    except values.RecordUnreadable:  # it names types that are gone
        input = facts.input
    results: dict[str, Json] = {}
    for settled in list(state.settled)[::-1]:
        payload = settled.outcome.payload
        for field in ("result", "answer", "choice", "message", "chunks"):
            if hasattr(payload, field) and getattr(payload, "failure", None) is None:
                results[settled.start.payload.id] = getattr(payload, field)
    return Carried(state.execution_id, facts.flow, facts.version, input, results)


def _require_present(run_id: ExecutionId, to: str, present: str) -> None:
    if to == "current" or (readable(present) and len(to) >= SHORTEST and present.startswith(to)):
        return
    raise CodeNotPresent(execution_id=run_id, asked=to, present=present)


def _recorded(planned: Migration, sequence: int, state: ExecutionState) -> Migration:
    return Migration(
        execution_id=planned.execution_id,
        fact=planned.fact,
        status=state.status,
        flow_before=planned.flow_before,
        version_before=planned.version_before,
        sequence=sequence,
    )


def _hint(status: str) -> str:
    return "`loom retry` tries a failed run again, under the code as it is." if status == "failed" else ""
