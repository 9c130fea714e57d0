"""The kernel manifest: what Loom is to those who build on it, as one JSON document.

It has the rooms of the library from the inside out with their maturity, the verbs of the kernel, the table of events with the
rules that a log is written under, and each interface of the edges: all with a version and the digest of its shape. The
committed copy is `docs/reference/kernel-manifest.json`; a test holds it against the code, and another pins the digests.
`python -m loom.devtools.manifest` prints it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from typing import Any, Final

from loom.core.json import JsonObject
from loom.core.upcasting import UPCASTERS
from loom.devtools.manifest.shapes import VERSIONS, digest, present

ROOMS: Final[Sequence[Sequence[str]]] = (
    ("core",),
    ("values",),
    ("fingerprint",),
    ("spi",),
    ("kernel",),
    ("driving",),
    ("lenses", "rings", "services"),
    ("coordination", "compute"),
    ("app",),
    ("plugins",),
    ("devtools",),
)
"""From the inside out; what stands side by side does not know each other. The import contract says the same."""

_DEPTH: Final = 5  # contracts, one of them, its shape, an interface, a member

MATURITIES: Final = ("experimental", "beta", "stable")
"""How far a room may be built on; `docs/reference/maturity.md` says what each means."""


def manifest() -> JsonObject:
    """Return the manifest: `format`, `rooms`, `upcasters`, and `contracts` by the names of their constants."""
    return {
        "format": 1,
        "rooms": [_room(name, layer) for layer, names in enumerate(ROOMS) for name in names],
        "contracts": {name: _contract(name) for name in VERSIONS},
        "upcasters": {type_: sorted(steps) for type_, steps in UPCASTERS.items()},
    }


def text(document: JsonObject) -> str:
    """Return a manifest as text: what belongs to one name stands on one line, so that a change of it is a change of a line."""
    return _written(document, depth=0) + "\n"


def _written(value: Any, depth: int) -> str:
    is_room = isinstance(value, dict) and "layer" in value
    if not isinstance(value, dict | list) or not value or is_room or depth == _DEPTH:
        return json.dumps(value, sort_keys=True)
    inner = " " * (depth + 1)
    items = (
        [f"{json.dumps(name)}: {_written(value[name], depth + 1)}" for name in sorted(value)]
        if isinstance(value, dict)
        else [_written(item, depth + 1) for item in value]
    )
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{' ' * depth}{closing}"


def maturity(package: str) -> str:
    """Return how far a package of Loom may be built on, as it says itself in `__maturity__`.

    Raises:
        LookupError: it does not say, or not in one of the words for it.
    """
    found = getattr(importlib.import_module(package), "__maturity__", None)
    if found not in MATURITIES:
        raise LookupError(f"{package}.__maturity__ is {found!r}, and none of {', '.join(MATURITIES)}")
    return str(found)


def _room(name: str, layer: int) -> JsonObject:
    return {"name": name, "layer": layer, "maturity": maturity(f"loom.{name}")}


def _contract(name: str) -> JsonObject:
    shape = VERSIONS[name].shape()
    return {
        "module": VERSIONS[name].module.__name__,
        "version": present(name),
        "digest": digest(shape),
        "shape": shape,
    }
