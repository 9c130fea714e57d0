"""Running a command line, and telling what came of it."""

from __future__ import annotations

import os
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Any, Final

from loom_cli.exits import ExitCode, exit_code_of_error
from loom_cli.streams import OutputClosed, OutputRefused

if TYPE_CHECKING:
    from loom_cli.cli import Cli

_UNEXPECTED_HINT: Final = (
    "--debug shows where. It is a fault of Loom's, or of what was plugged into it; please report it."
)
_EXITED_HINT: Final = "Raise an error instead. What was committed is kept, and a run can be resumed."
_COMPLETING: Final = ("--install-completion", "--show-completion")


def run(arguments: list[str], cli: Cli | None) -> int:
    """Run the command line and return its exit status; errors are told on the screen of *cli*."""
    from loom_cli.cli import Cli

    cli = cli or Cli.of_process()
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    cli.debug, cli.json_errors = "--debug" in options, "--json" in options
    arguments = [word for word in options if word != "--debug"] + arguments[len(options) :]
    try:
        status = _dispatch(arguments, cli)
        cli.screen.flush()
    except OutputClosed:
        status = ExitCode.DONE
    except BaseException as error:  # noqa: BLE001  # the one place where errors become text and a status
        status = _tell(error, cli)
    cli.screen.err.flush()
    return int(status)


def refused_output(refused: OSError) -> int:
    """Tell that the results of this process were not taken, and return the status for it."""
    from loom_cli.cli import Cli

    return _tell(OutputRefused.of(refused), Cli.of_process())


def _dispatch(arguments: list[str], cli: Cli) -> int:
    completes = bool(os.environ.get("_LOOM_COMPLETE"))
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if not completes and arguments in ([], ["--help"], ["-h"]):
        from loom_cli.front_page import draw_front_page

        draw_front_page(cli.screen)
        return ExitCode.DONE
    import typer

    from loom_cli.group import root

    is_about_completion = completes or arguments[0].startswith(_COMPLETING)
    command = root(completion=is_about_completion)
    try:
        with redirect_stdout(cli.screen.out):
            if completes:
                command.main(prog_name="loom", obj=cli)  # writes the answer for the shell and exits
            with command.make_context("loom", arguments, obj=cli) as ctx:
                status = command.invoke(ctx)
    except typer.Exit as ended:  # --help ends so, having printed
        return ended.exit_code
    except SystemExit as ended:
        if not is_about_completion:
            raise
        return ended.code if isinstance(ended.code, int) else ExitCode.DONE
    return status if isinstance(status, int) else ExitCode.DONE


def _tell(error: BaseException, cli: Cli) -> int:
    """Print what *error* says, and return its status."""
    import asyncio

    import typer
    from typer.exceptions import TyperException

    from loom.core.errors import LoomError

    if cli.debug:
        cli.screen.traceback(error)
    if isinstance(error, LoomError):
        return _say(cli, error.code, str(error), error.hint, status=exit_code_of_error(error), fields=_fields(error))
    if isinstance(error, TyperException):
        return _say(cli, "usage", _sentence(error.format_message()), _usage_hint(error), status=ExitCode.USAGE)
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError | typer.Abort):
        return _say(cli, "interrupted", "stopped by a signal", "", status=ExitCode.INTERRUPTED)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SystemExit):  # what is the author's runs in this process
        return _say(cli, "exited", f"code of the app ended the command by {what}", _EXITED_HINT, status=ExitCode.FAILED)
    return _say(cli, "unexpected", what, _UNEXPECTED_HINT, status=ExitCode.FAILED)


def _say(cli: Cli, code: str, what: str, hint: str, *, status: ExitCode, fields: dict[str, Any] | None = None) -> int:
    with suppress(OutputClosed, OutputRefused):  # what is told here is more than that
        cli.screen.out.flush()
    if cli.json_errors:
        cli.screen.error_json(code, what, hint, fields or {})
    else:
        cli.screen.error(code, what, hint)
    return status


def _fields(error: BaseException) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if name != "hint" and not name.startswith("_")}


def _sentence(message: str) -> str:
    """Return a message of typer's as ours are: no capital at the start, no stop at the end."""
    message = message.strip().removesuffix(".")
    return message[:1].lower() + message[1:] if message[1:2].islower() else message


def _usage_hint(error: Any) -> str:
    ctx = getattr(error, "ctx", None)
    return f"{ctx.command_path if ctx is not None else 'loom'} --help"
