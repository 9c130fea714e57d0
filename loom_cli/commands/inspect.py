"""`loom inspect`: a page about the runs of a store, served on loopback or written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import EVENTS_MAX, AppOption, JsonOption, PrincipalOption, StoreOption

app = command_app()

_RunArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]",
        help="Open the page at this execution; any beginning of its id that is unique.",
        autocompletion=complete_ids,
        show_default=False,
    ),
]


@app.command()
def inspect(
    ctx: typer.Context,
    execution_id: _RunArgument = None,
    *,
    at: Annotated[
        int | None, typer.Option("--at", metavar="N", min=0, max=EVENTS_MAX, help="Open it at event number N, from 0.")
    ] = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write the run into one page that needs no server; - for stdout."),
    ] = None,
    allow_answers: Annotated[
        bool, typer.Option("--allow-answers", help="Let gates be answered on the page; this imports the app.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0 for a free port.")] = 0,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    expose: Annotated[
        bool, typer.Option("--expose", help="Listen at an address that others can reach, without encryption.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Another name it may be asked for by; may be repeated."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Look at runs in the browser: timeline, slider, state, live.

    A page on this machine alone, which needs no network, and changes nothing unless --allow-answers is given. The link holds the
    token without which nobody sees it. Ctrl-C ends it. With --json the state is printed, as `loom show` does, and nothing is
    served. The page needs the extra `serve`: pip install 'loom-runtime[serve]'.

    Example: loom inspect refund-42 --at 3 --json

    Example: loom inspect refund-42 --html refund-42.html
    """
    cli = Cli.of(ctx)
    if execution_id is None and (as_json or html is not None or at is not None):
        raise Usage("name the run", hint="loom inspect ID --at N --json")
    if as_json:
        return _print_state(cli, execution_id or "", at, store)
    if html is not None:
        from loom_cli.web.one_file import write_page

        return write_page(cli, execution_id or "", Path(html), at=at, store=store)
    from loom_cli.inspecting import Inspecting

    inspecting = Inspecting(cli, host=host, port=port, expose=expose, names=allow_host or ())
    if allow_answers:
        inspecting.allow_answers(app_, principal)
    return inspecting.serve(store, execution_id, at, opens=open_)


def _print_state(cli: Cli, text: str, at: int | None, store: str | None) -> ExitCode:
    from loom_cli.standing import require_events, stood, view_of, whole_json

    found = cli.run(stood(cli.reader(store), text))
    require_events(found.log, {"--at": at})
    cli.screen.json(whole_json(found, view_of(found, at), at))
    return ExitCode.DONE
