"""What `ctx.suspend` takes beside label and type, and how it is checked where it is called."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypedDict

from loom.core.durations import timeout_ms
from loom.core.errors import InvalidDeclaration
from loom.core.ids import label


class SuspendOptions(TypedDict, total=False):
    """What `Context.suspend` takes beside label and type; see there."""

    show: Any
    timeout: timedelta | None
    key: str | None


def checked(options: SuspendOptions) -> tuple[Any, int | None, str | None]:
    """Return what is shown, the timeout in milliseconds, and the key.

    Raises:
        InvalidId, InvalidDeclaration: one of them cannot be used, or is no option at all.
    """
    unknown = options.keys() - SuspendOptions.__optional_keys__
    if unknown:
        taken = "expects, show, timeout and key"
        raise InvalidDeclaration(f"ctx.suspend takes {taken}, and no {', '.join(sorted(unknown))}")
    key = options.get("key")
    return options.get("show"), timeout_ms(options.get("timeout")), None if key is None else label("key", key)
