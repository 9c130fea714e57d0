"""Values derived from the log: the same in every replay, and an added draw moves none elsewhere (kernel rule 5.5)."""

from __future__ import annotations

import hashlib
import uuid
from typing import Final

SCALE: Final = 1 << 53


def derived(*parts: str) -> bytes:
    """Return 32 bytes that depend on all *parts* and their borders."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def fraction(*parts: str) -> float:
    """Return a number in [0, 1) derived from *parts*."""
    return (int.from_bytes(derived(*parts)[:8], "big") >> 11) / SCALE


def derived_uuid(*parts: str) -> uuid.UUID:
    """Return a random-looking UUID (version 4) derived from *parts*."""
    return uuid.UUID(bytes=derived(*parts)[:16], version=4)


def idempotency_key(execution_id: str, seed: str, identity: str, generation: int) -> str:
    """Return the key that a step hands to the other side: the same for all its attempts, across crashes.

    The seed is fresh for each incarnation of an id, each link of a chain and each fork, so it stands for those.
    """
    return "loom-" + derived("key", execution_id, seed, identity, str(generation)).hex()[:32]
