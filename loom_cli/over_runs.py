"""What the commands share that are for one run, or for all that fit some conditions: options, and what they come to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.options import (
    AppOption,
    DryRunOption,
    ExecutionsArgument,
    JsonOption,
    PrincipalOption,
    QueryOption,
    QuietOption,
    StoreOption,
    WhereOption,
    YesOption,
)

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom_cli.bulk import Asked


class Given(NamedTuple):
    """What such a command was given: the run that was *named*, or else what was *asked* for, and who is *acting*."""

    ctx: typer.Context
    cli: Cli
    named: str | None
    asked: Asked
    acting: str
    options: Mapping[str, str | None]

    def app(self, *, strict: bool = False) -> LoomApp:
        """Return the app, imported now."""
        return self.cli.app(self.options["app"], store=self.options["store"], strict=strict)

    def linger_s(self, wait_s: float) -> float:
        """Return how long a run waits in place, seconds; one of many does so only where somebody has said it."""
        from loom_cli.bulk import bulk_wait_s

        return wait_s if self.named is not None else bulk_wait_s(self.ctx, wait_s)


def _options_before(
    ctx: typer.Context,
    execution_id: ExecutionsArgument = None,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None: ...


def _options_after(
    *,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None: ...


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


_BEFORE: Final = _parameters(_options_before)
_AFTER: Final = _parameters(_options_after)


def over_runs(command: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
    """Return *command* as typer is to see it: its own options among those that all such commands have.

    *command* takes what was `Given`, and its own options by name.
    """
    own = _parameters(command)[1:]

    def called(**values: Any) -> ExitCode:
        of_its_own = {parameter.name: values.pop(parameter.name) for parameter in own}
        return command(_given(**values), **of_its_own)

    parameters = [*_BEFORE, *own, *_AFTER]
    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for first
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _given(
    ctx: typer.Context,
    execution_id: str | None,
    *,
    where: list[str] | None,
    query: list[str] | None,
    principal: str | None,
    app_: str | None,
    store: str | None,
    **asked_for: bool,
) -> Given:
    from loom_cli.bulk import Asked, for_one
    from loom_cli.principals import principal_of

    cli = Cli.of(ctx)
    asked = Asked(cli.like(store, where, query), **asked_for)
    named, acting = for_one(execution_id, asked), principal_of(principal)
    return Given(ctx, cli, named, asked, acting, {"app": app_, "store": store})
