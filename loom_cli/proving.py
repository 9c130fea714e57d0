"""`loom replay`: replaying a run, and telling what it proves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

from loom.devtools.deploying import StoredRun
from loom.driving.errors import LogCompacted
from loom.lenses.proving import Problem, Proof, differing, is_long, proof_of
from loom_cli.bars import Bar
from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.replays import (
    STYLES,
    WORDS,
    Meant,
    checking_of,
    from_here,
    reader_of,
    runs_in,
    short,
    side_text,
    verdict_json,
)
from loom_cli.screen import Column, Screen, Styled
from loom_cli.wording import counted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from loom.app.config import LoomApp
    from loom.driving.replaying import Replayed
    from loom.spi.event_store import EventRecord

_SHOWN: Final = 10
"""So many characters of a digest are shown to people."""
_COLUMNS: Final = (
    Column("#", right=True),
    Column("TYPE"),
    Column("CALL", shrink=True),
    Column("ASKED"),
    Column("VALUE"),
    Column("STATE"),
)


class Proving:
    """Replays one run of *app*; with *prove*, all that differs in any way is a problem."""

    def __init__(self, cli: Cli, app: LoomApp, *, prove: bool) -> None:
        self._cli, self._app, self._prove = cli, app, prove

    def run(self, text: str, *, expect: str | None, as_json: bool) -> ExitCode:
        """Replay the run that *text* means, and tell what came of it.

        Raises:
            ExecutionNotFound: there is none.
            Usage: what was to be expected cannot be read.
        """
        expected = self._expected(expect) if expect is not None else None
        screen = self._cli.screen
        proof = self._cli.run(self._proof(text))
        problems = [*proof.problems, *differing(proof, expected)] if expected is not None else proof.problems
        told = _told(proof, problems) if self._prove else ()
        if as_json:
            screen.json(proof_json(proof, told, proved=self._prove))
        else:
            draw_proof(screen, proof, told, proved=self._prove)
        is_fine = not told if self._prove else proof.verdict.is_fine
        return ExitCode.DONE if is_fine else ExitCode.FAILED

    async def _proof(self, text: str) -> Proof:
        storage = reader_of(self._app)
        try:
            runs = cast("AsyncGenerator[StoredRun]", runs_in(storage, Meant([text])))
            async with aclosing(runs):
                run = await anext(runs)
        finally:
            await storage.close()
        if self._prove and run.base is not None:
            what = "not all of it can be proved: `loom replay` without --prove goes by its checkpoint"
            raise LogCompacted(execution_id=run.id, through=run.base.sequence, what=what)
        checking = checking_of(self._app)
        replayed = await checking.replayed(run)
        return self._told_of(run.records, replayed._replace(verdict=from_here(replayed.verdict, self._cli.folder)))

    def _told_of(self, records: Sequence[EventRecord], replayed: Replayed) -> Proof:
        """Return the proof, and say on the way how far it has come where it takes long."""
        bar = Bar(self._cli.screen, doing="proving", done="proved")
        bar.begin(len(records), quiet=not is_long(records))
        try:
            return proof_of(records, replayed, told=bar.step)
        finally:
            bar.end()

    def _expected(self, text: str) -> Mapping[str, Any] | str:
        file = self._cli.folder / text
        if not file.is_file():
            if "/" in text or text.endswith(".json"):
                raise Usage(f"there is no proof at {text}", hint="loom replay ID --prove --json > FILE")
            return text
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise Usage(f"{text} is no proof: {error}", hint="loom replay ID --prove --json > FILE") from error
        if not (isinstance(known, dict) and isinstance(known.get("events"), list)):
            raise Usage(f"{text} is no proof", hint="loom replay ID --prove --json > FILE")
        return known


def _told(proof: Proof, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return what is wrong, by event; what is wrong with the run as a whole comes first."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda each: -1 if each.sequence is None else each.sequence))


def proof_json(proof: Proof, problems: Sequence[Problem], *, proved: bool) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    types = {line.sequence: line for line in proof.lines}
    return {
        "id": proof.verdict.id,
        "flow": proof.verdict.flow,
        "status": proof.verdict.status,
        "digest": proof.digest,
        "chain": proof.chain,
        "compacted": proof.compacted,
        "end": proof.end,
        "proved": not problems if proved else None,
        "verdict": verdict_json(proof.verdict),
        "events": [line._asdict() for line in proof.lines],
        "problems": [
            {
                "sequence": each.sequence,
                "type": types[each.sequence].type if each.sequence in types else None,
                "id": types[each.sequence].id if each.sequence in types else None,
                "what": each.what,
            }
            for each in problems
        ],
    }


def draw_proof(screen: Screen, proof: Proof, problems: Sequence[Problem], *, proved: bool) -> None:
    """Print a proof: a line an event, then the verdict, what is wrong, and the digest of it all."""
    verdict = proof.verdict
    screen.table(_COLUMNS, [_cells(line) for line in proof.lines])
    screen.line()
    style = STYLES.get(verdict.kind, "red")
    screen.line(Styled(verdict.id, "bold"), f"  {verdict.flow}  {verdict.status}  ", Styled(WORDS[verdict.kind], style))
    if not verdict.is_fine and not proved:
        draw_difference(screen, verdict)
    elif told := short(verdict):
        screen.line("  ", Styled(told, style))
    types = {line.sequence: line.type for line in proof.lines}
    for each in problems:
        at = (
            f"event {each.sequence} {types.get(each.sequence, '')}".rstrip() if each.sequence is not None else "the run"
        )
        screen.line(Styled(f"  {screen.sign('failed')} {at}", "red"), f"  {each.what}")
    if proof.compacted is not None:
        told = f"events up to {proof.compacted} are in an archive; it was replayed by its checkpoint"
        screen.line(Styled(f"  {told}", "dim"))
    screen.line(Styled("  digest  ", "dim"), proof.digest)
    if proved and not problems:
        screen.line(Styled(f"  {screen.sign('done')} ", "green"), f"proved: {counted(len(types), 'event', 'events')}")


def draw_difference(screen: Screen, verdict: Any) -> None:
    """Print why a run cannot be taken up: both sides, where, and what is likely to blame."""
    if verdict.recorded is not None or verdict.asked is not None:
        at = f"event {verdict.sequence}  " if verdict.sequence is not None else ""
        screen.line(Styled("  recorded  ", "dim"), f"{at}{side_text(verdict.recorded)}")
        screen.line(Styled("  asked     ", "dim"), side_text(verdict.asked))
    for name, text in (("where", verdict.where), ("why", verdict.why), ("try", verdict.hint)):
        if text:
            screen.line(Styled(f"  {name.ljust(10)}", "dim"), text)


def _cells(line: Any) -> Sequence[str | Styled]:
    digests = [(digest or "")[:_SHOWN] for digest in (line.asked, line.value, line.state)]
    return (str(line.sequence), line.type, line.id or "", *(Styled(digest, "dim") for digest in digests))
