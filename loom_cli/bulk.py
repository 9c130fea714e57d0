"""A verb for many runs: those that fit some conditions, each on its own, a few at once.

What is done is done: nothing is taken back when a run fails, or when the command is interrupted. Which runs, and what is
refused among them, is decided in selecting.py; here they are listed, asked about, and had done.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from loom.app.config import LoomApp
from loom.core.errors import LoomError
from loom.core.outcome import Outcome
from loom.driving.runtime import WorkflowRuntime
from loom.driving.untaken import untaken
from loom.kernel.errors import DriveInterrupted
from loom.spi.event_store import ExecutionRow
from loom.spi.where import Where
from loom_cli.bars import Bar
from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.interrupting import Interruption
from loom_cli.reading import lane_of
from loom_cli.screen import STATUS_STYLES, Column, Styled
from loom_cli.selecting import PAGE, WAITS, Chosen, Verb, chosen, query_of
from loom_cli.times import distance
from loom_cli.wording import counted, failure_text

if TYPE_CHECKING:
    import typer

Call = Callable[[WorkflowRuntime, str], Awaitable[Outcome[Any]]]
"""The verb, for one run."""

AT_ONCE: Final = 8
_TOLD_MAX: Final = 20
_COLUMNS: Final = (Column("ID"), Column("FLOW", shrink=True), Column("STATUS"), Column("AGE", right=True), Column(""))


class Asked(NamedTuple):
    """How a verb was asked for: the condition of its runs, None where one is named, and its options."""

    where: Where | None
    dry_run: bool = False
    yes: bool = False
    quiet: bool = False
    as_json: bool = False


class Result(NamedTuple):
    """What became of a run: its *status* after the verb, None where that was not carried out, and what went wrong."""

    row: ExecutionRow
    status: str | None = None
    refused: str | None = None
    error: LoomError | None = None
    failure: str | None = None


def result_json(result: Result) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    error = result.error
    return {
        "id": result.row.execution_id,
        "flow": result.row.index.flow,
        "was": result.row.index.status,
        "status": result.status,
        "refused": result.refused,
        "failure": result.failure,
        "error": {"code": error.code, "message": str(error), "hint": error.hint} if error is not None else None,
    }


def for_one(execution_id: str | None, asked: Asked) -> str | None:
    """Return the id that a command was given, None when it was given conditions.

    Raises:
        Usage: it was given both, or neither, or options that go with conditions alone.
    """
    if asked.where is not None:
        if execution_id is not None:
            raise Usage("an id and --where say the same in two ways", hint="give one of them")
        return None
    if execution_id is None:
        raise Usage("which run?", hint="name one, or several with --where status=failed")
    if asked.dry_run or asked.yes:
        raise Usage("--dry-run and --yes go with --where", hint="leave them off: one run was named")
    return execution_id


def bulk_wait_s(ctx: typer.Context, wait_s: float) -> float:
    """Return how long each of many runs waits in place for a timer, seconds: not at all unless somebody said so."""
    source = ctx.get_parameter_source("wait_s")
    return wait_s if source is not None and source.name == "COMMANDLINE" else 0.0


class Bulk:
    """One verb on its way through many runs of *app*."""

    def __init__(self, cli: Cli, app: LoomApp, verb: Verb) -> None:
        self._cli, self._app, self._verb = cli, app, verb
        self._left: deque[ExecutionRow] = deque()
        self._results: list[Result] = []
        self._bar = Bar(cli.screen, doing=verb.doing, done=verb.done)
        self._as_json = self._is_stopped = False
        self._interruption = Interruption(softly=self._stop, heard=self._heard, leaving=self._leaving)

    def run(self, asked: Asked, call: Call) -> ExitCode:
        """Carry the verb out for all that fit, by *call* for each, and tell what came of it.

        Raises:
            Usage: the answer to whether to begin is missing.
        """
        self._as_json = asked.as_json
        assert asked.where is not None, "without a condition, one run was named"
        found = self._cli.run(self._found(asked.where))
        if not found:
            self._cli.screen.note(f"no run like that to {self._verb.name} in {self._app.storage.url}")
            return ExitCode.DONE
        if asked.dry_run:
            return self._tell_plan(found)
        self._left.extend(each.row for each in reversed(found) if each.refused is None)  # the oldest first
        if self._left and not asked.yes and not self._is_agreed():
            self._cli.screen.note("nothing was done")
            return ExitCode.DONE
        for each in found:
            if each.refused is not None:
                self._note(Result(each.row, refused=each.refused))
        return self._carry_out(call, quiet=asked.quiet)

    async def _found(self, where: Where) -> list[Chosen]:
        found: list[Chosen] = []
        async with self._app:
            query = query_of(where, self._verb)
            while rows := await self._app.storage.find(query):
                found += await self._called(chosen(rows, self._verb, now_ms=self._cli.now_ms()))
                if len(rows) < PAGE:
                    break
                query = query_of(where, self._verb, after=rows[-1])
        return found

    async def _called(self, found: Sequence[Chosen]) -> list[Chosen]:
        """Return *found*, without a refusal of those that wait for what was given already, and is only to be taken up."""
        return [
            each._replace(refused=None)
            if each.refused == WAITS and untaken(await lane_of(self._app.storage, each.row.execution_id))
            else each
            for each in found
        ]

    def _is_agreed(self) -> bool:
        screen, many = self._cli.screen, len(self._left)
        flows = Counter(row.index.flow for row in self._left)
        words = ", ".join(f"{count:,} of {flow}" for flow, count in flows.most_common(5))
        if not screen.interactive:
            hint = "--yes goes on, --dry-run lists them"
            raise Usage(f"{self._verb.name} {_runs(many)}: nobody is there to ask", hint=hint)
        screen.note(f"{self._verb.name} {_runs(many)}: {words}")
        screen.err.flush()
        try:
            return input("  go on? [no] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False

    # -- doing it ------------------------------------------------------------------------------------------------

    def _carry_out(self, call: Call, *, quiet: bool) -> ExitCode:
        total = len(self._left)
        self._bar.begin(total, quiet=quiet)
        try:
            with self._interruption.handling():
                self._cli.run(self._interruption.watch(self._work(call)))
        except asyncio.CancelledError:
            if not self._interruption.count:
                raise
        finally:
            self._bar.end()
        return self._tell(total)

    async def _work(self, call: Call) -> None:
        async with self._app:
            hands = [asyncio.create_task(self._hand(call)) for _ in range(min(AT_ONCE, len(self._left)))]
            try:
                await asyncio.gather(*hands)
            finally:
                for hand in hands:
                    hand.cancel()

    async def _hand(self, call: Call) -> None:
        while self._left and not self._is_stopped:
            row = self._left.popleft()
            result = Result(row, "interrupted")
            try:
                result = await self._result_of(row, call)
            finally:
                self._note(result)

    async def _result_of(self, row: ExecutionRow, call: Call) -> Result:
        try:
            outcome = await call(self._app.runtime, row.execution_id)
        except DriveInterrupted as cut:
            return Result(row, "interrupted") if self._interruption.count else Result(row, error=cut)
        except LoomError as error:
            return Result(row, error=error)
        failure = outcome.failure
        told = failure_text({"type": failure.type, "message": failure.message}) if failure is not None else None
        return Result(row, outcome.status, failure=told)

    def _note(self, result: Result) -> None:
        self._results.append(result)
        if self._as_json:
            self._cli.screen.json(result_json(result), indent=None)
        if result.refused is None:
            self._bar.step(failed=self._has_failed(result))

    def _has_failed(self, result: Result) -> bool:
        return result.error is not None or result.status in self._verb.failing

    def _stop(self) -> None:
        self._is_stopped = True
        self._app.runtime.interrupt()

    def _heard(self, count: int) -> None:
        self._bar.say("stopping: what is under way may still end" if count == 1 else "stopping at once")

    def _leaving(self) -> ExitCode:
        self._bar.end()
        return self._tell(len(self._left) + len(self._results))

    # -- telling -------------------------------------------------------------------------------------------------

    def _tell_plan(self, found: Sequence[Chosen]) -> ExitCode:
        screen, now_ms = self._cli.screen, self._cli.now_ms()
        if self._as_json:
            for each in found:
                screen.json(result_json(Result(each.row, refused=each.refused)), indent=None)
        else:
            screen.table(_COLUMNS, [_cells(each, self._verb, now_ms) for each in found])
            screen.flush()
        fitting = len([each for each in found if each.refused is None])
        screen.note(Styled(f"{self._verb.name} would be for {_runs(fitting)}; nothing was done", "dim"))
        return ExitCode.DONE

    def _tell(self, total: int) -> ExitCode:
        screen = self._cli.screen
        failed = [each for each in self._results if self._has_failed(each)]
        for each in failed[:_TOLD_MAX]:
            why = str(each.error) if each.error is not None else each.failure or str(each.status)
            screen.note(Styled(screen.sign("failed"), "red"), f" {each.row.execution_id}  {why}")
        if len(failed) > _TOLD_MAX:
            screen.note(f"  and {len(failed) - _TOLD_MAX:,} more: --json tells each")
        screen.note(self._summary(total, len(failed)))
        screen.flush()
        if self._interruption.count:
            return ExitCode.INTERRUPTED
        return ExitCode.FAILED if failed else ExitCode.DONE

    def _summary(self, total: int, failed: int) -> str:
        tried = [each for each in self._results if each.refused is None]
        statuses = Counter(each.status.replace("_", " ") if each.status else "went wrong" for each in tried)
        words = [f"{count:,} {status}" for status, count in statuses.most_common()]
        if refused := len(self._results) - len(tried):
            words.append(f"{refused:,} refused")
        if self._left:
            words.append(f"{len(self._left):,} untouched")
        done = f"{self._verb.done} {len(tried):,} of {_runs(total)}"
        return f"{done}: {', '.join(words)}" if words else done


def _cells(each: Chosen, verb: Verb, now_ms: int) -> Sequence[str | Styled]:
    index = each.row.index
    return (
        each.row.execution_id,
        index.flow,
        Styled(index.status.replace("_", " "), STATUS_STYLES.get(index.status, "")),
        Styled(distance(index.started_at, now_ms), "dim"),
        Styled(f"refused: {each.refused}", "yellow") if each.refused is not None else verb.name,
    )


def _runs(count: int) -> str:
    return counted(count, "run", "runs")
