"""`loom new`: a project that runs, is tested and type-checked as it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.files import make_folder, template_files
from loom_cli.group import command_app
from loom_cli.options import JsonOption
from loom_cli.screen import Styled
from loom_cli.version import version

app = command_app()


@app.command()
def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the project and its folder are called.")],
    *,
    inside: Annotated[Path | None, typer.Option("--in", metavar="DIR", help="Make its folder here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project: a flow that waits for a person, and its tests.

    Example: loom new demo
    """
    from loom.devtools.projects import new_project

    cli = Cli.of(ctx)
    files = new_project(name, template_files("app"), loom_version=version())
    parent = cli.folder / (inside or "")
    if not parent.is_dir():
        raise Usage(f"there is no folder {inside}", hint="Make it first, or leave --in off; nothing was written.")
    folder = parent / name
    make_folder(folder, files)
    if as_json:
        cli.screen.json({"name": name, "folder": str(folder.resolve()), "files": sorted(files)})
    else:
        _tell(cli, name, inside / name if inside else Path(name), sorted(files))


def _tell(cli: Cli, name: str, shown: Path, files: list[str]) -> None:
    cli.screen.note(Styled(cli.screen.sign("done"), "green"), f" {name} is made: {len(files)} files in {shown}")
    cli.screen.note("next:")
    for command in (f"cd {quoted(str(shown))}", "loom run hello", "pip install pytest && python -m pytest"):
        cli.screen.line("  ", Styled(command, "bold"))


def quoted(path: str) -> str:
    """Return *path* as a shell takes it."""
    import shlex

    return shlex.quote(path)
