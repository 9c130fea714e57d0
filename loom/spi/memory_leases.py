"""Who holds what in the store in memory: what its methods as a `LeaseStore` do to the logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from loom.core.ids import ExecutionId
from loom.spi.event_store import NOBODY, Claim, LeaseChange
from loom.spi.memory_due import ready_at
from loom.spi.memory_logs import Log, Logs

Found: TypeAlias = Literal["due", "lapsed", "gone", "released"]


def claim(
    logs: Logs,
    lease: LeaseChange,
    *,
    limit: int,
    flows: Sequence[str] | None,
    gone: Sequence[str],
    skip: Sequence[ExecutionId],
    driving: Sequence[ExecutionId],
) -> list[Claim]:
    """Take up what can go on and nobody holds, longest due first."""
    now, seen, claims = logs.clock.now_ms(), list[Log](), list[Claim]()
    ready = _ready(logs, gone, now)
    while len(claims) < limit and (log := next(ready, None)) is not None:
        seen.append(log)
        found = _found(log, gone, now, is_driven=log.driver == lease.driver and log.execution_id in driving)
        if found and (flows is None or log.index.flow in flows) and log.execution_id not in skip:
            taken_from = log.driver
            log.change_lease(lease, now)
            claims.append(Claim(logs.row(log, now), found, log.called, taken_from))
    for log in seen:
        logs.due.note(log)
    return claims


def _ready(logs: Logs, gone: Sequence[str], now: int) -> Iterator[Log]:
    """Yield what is due, then what those hold that are *gone*, though it is not due yet."""
    held = list(logs.due.held.values()) if gone else []  # looked at before anything is claimed
    left = [log for log in held if log.driver in gone and log.leased_until > now]
    yield from logs.due.take(now)
    yield from sorted(left, key=lambda log: (log.leased_until, log.index.flow, log.incarnation))


def renew(logs: Logs, lease: LeaseChange, executions: Sequence[ExecutionId]) -> list[ExecutionId]:
    """Hold *executions* from now on; return those that are not held any more."""
    held = _held(logs, lease.driver, executions)
    for log in held.values():
        log.change_lease(lease, logs.clock.now_ms())
        logs.due.note(log)
    return [execution_id for execution_id in executions if execution_id not in held]


def leave(logs: Logs, driver: str, seen: Mapping[ExecutionId, int]) -> None:
    """Give up what was claimed and did not move; only calls that were not seen remain."""
    for execution_id, log in _held(logs, driver, seen).items():
        called, called_at = log.called, log.called_at
        log.change_lease(NOBODY, logs.clock.now_ms())
        if called > seen[execution_id]:
            log.called, log.called_at = called, called_at
        logs.due.note(log)


def release(logs: Logs, driver: str, executions: Sequence[ExecutionId]) -> None:
    """Let leases lapse."""
    for log in _held(logs, driver, executions).values():
        log.leased_until, log.is_released = logs.clock.now_ms(), True
        logs.due.note(log)


def _held(
    logs: Logs, driver: str, executions: Sequence[ExecutionId] | Mapping[ExecutionId, int]
) -> dict[ExecutionId, Log]:
    known = {name: logs.by_id[name] for name in executions if name in logs.by_id}
    return {name: log for name, log in known.items() if log.driver == driver}


def _found(log: Log, gone: Sequence[str], now: int, *, is_driven: bool) -> Found | None:
    """Return why an execution may be claimed, None when it may not: its own driver may, unless by it it *is_driven*."""
    since = ready_at(log)
    if since is None:
        return None
    if not log.driver:
        return "due" if since <= now else None
    if log.is_released:
        return "released"
    if log.driver in gone:
        return "gone"
    return "lapsed" if since <= now and not is_driven else None
