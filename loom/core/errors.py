"""The root of Loom's errors. The tree is drawn in kernel/errors.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class LoomError(Exception):
    """Something Loom refused or could not do, told in words.

    `code` is a stable word for machines, `hint` says what to do next. The fields of a subclass are keyword
    arguments of its constructor and attributes of the error, so that nobody parses the text.
    """

    code: ClassVar[str] = "loom"
    hint: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only constructors break copying and pickling; rebuild from the fields, not by calling them.
        return (_rebuilt, (type(self), self.args, dict(self.__dict__)))


def _rebuilt(kind: type[LoomError], args: tuple[Any, ...], fields: dict[str, Any]) -> LoomError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidId(LoomError, ValueError):
    """A name that Loom cannot use as an id."""

    code = "invalid-id"
    hint = "Use up to 200 characters without spaces or control characters; names in code are words."

    def __init__(self, *, kind: str, text: object) -> None:
        self.kind, self.text = kind, text if isinstance(text, str) else type(text).__name__
        shown = repr(str.__str__(text)[:80]) if isinstance(text, str) else f"what is no text but a {self.text}"
        super().__init__(f"{shown} cannot be the id of {'an' if kind[0] in 'aeiou' else 'a'} {kind}")


class InvalidDeclaration(LoomError, TypeError):
    """A flow, step or setting that is declared in a way Loom cannot honour."""

    code = "invalid-declaration"

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class UnknownFlow(LoomError):
    """No flow, step or tool with this id is registered."""

    code = "unknown-flow"

    def __init__(self, *, kind: str, name: str, near: Sequence[str] = (), known: Sequence[str] = ()) -> None:
        self.kind, self.name, self.near, self.known = kind, name, tuple(near), tuple(known)
        if near:
            self.hint = f"Did you mean {', '.join(near)}?"
        else:
            self.hint = f"Registered: {', '.join(known[:12]) or 'none'}."
        super().__init__(f"no {kind} {name!r} is registered in this app")


class ExecutionTerminated(LoomError):
    """The execution has ended, so what was asked of it cannot happen."""

    code = "execution-ended"

    def __init__(self, *, execution_id: str, status: str, cause: str = "", hint: str = "") -> None:
        self.execution_id, self.status, self.cause = execution_id, status, cause
        again = f"`loom retry {execution_id}` tries it again from the failure." if status == "failed" else ""
        self.hint = hint or again
        super().__init__(f"{execution_id} is {status}" + (f": {cause}" if cause else ""))


class SuspensionSwallowed(RuntimeWarning):
    """A flow caught the signal that puts it away (a bare `except:`, or `except BaseException`)."""


class SyscallNotAwaited(RuntimeWarning):
    """A flow called a syscall and never awaited it: it did not happen."""


class StepNotDurable(RuntimeWarning):
    """A flow called a step as a plain function: it runs at every replay, and nothing of it is recorded."""


class SnapshotIgnored(RuntimeWarning):
    """A snapshot could not be used, and the log was folded instead: it takes longer, and comes to the same."""


class NoSyscallInSight(RuntimeWarning):
    """A flow has waited long for something that is no syscall, while nothing of it is in flight."""
