"""A small function run under a label, without a decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loom.core.ids import label as check_label
from loom.core.step import BY_OCCURRENCE, Step

_NO_SIGNATURE = inspect.Signature()


def inline_step(label: str, fn: Callable[..., Any]) -> Step[Any, Any]:
    """Return *fn* as a step under *label*; a declared step keeps its options and is only relabelled.

    Raises:
        InvalidId: it cannot be a label.
    """
    label = check_label("step", label)
    if isinstance(fn, Step):
        return replace(fn, id=label, naming=BY_OCCURRENCE)
    return Step(fn=fn, id=label, takes_context=False, signature=_NO_SIGNATURE)
