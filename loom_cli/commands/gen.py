"""`loom gen`: keeps `loom_gen.py` in step with the convention folders, and adds to them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loom.core.errors import LoomError
from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode, exit_code_of_error
from loom_cli.generation import Generation, add_item, generate_module
from loom_cli.group import command_app
from loom_cli.options import JsonOption
from loom_cli.screen import Styled
from loom_cli.sources import convention_folders, read_sources, watch_sources

app = command_app()


@app.command()
def gen(
    ctx: typer.Context,
    item: Annotated[str | None, typer.Argument(metavar="ITEM", help="Add a flow or tool, and its test.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="What it is called.")] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; end with 1 if it is out of date.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on whenever a file changes, until Ctrl-C.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a loom_gen.py that is not as it was written.")
    ] = False,
    graph: Annotated[
        bool, typer.Option("--graph", help="Write nothing; print the manifest, and each flow as a graph, as JSON.")
    ] = False,
    inside: Annotated[
        Path | None, typer.Option("--in", metavar="DIR", help="The project's folder, if not this.")
    ] = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Write loom_gen.py from what the folders declare.

    The folders are flows, agents, tools, skills, memories, schedules and projections. Nothing in them is imported.

    Example: loom gen --check

    Example: loom gen flow refund

    Example: loom gen --graph > graph.json
    """
    cli = Cli.of(ctx)
    _refuse_together(item, {"--check": check, "--watch": watch, "--force": force, "--graph": graph})
    _refuse_together("--graph" if graph else None, {"--check": check, "--watch": watch, "--force": force})
    _refuse_together("--watch" if watch else None, {"--check": check, "--json": as_json})
    root = _project(cli, inside, may_be_bare=item is not None or graph)
    if item is not None:
        return _add(cli, root, item, name, as_json=as_json)
    if graph:
        from loom_cli.picturing import compiled

        cli.screen.json(compiled(root))
        return ExitCode.DONE
    if watch:
        return _watch(cli, root, force=force)
    return _tell(cli, generate_module(root, read_sources(root), check=check, force=force), as_json=as_json)


def _refuse_together(what: str | None, options: dict[str, bool]) -> None:
    given = [option for option, is_given in options.items() if is_given]
    if what and given:
        raise Usage(f"{what} does not go with {' or '.join(given)}", hint="Leave one of them off; see loom gen --help.")


def _project(cli: Cli, inside: Path | None, *, may_be_bare: bool) -> Path:
    root = cli.folder / (inside or "")
    if not root.is_dir():
        raise Usage(f"there is no folder {inside}", hint="--in names the folder of app.py.")
    if not (may_be_bare or convention_folders(root) or (root / "loom_gen.py").exists()):
        hint = "Go to the folder of app.py, or make a project: loom new NAME."
        raise Usage("there is no flows, tools or other folder to read here; nothing was written", hint=hint)
    return root


def _add(cli: Cli, root: Path, item: str, name: str | None, *, as_json: bool) -> ExitCode:
    if name is None:
        raise Usage(f"the {item} needs a name", hint=f"loom gen {item} NAME")
    paths = add_item(root, item, name)
    has_generated = (root / "loom_gen.py").exists()
    generated = generate_module(root, read_sources(root)) if has_generated else None
    if as_json:
        cli.screen.json({"files": paths, "generated": generated.view() if generated else None})
        return _status(generated) if generated else ExitCode.DONE
    for path in paths:
        cli.screen.line(Styled(cli.screen.sign("done"), "green"), " ", path)
    if generated is not None:
        return _tell(cli, generated)
    cli.screen.note("next: register it in app.py, or let loom gen do so; then run the tests")
    return ExitCode.DONE


def _watch(cli: Cli, root: Path, *, force: bool) -> ExitCode:
    def changed(sources: dict[str, bytes]) -> None:
        try:
            _tell(cli, generate_module(root, sources, force=force))
        except LoomError as error:  # a file that is half written: the next change may mend it
            cli.screen.error(error.code, str(error), error.hint)
        cli.screen.flush()

    cli.screen.note(Styled("watching; Ctrl-C ends it", "dim"))
    return watch_sources(root, changed)


def _tell(cli: Cli, generation: Generation, *, as_json: bool = False) -> ExitCode:
    if as_json:
        cli.screen.json(generation.view())
        return _status(generation)
    for warning in generation.warnings:
        cli.screen.note(Styled("warning:", "yellow"), " ", warning)
    problem = generation.problem
    if problem is None:
        cli.screen.note(Styled(cli.screen.sign("done"), "green"), " ", generation.words)
        return ExitCode.DONE
    cli.screen.text(generation.diff)
    cli.screen.error(problem.code, str(problem), problem.hint)
    return _status(generation)


def _status(generation: Generation) -> ExitCode:
    return exit_code_of_error(generation.problem) if generation.problem else ExitCode.DONE
