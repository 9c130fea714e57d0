"""`loom link`: a link with which one person answers one gate."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import typer

from loom.core.ids import Incarnation
from loom.driving.errors import ExecutionNotFound
from loom.driving.stored_log import StoredLog
from loom.services.answer_links import signed
from loom.spi.event_store import Storage
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.hints import Hints
from loom_cli.linking import PORT, VARIABLE, link_for, secret_given
from loom_cli.options import ExecutionArgument, JsonOption, StoreOption, span
from loom_cli.reading import log_meant
from loom_cli.screen import Styled

app = command_app()

_HERE: Final = f"http://127.0.0.1:{PORT}"


@app.command()
def link(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    gate: Annotated[
        str | None,
        typer.Option("--gate", metavar="GATE", help="Which gate, where several are open.", show_default=False),
    ] = None,
    *,
    to: Annotated[
        str, typer.Option("--for", metavar="PRINCIPAL", help="Who answers: the log names them, whoever has the link.")
    ] = "link",
    base: Annotated[
        str, typer.Option("--base", metavar="URL", help="Where the page is reached that takes the answer.")
    ] = _HERE,
    expires: Annotated[
        timedelta,
        typer.Option(
            "--expires", metavar="TIME", parser=span, help="How long it holds: 90s, 2h, 3d.", show_default="7d"
        ),
    ] = timedelta(days=7),
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Make a link with which one gate can be answered.

    Whoever has the link may answer that gate, once, until it expires; LOOM_LINK_SECRET signs it. The page that it leads to is
    served by `loom inspect --allow-answers` with the same secret: at a port of its own unless it is given one, so without --base it has
    to be given --port 8765.

    Example: loom link refund-42 --for ines --expires 2h
    """
    cli = Cli.of(ctx)
    log, incarnation = cli.run(_read(cli.reader(store), execution_id))
    expires_at = cli.now_ms() + int(expires.total_seconds() * 1000)
    made = link_for(log.state(), incarnation, gate, principal=to, expires_at=expires_at)
    url = f"{base.rstrip('/')}/answer/{signed(made, secret_given())}"
    if as_json:
        told = {"execution_id": made.execution_id, "gate": made.gate, "principal": to, "expires_at": expires_at}
        cli.screen.json({"url": url, **told})
    else:
        cli.screen.line(url)
    if base == _HERE:
        cli.screen.flush()
        served = Hints("", store=store).listing(f"inspect --allow-answers --port {PORT}")
        cli.screen.note(Styled(f"served there by: {served}, with the same {VARIABLE}", "dim"))
    return ExitCode.DONE


async def _read(storage: Storage, text: str) -> tuple[StoredLog, Incarnation]:
    log = await log_meant(storage, text)
    head = await storage.head(log.run_id)
    if head is None:  # deleted since we read it
        raise ExecutionNotFound(execution_id=text, store=storage.url)
    return log, head.incarnation
