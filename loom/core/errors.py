"""The root of Loom's errors. The tree is drawn in kernel/errors.py."""

from __future__ import annotations

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

    def __init__(self, *, kind: str, text: str) -> None:
        self.kind, self.text = kind, text
        super().__init__(f"{text[:80]!r} cannot be the id of {'an' if kind[0] in 'aeiou' else 'a'} {kind}")


class InvalidDeclaration(LoomError, TypeError):
    """A flow, step or setting that is declared in a way Loom cannot honour."""

    code = "invalid-declaration"

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)
