"""Reading old payloads: up-cast from the version that they were written in to the one that this code has (kernel rule 10.1).

A log is never edited. Whoever changes the payload of an event type raises the version of its row in the table of events and
adds here how the version before is read; an older one goes through all that lie between. Up-casters are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from loom.core.json import JsonObject

Upcaster: TypeAlias = Callable[[JsonObject], JsonObject]
"""Returns the payload of the next version; what it is given is its own, to change as it likes."""

UPCASTERS: Final[Mapping[str, Mapping[int, Upcaster]]] = {}
"""By type, then by the version that is read; empty while every type has its first version."""


def upcast(
    type_: str,
    fields: JsonObject,
    *,
    written: int,
    present: int,
    upcasters: Mapping[str, Mapping[int, Upcaster]] = UPCASTERS,
) -> JsonObject:
    """Return the payload *fields* of a *type_*, *written* in one version, as the *present* version has them.

    Raises:
        LookupError: nothing says how a version between is read.
    """
    for version in range(written, present):
        step = upcasters.get(type_, {}).get(version)
        if step is None:
            raise LookupError(f"nothing says how version {version} of {type_} is read")
        fields = step(dict(fields))
    return fields
