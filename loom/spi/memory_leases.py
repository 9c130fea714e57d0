"""Who holds what in the store in memory: what its methods as a `LeaseStore` do to the logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from loom.core.ids import ExecutionId
from loom.spi.event_store import NOBODY, Claim, LeaseChange
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
) -> list[Claim]:
    """Take up what can go on and nobody holds, longest due first."""
    now = logs.clock.now_ms()
    wanted = [
        log
        for log in logs.by_id.values()
        if (flows is None or log.index.flow in flows) and log.execution_id not in skip
    ]
    ready = [(log, found) for log in wanted if (found := _found(log, lease.driver, gone, now))]
    ready.sort(key=lambda each: (_ready_at(each[0]) or 0, each[0].index.flow, each[0].incarnation))
    claims: list[Claim] = []
    for log, found in ready[:limit]:
        taken_from = log.driver
        log.change_lease(lease, now)
        claims.append(Claim(log.row(now), found, log.called, taken_from))
    return claims


def renew(logs: Logs, lease: LeaseChange, executions: Sequence[ExecutionId]) -> list[ExecutionId]:
    """Hold *executions* from now on; return those that are not held any more."""
    held = _held(logs, lease.driver, executions)
    for log in held.values():
        log.change_lease(lease, logs.clock.now_ms())
    return [execution_id for execution_id in executions if execution_id not in held]


def leave(logs: Logs, driver: str, seen: Mapping[ExecutionId, int]) -> None:
    """Give up what was claimed and did not move; only calls that were not seen remain."""
    for execution_id, log in _held(logs, driver, seen).items():
        called, called_at = log.called, log.called_at
        log.change_lease(NOBODY, logs.clock.now_ms())
        if called > seen[execution_id]:
            log.called, log.called_at = called, called_at


def release(logs: Logs, driver: str, executions: Sequence[ExecutionId]) -> None:
    """Let leases lapse."""
    for log in _held(logs, driver, executions).values():
        log.leased_until, log.is_released = logs.clock.now_ms(), True


def _held(
    logs: Logs, driver: str, executions: Sequence[ExecutionId] | Mapping[ExecutionId, int]
) -> dict[ExecutionId, Log]:
    known = {name: logs.by_id[name] for name in executions if name in logs.by_id}
    return {name: log for name, log in known.items() if log.driver == driver}


def _found(log: Log, driver: str, gone: Sequence[str], now: int) -> Found | None:
    """Return why *driver* may claim an execution, None when it may not."""
    ready_at = _ready_at(log)
    if log.index.ended or ready_at is None:
        return None
    if not log.driver:
        return "due" if ready_at <= now else None
    if log.is_released:
        return "released"
    if log.driver in gone:
        return "gone"
    return "lapsed" if ready_at <= now and log.driver != driver else None


def _ready_at(log: Log) -> int | None:
    """Return since or from when an execution can go on without whoever holds it, None: not by itself."""
    if log.driver:
        return log.leased_until
    return min((at for at in (log.index.wake_at, log.called_at) if at is not None), default=None)
