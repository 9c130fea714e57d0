"""Bundles for tests: a store with a log in it, what is written of it, and zips that are nearly bundles."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.kernel.codec import decode_events
from loom.kernel.fold import fold
from loom.plugins.bundle.file import comment_of
from loom.plugins.bundle.gathering import Wanted
from loom.plugins.bundle.redacting import Redaction
from loom.plugins.bundle.shapes import MANIFEST
from loom.plugins.bundle.writing import Sources, Written, write_bundle
from loom.spi.content_store import HasContent
from loom.spi.event_store import Append, EventRecord, Storage
from loom.spi.indexing import gates_text, index_row
from loom.spi.memory import MemoryStorage

Members = dict[str, bytes]


async def store_of(run_id: ExecutionId, records: Sequence[EventRecord]) -> MemoryStorage:
    """Return a store that holds one log, its row as a driver would have written it."""
    store = MemoryStorage()
    state = fold(decode_events(run_id, records), empty_state(run_id))
    index = index_row(state, gates_text(state))
    item = Append(execution_id=run_id, incarnation=None, expected=0, append_id="golden", events=records, index=index)
    await store.append([item])
    return store


async def packed(
    storage: Storage, *runs: str, forks: bool = False, redaction: Redaction | None = None, **sources: Any
) -> tuple[bytes, Written]:
    """Return a bundle of *runs* as its bytes."""
    file = io.BytesIO()
    if isinstance(storage, HasContent):
        sources.setdefault("contents", storage.content_store())
    wanted = Wanted([ExecutionId(run) for run in runs], forks=forks)
    written = await write_bundle(file, Sources(storage, **sources), wanted, redaction=redaction)
    return file.getvalue(), written


def members_of(bundle: bytes) -> Members:
    """Return what is in a bundle, by name."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(path: Path, members: Members, *, comment: bytes | None = None) -> Path:
    """Write *members* to a zip whose comment has the digest of their manifest, as one that was made to do harm would."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment_of(sha256(members[MANIFEST]).hexdigest()) if comment is None else comment
    return path


def changed(members: Members, change: Callable[[Any], None]) -> Members:
    """Return *members* with a manifest that was changed."""
    manifest = json.loads(members[MANIFEST])
    change(manifest)
    return {**members, MANIFEST: json.dumps(manifest).encode()}
