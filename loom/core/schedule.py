"""Declaring a schedule: a cron expression on the wall clock of a zone, and the flow that its ticks start.

A declaration does nothing by itself: `define_config(schedules=[...])` registers it, and a worker starts what is due. When
its ticks are is in services/ticks.py, which of them start in services/due.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

from loom.core.errors import InvalidDeclaration, InvalidId
from loom.core.flow import Flow
from loom.core.ids import ID_LENGTH_MAX, declared_name
from loom.core.missing import MISSING

Overlap: TypeAlias = Literal["allow", "skip", "queue"]
"""What a tick does while an earlier execution of its schedule is open."""

CAP_MAX: Final = 1000
"""So many missed ticks one schedule may start at most."""

TICK_NAME: Final = "-20261130T090000Z"
"""What a tick adds to the id of its schedule to make that of its execution, by way of example."""

NAMES: Final = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
RESERVED: Final = frozenset({"schedule", "tick"})
"""The attributes that every scheduled execution is given."""

_REFERENCE: Final = datetime(2024, 1, 1)  # noqa: DTZ001  # a wall clock, of no zone; any day does for trying an expression
_TRIED: Final = 100
_FIELDS: Final = "Write five fields, as in '30 2 * * MON-FRI': minute, hour, day of the month, month, day of the week."


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What becomes of ticks that are due at once, because nobody was there when their time came.

    The newest *cap* of them start, the oldest first, unless *late* is given and a tick is due for longer than that. All
    others are skipped, which is put on record. Made by `CatchUp.skip()`, `CatchUp.one()` and `CatchUp.all(cap)`.
    """

    cap: int
    late: timedelta | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.cap <= CAP_MAX:
            raise InvalidDeclaration(f"{self.cap!r} ticks: from 1 to {CAP_MAX:,} can be caught up on")
        if self.late is not None and self.late < timedelta(0):
            raise InvalidDeclaration(f"late={self.late!r}: a time before the tick is never late")

    @classmethod
    def skip(cls, *, late: timedelta = timedelta(minutes=1)) -> CatchUp:
        """Start the newest tick if it is due for no longer than *late*; skip what was missed."""
        return cls(cap=1, late=late)

    @classmethod
    def one(cls) -> CatchUp:
        """Start the newest tick, however late: it stands for all that were missed."""
        return cls(cap=1)

    @classmethod
    def all(cls, cap: int) -> CatchUp:
        """Start all that were missed, up to *cap*: of more than that the newest."""
        return cls(cap=cap)

    @property
    def way(self) -> Literal["skip", "one", "all"]:
        """Which of the three it is; `all(1)` is `one`."""
        if self.late is not None:
            return "skip"
        return "one" if self.cap == 1 else "all"

    def __str__(self) -> str:
        return f"all, up to {self.cap}" if self.way == "all" else self.way


ONE: Final = CatchUp.one()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """A declared schedule; `loom.schedule` makes it. *cron* has five fields, *tz* is the name of a zone."""

    id: str
    cron: str
    flow: Flow[Any, Any]
    tz: str
    input: Any
    catch_up: CatchUp
    overlap: Overlap
    jitter: timedelta
    principal: str
    attributes: Mapping[str, Any]


