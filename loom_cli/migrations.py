"""Moving a run to the code as it is, as a command: what it came to, as JSON and as lines. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from loom.driving.migrating import Migration
from loom.fingerprint import short
from loom_cli.readable import readable
from loom_cli.wording import one_line, value_text

_LABEL_WIDTH: Final = 12


def migration_json(migration: Migration) -> dict[str, Any]:
    """Return what a move came to in the shape of docs/reference/json.md."""
    fact = migration.fact
    return {
        "id": migration.execution_id,
        "status": migration.status,
        "sequence": migration.sequence,
        "before": _code(migration.flow_before, migration.version_before, fact.before),
        "after": _code(fact.flow, fact.version, fact.after),
        "given": fact.given,
        "differences": list(fact.differences),
        "unpatched": list(fact.unpatched or ()),
        "reason": fact.reason,
    }


def migration_rows(migration: Migration) -> Iterator[tuple[str, str]]:
    """Yield what there is to say of a move, each with what it is."""
    fact = migration.fact
    before = f"{migration.flow_before} version {migration.version_before}"
    after = f"{fact.flow} version {fact.version}"
    yield "flow".ljust(_LABEL_WIDTH), after if before == after else f"{after}, before {before}"
    same = fact.before == fact.after
    yield "code".ljust(_LABEL_WIDTH), short(fact.after) + (" as before" if same else f", before {short(fact.before)}")
    if fact.given is not None:
        told = json.dumps(readable(fact.given["input"]), ensure_ascii=False) if "input" in fact.given else "its default"
        yield "input".ljust(_LABEL_WIDTH), one_line(told, 200)
    for difference in fact.differences:
        yield "differs".ljust(_LABEL_WIDTH), _difference(difference)
    if fact.unpatched:
        yield "old way".ljust(_LABEL_WIDTH), f"it has passed {', '.join(fact.unpatched)}"
    if fact.reason:
        yield "reason".ljust(_LABEL_WIDTH), one_line(fact.reason, 200)


def moved_words(migration: Migration) -> str:
    """Return the first line: what was done, or would be."""
    if migration.is_needless:
        return "is on the code as it is already; nothing was written"
    if migration.sequence is None:
        return "fits the code as it is, and could be moved to it; nothing was written"
    return f"moved to the code as it is (event {migration.sequence})"


def next_verb(migration: Migration) -> str:
    """Return the command that comes next: what was only tried is done, what is paused is let go on."""
    if migration.sequence is None and not migration.is_needless:
        return "migrate"
    return "unpause" if migration.status == "paused" else "resume"


def _code(flow: str | None, version: str | None, fingerprint: str) -> dict[str, Any]:
    return {"flow": flow, "version": version, "fingerprint": fingerprint}


def _difference(difference: Mapping[str, Any]) -> str:
    asked = value_text((difference.get("asked") or {}).get("args"))
    return f"{difference.get('id')} is asked with {one_line(asked, 120)}; what is recorded is served"
