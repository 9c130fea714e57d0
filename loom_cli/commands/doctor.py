"""`loom doctor`: what is installed here, and what is wrong with it."""

from __future__ import annotations

import sqlite3
import sys
from platform import platform
from typing import Annotated, Any, Final

import typer

from loom.core.errors import LoomError
from loom.core.state import FOLD_VERSION
from loom.driving.state_codec import STATE_CODEC_VERSION
from loom.kernel.context import KERNEL_ABI
from loom.kernel.fold import EVENT_SCHEMA_VERSION
from loom.plugins.postgres.migrating import schema_version
from loom.plugins.sqlite import wal_safety
from loom.plugins.sqlite.location import archive_name, store_name
from loom.plugins.sqlite.schema import SCHEMA_VERSION
from loom.spi.admission_store import ADMISSION_STORE_SPI_VERSION
from loom.spi.archive_store import ARCHIVE_STORE_SPI_VERSION
from loom.spi.authorizer import AUTHORIZER_SPI_VERSION
from loom.spi.change_feed import CHANGE_FEED_SPI_VERSION
from loom.spi.clock import CLOCK_SPI_VERSION
from loom.spi.content_store import CONTENT_STORE_SPI_VERSION
from loom.spi.errors import StoreNotFound
from loom.spi.event_fork import EVENT_FORK_SPI_VERSION
from loom.spi.event_import import EVENT_IMPORT_SPI_VERSION
from loom.spi.event_store import EVENT_STORE_SPI_VERSION, ExecutionQuery
from loom.spi.event_trim import EVENT_TRIM_SPI_VERSION
from loom.spi.gate_hook import GATE_HOOK_SPI_VERSION
from loom.spi.host import HOST_SPI_VERSION
from loom.spi.read_model_store import READ_MODEL_STORE_SPI_VERSION
from loom.spi.ref_store import REF_STORE_SPI_VERSION
from loom.spi.schedule_store import SCHEDULE_STORE_SPI_VERSION
from loom.spi.scheduler import SCHEDULER_SPI_VERSION
from loom.spi.snapshot_store import SNAPSHOT_STORE_SPI_VERSION
from loom_cli.app_location import app_reference, store_place
from loom_cli.cli import Cli
from loom_cli.errors import AppNotFound
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, StoreOption
from loom_cli.queries import project_queries
from loom_cli.screen import Screen, Styled
from loom_cli.version import version

app = command_app()

Report = dict[str, Any]

_NAMES_WIDTH: Final = 19
"""The column of names, wider where one is."""


