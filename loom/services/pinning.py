"""Asking a predicate what is pinned. What it answers is looked at before anything is deleted by it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

from loom.core.errors import InvalidDeclaration


async def pinned_among(ask: Callable[[Sequence[str]], Any], names: Sequence[str]) -> set[str]:
    """Return what *ask*, a method of a `PinPredicate`, says is pinned of *names*; it is not asked about none.

    Raises:
        InvalidDeclaration: the answer is no collection of texts. One text is none: of it each letter would be pinned, and no run.
    """
    if not names:
        return set()
    method, answer = getattr(ask, "__name__", "a predicate"), ask(names)
    if not inspect.isawaitable(answer):
        hint = f"Write it as async def {method}(...)."
        raise InvalidDeclaration(f"{method} of the pins is no async def; nothing was deleted by it", hint=hint)
    found = await answer
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
