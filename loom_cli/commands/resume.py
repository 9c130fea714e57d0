"""`loom resume`: answer a run that waits, or go on with one that was cut off."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    DryRunOption,
    ExecutionsArgument,
    JsonOption,
    OnChangeOption,
    PrincipalOption,
    QueryOption,
    QuietOption,
    SetOption,
    SimulateOption,
    StoreOption,
    StrictOption,
    WaitOption,
    WhereOption,
)

app = command_app()


_GateOption: TypeAlias = Annotated[
    str | None, typer.Option("--gate", metavar="ADDRESS", help="Which gate, or an ending of its address.")
]
_ShownOption: TypeAlias = Annotated[
    str | None, typer.Option("--shown", metavar="DIGEST", help="Answer only if the gate still shows just this.")
]
_YesOption: TypeAlias = Annotated[
    bool,
    typer.Option("--yes", "-y", help="With an answer: do not ask before it is sent; with --where: before it begins."),
]


@app.command()
def resume(
    ctx: typer.Context,
    execution_id: ExecutionsArgument = None,
    *,
    answer: Annotated[
        str | None, typer.Option("--answer", "-a", metavar="JSON", help="The answer: JSON, @FILE, or - for stdin.")
    ] = None,
    set_: SetOption = None,
    gate: _GateOption = None,
    shown: _ShownOption = None,
    simulate: SimulateOption = False,
    on_change: OnChangeOption = None,
    where: WhereOption = None,
    query: QueryOption = None,
    dry_run: DryRunOption = False,
    yes: _YesOption = False,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    strict: StrictOption = False,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Answer a run that waits, or go on with one that was cut off.

    Without an answer, a run that waits for a person shows its question: on a terminal it is asked field by field,
    elsewhere the command ends with 3. An answer that is given is shown there with its question, and sent once that is
    agreed to. It is bound to what was shown; so --yes needs --shown where a gate shows something. With --where, all
    that can go on by themselves do.

    Example: loom resume refund-42 --set approved=true

    Example: loom resume refund-42 --gate approval --answer '{"approved": false, "reason": "too late"}'

    Example: loom resume refund-42 --on-change check

    Example: loom resume --where status=running --dry-run
    """
    from loom.core.missing import MISSING
    from loom_cli.bulk import Asked, Bulk, bulk_wait_s, for_one
    from loom_cli.driving import Driving
    from loom_cli.payloads import payload_given
    from loom_cli.principals import principal_of
    from loom_cli.resuming import Answer, Resuming
    from loom_cli.selecting import VERBS

    cli = Cli.of(ctx)
    value = payload_given(answer, set_ or [], flag="--answer", folder=cli.folder)
    agreed = yes and value is not MISSING
    asked = Asked(cli.like(store, where, query), dry_run=dry_run, yes=yes and not agreed, quiet=quiet, as_json=as_json)
    named, acting = for_one(execution_id, asked), principal_of(principal)
    given = Answer(value, gate, shown, agreed=agreed)
    loaded = cli.app(app_, store=store, strict=strict)
    if named is None:
        if answer is not None or set_ or gate is not None or shown is not None or simulate:
            raise Usage("an answer, or a simulation, is for one run", hint="name the run instead of --where")
        wait_s = bulk_wait_s(ctx, wait_s)
        bulk = Bulk(cli, loaded, VERBS["resume"])
        return bulk.run(
            asked, lambda runtime, id: runtime.resume(id, principal=acting, on_change=on_change, linger_s=wait_s)
        )
    driving = Driving(cli, loaded, quiet=quiet, as_json=as_json, options={"app": app_, "store": store})
    resuming = Resuming(cli, loaded, driving, principal=acting, on_change=on_change, linger_s=wait_s, simulate=simulate)
    return resuming.resume(named, given)
