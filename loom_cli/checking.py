"""`loom check replay` and `loom deploy check`: many stored runs, each replayed, and what is said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loom.devtools.bundles import runs_of
from loom.devtools.deploying import DeployReport, StoredRun, report_of
from loom.driving.verdicts import Verdict
from loom_cli.cli import Cli
from loom_cli.deploy_formats import FORMATS, checked_rows
from loom_cli.exits import ExitCode
from loom_cli.replays import STYLES, WORDS, Meant, checking_of, from_here, reader_of, runs_in, short, verdict_json
from loom_cli.screen import Column, Screen, Styled
from loom_cli.standing_still import watched
from loom_cli.wording import counted

if TYPE_CHECKING:
    from loom.app.config import LoomApp

_REPLAY_S: Final = 90.0
"""Longer than a replay is given that awaits something: what is ended so never awaits."""
_COLUMNS: Final = (Column("ID"), Column("FLOW"), Column("STATUS"), Column("VERDICT"), Column("", shrink=True))
_CHECKED: Final = (Column("ID"), Column("VERDICT"), Column("AFTER"), Column("STATE"))


def check_each(cli: Cli, app: LoomApp, meant: Meant, *, as_json: bool) -> ExitCode:
    """Replay the runs that are meant and say of each what came of it; with *as_json* as soon as it is known."""
    screen = cli.screen
    verdicts: list[Verdict] = []

    def known(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if as_json:
            screen.json(verdict_json(verdict), indent=None)

    cli.run(_each(cli, app, _stored(app, meant), known))
    if not verdicts:
        screen.note(f"no run like that in {app.storage.url}")
        return ExitCode.DONE
    if not as_json:
        screen.table(_COLUMNS, [_cells(verdict) for verdict in verdicts])
    screen.note(summary(verdicts))
    return ExitCode.DONE if all(verdict.is_fine for verdict in verdicts) else ExitCode.FAILED


def check_deploy(cli: Cli, app: LoomApp, source: Meant | Path, form: str, *, each: bool) -> ExitCode:
    """Replay the runs that are meant, or those of the bundle at a path, and report what would become of them; of *each* as well."""
    screen = cli.screen
    verdicts: list[Verdict] = []
    runs = _of_bundle(source) if isinstance(source, Path) else _stored(app, source)
    cli.run(_each(cli, app, runs, verdicts.append))
    report = report_of(verdicts)
    if not report.runs:
        screen.note(f"no run like that in {app.storage.url}: nothing was checked")
    if each and report.runs:
        screen.table(_CHECKED, checked_rows(report))
        screen.line()
    _print(screen, report, form)
    return ExitCode.DONE if report.is_safe else ExitCode.FAILED


def _print(screen: Screen, report: DeployReport, form: str) -> None:
    text = FORMATS[form](report)
    if isinstance(text, str):
        screen.text(text.rstrip("\n"))
    elif isinstance(text, dict):
        screen.json(text)
    else:
        for line in text:
            screen.line(*line)


async def _each(cli: Cli, app: LoomApp, runs: AsyncIterator[StoredRun], known: Callable[[Verdict], None]) -> None:
    checking = checking_of(app)
    with watched("a replay", _REPLAY_S) as lives:
        async for verdict in checking.verdicts(runs):
            lives()
            known(from_here(verdict, cli.folder, app.registry.flows.get(verdict.flow)))


async def _stored(app: LoomApp, meant: Meant) -> AsyncIterator[StoredRun]:
    storage = reader_of(app)
    try:
        async for run in runs_in(storage, meant):
            yield run
    finally:
        await storage.close()


async def _of_bundle(folder: Path) -> AsyncIterator[StoredRun]:
    for run in runs_of(folder):
        yield run


def _cells(verdict: Verdict) -> Sequence[str | Styled]:
    style = STYLES.get(verdict.kind, "red")
    status = verdict.status.replace("_", " ")
    return verdict.id, verdict.flow, status, Styled(WORDS[verdict.kind], style), Styled(short(verdict), "dim")


def summary(verdicts: Iterable[Verdict]) -> str:
    """Return how many runs there were, and of each verdict how many."""
    counts = Counter(WORDS[verdict.kind] for verdict in verdicts)
    words = ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
    return f"{counted(sum(counts.values()), 'run', 'runs')}: {words}"
