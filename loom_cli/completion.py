"""What the shell offers after Tab. It never fails: no store, no app and broken code all mean no offers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import typer

_OFFERS_MAX: Final = 50


def complete_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids that begin with *incomplete*, read from the store alone."""
    with contextlib.suppress(Exception):
        return _ids(ctx, incomplete)
    return []


def complete_flows(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the flows that begin with *incomplete*: those that ran, and those that the source declares."""
    names: set[str] = set()
    with contextlib.suppress(Exception):
        names |= _flows_that_ran(ctx)
    with contextlib.suppress(Exception):
        names |= _flows_declared(ctx)
    return sorted(name for name in names if name.startswith(incomplete))


def complete_queries(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the saved queries that begin with *incomplete*."""
    with contextlib.suppress(Exception):
        from loom_cli.cli import Cli
        from loom_cli.queries import project_queries

        names = [each.name for each in project_queries(Cli.of(ctx).folder, now_ms=0) if not each.fault]
        return [name for name in names if name.startswith(incomplete)]
    return []


def _ids(ctx: typer.Context, incomplete: str) -> list[str]:
    from loom_cli.cli import Cli

    cli = Cli.of(ctx)
    storage = cli.reader(ctx.params.get("store"))

    async def read() -> list[str]:
        return list(await storage.ids(prefix=incomplete, limit=_OFFERS_MAX))

    return cli.run(read())


def _flows_that_ran(ctx: typer.Context) -> set[str]:
    from loom.spi.event_store import ExecutionQuery
    from loom_cli.cli import Cli

    cli = Cli.of(ctx)
    storage = cli.reader(ctx.params.get("store"))

    async def read() -> set[str]:
        return {row.index.flow for row in await storage.find(ExecutionQuery(limit=500))}

    return cli.run(read())


def _flows_declared(ctx: typer.Context) -> set[str]:
    from loom_cli.cli import Cli
    from loom_cli.flow_names import flow_names

    folder = Cli.of(ctx).folder
    files = [folder / "app.py", folder / "loom_gen.py", *sorted(Path(folder / "flows").glob("*.py"))]
    return {name for file in files if file.is_file() for name in flow_names(file.read_text("utf-8"))}