def schedule(
    id: str,
    cron: str,
    flow: Flow[Any, Any],
    *,
    tz: str = "UTC",
    input: Any = MISSING,
    catch_up: CatchUp = ONE,
    overlap: Overlap = "allow",
    jitter: timedelta = timedelta(0),
    principal: str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Schedule:
    """Declare that *flow* is started with *input* whenever *cron* ticks on the wall clock of the zone *tz*.

    *cron* has five fields, or is `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`. Each tick starts one execution,
    with the id `ID-20261130T090000Z` (the tick in UTC), started by *principal* (`schedule:ID` unless given), found by
    *attributes* and by `schedule` and `tick`. *catch_up* says what becomes of ticks that nobody was there for; by default
    the newest starts (`CatchUp.one()`). *overlap* says what a tick does while an earlier execution of the schedule is
    open: start beside it (`allow`, the default), be skipped (`skip`), or wait for its end (`queue`); what has waited is caught up on
    like what was missed. *jitter* delays each start by up to that much, by an amount that is always the same for a tick.

    Raises:
        InvalidDeclaration: the expression is none or never matches, the zone is unknown, the flow does not take such an
            input, or *jitter* is negative or as long as the time between two ticks.
        InvalidId: *id* is no word, or is too long.
    """
    _refuse_id(id)
    expression = _expression(id, cron)
    _refuse_zone(id, tz)
    _refuse_input(id, flow, input)
    _refuse_manner(id, catch_up, overlap, attributes or {})
    _refuse_jitter(id, expression, jitter)
    return Schedule(
        id=id,
        cron=expression,
        flow=flow,
        tz=tz,
        input=input,
        catch_up=catch_up,
        overlap=overlap,
        jitter=jitter,
        principal=principal or f"schedule:{id}",
        attributes=MappingProxyType(dict(attributes or {})),
    )


def walls(cron: str, start: datetime) -> Iterator[datetime]:
    """Yield the times after *start* at which *cron* matches a clock that is never changed, in order.

    It ends where the calendar does, or once nothing matched for 50 years.
    """
    from cronsim import CronSim

    found = CronSim(cron, start)
    try:
        yield from found
    except OverflowError:
        return


def repeats(cron: str) -> bool:
    """Say whether *cron* counts on with the clock (`*` in minute or hour), rather than naming times of the day."""
    minute, hour = cron.split()[:2]
    return minute.startswith("*") or hour.startswith("*")


def _refuse_id(id: str) -> None:
    declared_name("schedule", id)
    if len(id) + len(TICK_NAME) > ID_LENGTH_MAX:
        raise InvalidId(kind="schedule", text=id)


def _expression(id: str, cron: str) -> str:
    """Return *cron* as five fields that match something."""
    from cronsim import CronSimError

    named = cron.strip().lower()
    if named.startswith("@") and named not in NAMES:
        raise InvalidDeclaration(f"the schedule {id}: {cron!r} is no name", hint=f"Named are {', '.join(NAMES)}.")
    expression = NAMES.get(named) or " ".join(cron.upper().split())
    if len(expression.split()) != 5:
        raise InvalidDeclaration(f"the schedule {id}: {cron!r} has not five fields", hint=_FIELDS)
    try:
        first = next(walls(expression, _REFERENCE), None)
    except (CronSimError, ValueError) as error:
        problem = str(error)[:100].lower()
        raise InvalidDeclaration(f"the schedule {id}: {cron!r} cannot be read: {problem}", hint=_FIELDS) from error
    if first is None:
        hint = "No day of the coming 50 years is like that."
        raise InvalidDeclaration(f"the schedule {id}: {cron!r} never matches", hint=hint)
    return expression


def _refuse_zone(id: str, tz: str) -> None:
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(tz)
    except (KeyError, ValueError, OSError) as error:  # not found; no such name can be; a folder of zones
        near = difflib.get_close_matches(tz, available_timezones(), cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Write it as in tz='Europe/Paris'."
        raise InvalidDeclaration(f"the schedule {id}: there is no time zone {tz!r}", hint=hint) from error


def _refuse_input(id: str, flow: Flow[Any, Any], input: Any) -> None:
    if not isinstance(flow, Flow):
        raise InvalidDeclaration(
            f"the schedule {id} starts {flow!r}, which is no flow", hint="Decorate it with @loom.flow."
        )
    if flow.starts is not None and flow.starts.dedupe is not None:
        hint = "Each tick names its run itself, and starts it once: leave dedupe off the flow."
        raise InvalidDeclaration(f"runs of {flow.id} are named by their {flow.starts.dedupe}", hint=hint)
    if input is MISSING and flow.input_required:
        raise InvalidDeclaration(f"the flow {flow.id} needs an input", hint=f"schedule({id!r}, ..., input=...)")
    if input is not MISSING and not flow.takes_input:
        raise InvalidDeclaration(f"the flow {flow.id} takes no input", hint=f"Leave input off the schedule {id}.")


def _refuse_manner(id: str, catch_up: object, overlap: object, attributes: Mapping[str, Any]) -> None:
    if not isinstance(catch_up, CatchUp):
        hint = "One of loom.CatchUp.skip(), loom.CatchUp.one(), loom.CatchUp.all(24)."
        raise InvalidDeclaration(f"the schedule {id}: catch_up={catch_up!r} is no way to catch up", hint=hint)
    if overlap not in get_args(Overlap):
        hint = f"One of {', '.join(get_args(Overlap))}."
        raise InvalidDeclaration(f"the schedule {id}: overlap={overlap!r} says nothing", hint=hint)
    if taken := RESERVED & attributes.keys():
        hint = f"Loom sets {' and '.join(sorted(RESERVED))} itself."
        raise InvalidDeclaration(f"the schedule {id} has an attribute {min(taken)!r} of its own", hint=hint)


def _refuse_jitter(id: str, expression: str, jitter: timedelta) -> None:
    if jitter < timedelta(0):
        raise InvalidDeclaration(
            f"the schedule {id}: jitter={jitter!r} is negative", hint="It is how late a start may be."
        )
    if not jitter:
        return
    shortest = min(after - before for before, after in pairwise(islice(walls(expression, _REFERENCE), _TRIED)))
    if jitter >= shortest:
        hint = f"Keep it below {shortest}, the time between two ticks of {expression!r}."
        raise InvalidDeclaration(f"the schedule {id}: jitter={jitter!r} reaches to the next tick", hint=hint)
