"""Answers from the page: checked as those of `loom resume`, recorded, and driven on by this process (docs/adr/0046).

An answer is checked by the flow itself, replayed to its gate (docs/adr/0006); so whoever takes one needs the app, and drives the run
on until it waits again or ends, unless another process drives it. The page is told as soon as the answer is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from loom.app.config import LoomApp
from loom.core.envelope import EventEnvelope
from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.core.missing import MISSING
from loom.driving.addressing import gate_meant
from loom.driving.errors import ExecutionNotFound
from loom.driving.stored_log import log_of
from loom.values import InvalidPayload
from loom_cli.errors import CommandRefused
from loom_cli.unknown_fields import UnknownField, refuse_unknown_fields
from loom_cli.web.form_fields import entered

Event = EventEnvelope[Any]
Json: TypeAlias = Any


class Given(NamedTuple):
    """An answer as it came: to which *gate*, to what was *shown* there (a digest), and either a *value* or what was *entered*."""

    gate: str
    shown: str | None
    value: Json = MISSING
    entered: Mapping[str, Json] | None = None


class AnswerRefused(CommandRefused):
    """Fields of an answer are not as they have to be; nothing was recorded. *problems* are by the path of the field."""

    code = "answer-refused"
    hint = "Mend the fields that are marked; nothing was recorded."

    def __init__(self, *, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("the answer does not fit what is expected")


def given_of(body: Json) -> Given:
    """Return the answer that *body* is: `{"gate": ..., "shown": ..., "answer": ...}`, or with `entered` fields in its place.

    Raises:
        AnswerRefused: it is none.
    """
    if not isinstance(body, dict) or not isinstance(body.get("gate"), str) or not _is_text(body.get("shown")):
        raise AnswerRefused(problems={"": 'send {"gate": ADDRESS, "shown": DIGEST, "answer": JSON}'})
    fields = body.get("entered")
    if ("answer" in body) is (fields is not None) or not isinstance(fields, dict | None):
        raise AnswerRefused(problems={"": "send either an answer, or what was entered"})
    return Given(body["gate"], body.get("shown"), body.get("answer", MISSING), fields)


def _is_text(value: Json) -> bool:
    return value is None or isinstance(value, str)


class Answering:
    """Hands answers to the runtime of *app* for *principal*, and drives on what was answered. *told* hears of what went wrong."""

    def __init__(
        self, app: LoomApp, *, principal: str | None, told: Callable[[str], None] = lambda words: None
    ) -> None:
        self._app, self._principal, self._told = app, principal, told
        self._drives: set[asyncio.Task[Any]] = set()
        self._awaited: dict[tuple[str, int], asyncio.Event] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        app.runtime.listen(self._heard)

    @property
    def drives(self) -> int:
        """How many runs are being driven on."""
        return len(self._drives)

    async def answer(self, run_id: ExecutionId, given: Given, *, principal: str | None = None) -> Json:
        """Record an answer, by *principal* where that is not who all of them are by, and return once it is on disk.

        Raises:
            AnswerRefused: the fields that are wrong, by path.
            LoomError: as `WorkflowRuntime.resume`; nothing was recorded.
        """
        async with self._turns.setdefault(run_id, asyncio.Lock()):  # so that it is known whose answer was recorded
            return await self._answered(run_id, given, principal or self._principal)

    async def _answered(self, run_id: ExecutionId, given: Given, by: str | None) -> Json:
        log = await log_of(self._app.storage, run_id)
        if not log.events:
            raise ExecutionNotFound(execution_id=run_id, store=self._app.storage.url)
        gate = gate_meant(log.state(), given.gate, shown=given.shown)
        value = self._value(given, gate.schema or {})
        options: Any = {"answer": value, "gate": gate.gate, "shown": gate.shown, "principal": by}
        drive = asyncio.create_task(self._app.runtime.resume(run_id, **options))
        self._drives.add(drive)
        drive.add_done_callback(self._drives.discard)
        recorded = self._awaited[run_id, gate.start] = asyncio.Event()
        waiting = asyncio.create_task(recorded.wait())
        try:
            await asyncio.wait([drive, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            self._awaited.pop((run_id, gate.start), None)
        if recorded.is_set():
            drive.add_done_callback(self._ended)
            return {"recorded": True, "by": by, "driven_here": True}
        try:
            drive.result()
        except InvalidPayload as refused:
            raise AnswerRefused(problems={_path(each.path): each.message for each in refused.problems}) from None
        return {"recorded": True, "by": by, "driven_here": False}

    def _value(self, given: Given, schema: Mapping[str, Any]) -> Json:
        value = given.value
        if given.entered is not None:
            made = entered(schema, given.entered)
            if made.problems:
                raise AnswerRefused(problems=made.problems)
            value = made.answer
        try:
            refuse_unknown_fields(value, schema)
        except UnknownField as unknown:
            raise AnswerRefused(problems={unknown.path: f"{unknown}. {unknown.hint}"}) from None
        return value

    def _heard(self, event: Event) -> None:
        if event.type == "GATE_ANSWERED" and (waiting := self._awaited.get((event.execution_id, event.payload.start))):
            waiting.set()

    def _ended(self, drive: asyncio.Task[Any]) -> None:
        error = None if drive.cancelled() else drive.exception()
        if isinstance(error, LoomError):
            self._told(f"{error.code}: {error}")
        elif error is not None:
            self._told(f"{type(error).__name__}: {error}")


def _path(path: str) -> str:
    """Return the path of a problem as a form names it: the whole answer has none."""
    return "" if path == "value" else path.removeprefix("value.")


DRIVEN_WORDS: Final = (
    "This process drives the run on after an answer, until it waits again or ends. "
    "Timers, messages and other runs are for a worker: loom worker."
)
"""What the page says of who drives what it has answered."""
