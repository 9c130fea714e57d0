"""`loom deploy check`: what would become of stored runs if the code as it is were deployed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, QueryOption, StoreOption, WhereOption

app = command_app()


class Format(StrEnum):
    """How the report is printed."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "markdown"


@app.command()
def deploy_check(
    ctx: typer.Context,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only runs that began after it: an age such as 30d, or a time."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FOLDER", help="The runs exported to this folder, instead of a store."),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Text, JSON, JUnit XML, or Markdown for a pull request.", show_default="text"),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Name each run as well, and its state by its digest, as other commands do.")
    ] = False,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Say what would become of stored runs under this code.

    Each run is replayed: it is safe, needs a migration (the code changed and asks the same), breaks, or its flow is gone. Runs
    that break for one reason are told once. It ends with 1 when any run could not be taken up. All runs of the store are
    looked at, those that have ended as well, unless some are chosen.

    Example: loom deploy check

    Example: loom deploy check --since 30d --where flow=refund

    Example: loom deploy check --bundle exported/ --format markdown > comment.md
    """
    from loom_cli.checking import check_deploy
    from loom_cli.queries import since_text
    from loom_cli.replays import Meant

    cli = Cli.of(ctx)
    if as_json and format_ not in {None, Format.JSON}:
        raise Usage(f"--json does not go with --format {format_}", hint="Leave one of them off.")
    form = Format.JSON if as_json else format_ or Format.TEXT
    if each and form is not Format.TEXT:
        raise Usage("--each is for the text", hint="With --json the runs are in `checked`.")
    if bundle is not None and (where or query or since or store):
        raise Usage("a bundle is checked whole", hint="leave --where, --query, --since and --store off")
    if bundle is not None and bundle.suffix == ".loombundle":
        raise Usage("a run bundle is a store, and no folder of logs", hint=f"--store {bundle}")
    conditions = [*(where or []), *([since_text(since)] if since is not None else [])]
    meant = Meant(where=cli.like(store, conditions, query))
    loaded = cli.app(app_, store=store)
    return check_deploy(cli, loaded, cli.folder / bundle if bundle is not None else meant, form, each=each)
