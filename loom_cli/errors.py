"""What the command itself refuses, beside the errors of the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from loom.core.errors import LoomError
from loom_cli.exits import ExitCode


class CommandRefused(LoomError):
    """The command cannot do what it was asked; each kind has its own exit status."""

    code = "command-refused"
    exit_code: ClassVar[ExitCode] = ExitCode.USAGE


class Usage(CommandRefused):
    """The command line does not fit: a flag that is missing, or does not go with another."""

    code = "usage"

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class AmbiguousExecution(CommandRefused):
    """A beginning of an id that several executions share."""

    code = "execution-ambiguous"

    def __init__(self, *, text: str, candidates: Sequence[str], more: bool) -> None:
        self.text, self.candidates, self.more = text, tuple(candidates), more
        self.hint = f"Name one of them: {', '.join(candidates)}{', ...' if more else ''}."
        super().__init__(f"{text!r} fits {'more than ' if more else ''}{len(candidates)} executions")


class AppNotFound(CommandRefused):
    """No app is where the command looked for one."""

    code = "app-not-found"
    hint = "Go to the folder of app.py, name the app with --app module:attribute, or set [tool.loom] app in pyproject.toml."

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint or self.hint
        super().__init__(message)


class AppNotImportable(CommandRefused):
    """Importing the app raised. Commands that only read work all the same."""

    code = "app-not-importable"
    hint = "Mend it and try again; --debug shows the traceback. ps, show, logs and gates work without the app."

    def __init__(self, *, module: str, file: str, line: int, error: str, hint: str = "") -> None:
        self.hint = hint or self.hint
        self.module, self.file, self.line, self.error = module, file, line, error
        super().__init__(f"{module} cannot be imported: {error} ({file}:{line})")


class StoreNotTheApps(CommandRefused):
    """The app keeps its logs elsewhere than the command line says."""

    code = "store-not-the-apps"
    hint = "Leave --store off, or wire sqlite_storage() without a path, or postgres_storage() without a DSN."

    def __init__(self, *, asked: str, app: str) -> None:
        self.asked, self.app = asked, app
        super().__init__(f"the app keeps its logs in {app}, not in {asked}")
