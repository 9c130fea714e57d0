"""Asking a predicate what is pinned. What it answers is looked at before anything is deleted by it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from loom.core.errors import InvalidDeclaration, LoomError

_OURS: Final = frozenset({__file__})


class PinsRaised(LoomError):
    """A predicate that says what is pinned raised; nothing was deleted by it."""

    code = "pins-raised"

    def __init__(self, *, method: str, error: Exception, place: str) -> None:
        self.method, self.error, self.place = method, f"{type(error).__name__}: {error}", place
        self.hint = "Mend the predicate, or leave it out; what was deleted before it raised is gone."
        super().__init__(f"{method} of the pins raised {self.error} ({place}); nothing was deleted by it")


async def pinned_among(ask: Callable[[Sequence[str]], Any], names: Sequence[str]) -> set[str]:
    """Return what *ask*, a method of a `PinPredicate`, says is pinned of *names*; it is not asked about none.

    Raises:
        InvalidDeclaration: the answer is no collection of texts. One text is none: of it each letter would be pinned, and no run.
        PinsRaised: it raised something of its own.
    """
    if not names:
        return set()
    method = getattr(ask, "__name__", "a predicate")
    try:
        found = await _answer(ask, names, method)
    except LoomError:
        raise
    except Exception as error:
        raise PinsRaised(method=method, error=error, place=_place(error, ask)) from error
    if (
        isinstance(found, str | bytes)
        or not isinstance(found, Collection)
        or not all(isinstance(n, str) for n in found)
    ):
        hint = "Return a list or a set of texts, as it was given them; [] where nothing is pinned."
        raise InvalidDeclaration(
            f"{method} of the pins gave {found!r:.80}, no collection of texts; nothing was deleted by it", hint=hint
        )
    return set(found)


async def _answer(ask: Callable[[Sequence[str]], Any], names: Sequence[str], method: str) -> Any:
    answer = ask(names)
    if not inspect.isawaitable(answer):
        hint = f"Write it as async def {method}(...)."
        raise InvalidDeclaration(f"{method} of the pins is no async def; nothing was deleted by it", hint=hint)
    return await answer


def _place(error: Exception, ask: object) -> str:
    """Return where in the author's code *error* came up: the line of the predicate itself, however deep it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = next((frame for frame in frames if frame.filename not in _OURS), None)
    if theirs is not None:
        return f"{theirs.filename}:{theirs.lineno}"
    code = getattr(ask, "__code__", None)  # it could not even be called
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "its declaration"