@app.command()
def doctor(
    ctx: typer.Context,
    *,
    versions: Annotated[bool, typer.Option("--versions", help="Only the versions of the contracts.")] = False,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="The kernel manifest alone, as JSON: contracts with their shapes, rooms.")
    ] = False,
    app_name: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Say what this installation, its store and its app are.

    It ends with 1 when something is wrong: a store that cannot be read, an app that cannot be imported. That there is
    no store yet, or no app here, is no fault.

    Example: loom doctor

    Example: loom doctor --versions --json

    Example: loom doctor --manifest
    """
    cli = Cli.of(ctx)
    if manifest:
        from loom.devtools.manifest import manifest as kernel_manifest

        cli.screen.json(kernel_manifest())
        return ExitCode.DONE
    written_against = {**contracts(), "postgres_schema": schema_version()}
    if versions:
        _print(cli.screen, {"contracts": written_against} if not as_json else written_against, as_json=as_json)
        return ExitCode.DONE
    report: Report = {
        "loom": {"version": version(), "python": sys.version.split()[0], "executable": sys.executable},
        "system": {"platform": platform(), "sqlite": sqlite3.sqlite_version, "write_ahead_log": wal_safety().way},
        "contracts": written_against,
        "store": store_report(cli, store),
        "archive": archive_report(cli),
        "app": app_report(cli, app_name),
        **queries_report(cli),
        "terminal": _terminal(cli.screen),
    }
    _warn_of_two_stores(report)
    _print(cli.screen, report, as_json=as_json)
    return ExitCode.FAILED if any("fault" in part for part in report.values()) else ExitCode.DONE


def contracts() -> Report:
    """Return the versions that plugins, logs and peers are written against."""
    return {
        "kernel_abi": KERNEL_ABI,
        "event_schema": EVENT_SCHEMA_VERSION,
        "fold": FOLD_VERSION,
        "state_codec": STATE_CODEC_VERSION,
        "event_store_spi": EVENT_STORE_SPI_VERSION,
        "admission_store_spi": ADMISSION_STORE_SPI_VERSION,
        "content_store_spi": CONTENT_STORE_SPI_VERSION,
        "schedule_store_spi": SCHEDULE_STORE_SPI_VERSION,
        "event_fork_spi": EVENT_FORK_SPI_VERSION,
        "event_import_spi": EVENT_IMPORT_SPI_VERSION,
        "ref_store_spi": REF_STORE_SPI_VERSION,
        "event_trim_spi": EVENT_TRIM_SPI_VERSION,
        "snapshot_store_spi": SNAPSHOT_STORE_SPI_VERSION,
        "read_model_store_spi": READ_MODEL_STORE_SPI_VERSION,
        "archive_store_spi": ARCHIVE_STORE_SPI_VERSION,
        "change_feed_spi": CHANGE_FEED_SPI_VERSION,
        "authorizer_spi": AUTHORIZER_SPI_VERSION,
        "gate_hook_spi": GATE_HOOK_SPI_VERSION,
        "clock_spi": CLOCK_SPI_VERSION,
        "host_spi": HOST_SPI_VERSION,
        "scheduler_spi": SCHEDULER_SPI_VERSION,
        "sqlite_schema": SCHEMA_VERSION,
    }


def store_report(cli: Cli, store: str | None) -> Report:
    """Return where the store is and what it says; a *fault* is what keeps it from being read."""
    try:
        name = store_name(store, folder=cli.folder)
        storage = cli.reader(store)
    except LoomError as error:
        return {"fault": str(error), "hint": error.hint}
    report: Report = {"url": storage.url, "named_by": name.named_by}
    try:
        rows = cli.run(storage.find(ExecutionQuery(limit=1)))
    except StoreNotFound:
        return {**report, "state": "not there yet: the first run makes it"}
    except LoomError as error:
        return {**report, "fault": str(error), "hint": error.hint}
    return {**report, "state": "holds executions" if rows else "empty"}


def archive_report(cli: Cli) -> Report:
    """Return where the archive is and what it holds; a *fault* is what keeps it from being read. Without one, nothing compacts."""
    try:
        name = archive_name(folder=cli.folder)
        if name is None:
            return {"state": "none is named: loom compact needs one"}
        archive = cli.archive(None, readonly=True)
    except LoomError as error:
        return {"fault": str(error), "hint": error.hint}
    report: Report = {"url": archive.url, "named_by": name.named_by}
    try:
        lives = cli.run(archive.archived_lives(limit=1))
    except StoreNotFound:
        return {**report, "state": "not there yet: the first compaction makes it"}
    except LoomError as error:
        return {**report, "fault": str(error), "hint": error.hint}
    return {**report, "state": "holds events" if lives else "empty"}


def app_report(cli: Cli, reference: str | None) -> Report:
    """Return which app is here, with what it registers; a *fault* is what keeps it from being used."""
    try:
        found = app_reference(reference, folder=cli.folder)
        loaded = cli.app(reference)
    except AppNotFound as error:
        return {"state": str(error)} if reference is None else {"fault": str(error), "hint": error.hint}
    except LoomError as error:
        return {"fault": str(error), "hint": error.hint}
    return {
        "name": f"{found.module}:{found.attribute}",
        "named_by": found.named_by,
        "flows": sorted(loaded.registry.flows),
        "store": loaded.storage.url,
        "registry": loaded.registry.digest(),
    }


def queries_report(cli: Cli) -> Report:
    """Return the part on saved queries, if there are some; a *fault* tells those that cannot be used."""
    try:
        saved = project_queries(cli.folder, now_ms=cli.now_ms())
    except LoomError:
        return {}  # a project that cannot be read is told of with the store
    faults = [f"{each.name!r}: {each.fault}" for each in saved if each.fault]
    told = {"saved": [each.name for each in saved], **({"fault": "; ".join(faults)} if faults else {})}
    return {"queries": told} if saved else {}


def _warn_of_two_stores(report: Report) -> None:
    url, apps = report["store"].get("url"), report["app"].get("store")
    if url and apps and store_place(url) != store_place(apps):
        report["app"]["note"] = f"the app keeps its logs in {apps}, but ps, show, logs and gates read {url}"
        report["app"]["hint"] = "Set [tool.loom] store in pyproject.toml, or wire sqlite_storage() without a path."


def _terminal(screen: Screen) -> Report:
    encoding = getattr(screen.out, "encoding", None) or "unknown"
    return {"terminal": screen.terminal, "width": screen.width, "colour": screen.colour, "encoding": encoding}


def _print(screen: Screen, report: Report, *, as_json: bool) -> None:
    if as_json:
        screen.json(report)
        return
    width = max(_NAMES_WIDTH, *(len(name) for part in report.values() for name in part))
    for at, (title, part) in enumerate(report.items()):
        if at:
            screen.line()
        screen.line(Styled(title, "bold"))
        for name, value in part.items():
            style = "red" if name == "fault" else "yellow" if name in ("hint", "note") else ""
            screen.line("  ", Styled(name.replace("_", " ").ljust(width), "dim"), " ", Styled(_words(value), style))


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
