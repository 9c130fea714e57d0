"""The benchmarks by name; each yields one line or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tests.benchmarks.branches import branches
from tests.benchmarks.command import command_help, command_ps, command_version
from tests.benchmarks.debugging import debugging
from tests.benchmarks.deploying import deploying
from tests.benchmarks.disk import disk
from tests.benchmarks.folding import folding
from tests.benchmarks.gates import gates
from tests.benchmarks.latency import commits, latency
from tests.benchmarks.messages import messages
from tests.benchmarks.postgres import postgres_cold_resume, postgres_steps
from tests.benchmarks.report import Line
from tests.benchmarks.resuming import cold_resume
from tests.benchmarks.scale import Scale
from tests.benchmarks.searching import postgres_searching, searching
from tests.benchmarks.snapshots import snapshot_bytes, snapshot_load, snapshot_lz4
from tests.benchmarks.steps import long_flow, steps_1_safe, steps_1_write_behind, steps_50_safe
from tests.benchmarks.travelling import comparing, forking, moments
from tests.benchmarks.working import lease_free, pick_up, timers_due, worker_memory, workers_two

BENCHMARKS: Final[Mapping[str, Callable[[Scale], Iterator[Line]]]] = {
    "steps-50-safe": steps_50_safe,
    "steps-1-write-behind": steps_1_write_behind,
    "steps-1-safe": steps_1_safe,
    "long-flow": long_flow,
    "cold-resume": cold_resume,
    "fold": folding,
    "branches": branches,
    "gates": gates,
    "disk": disk,
    "command-help": command_help,
    "command-ps": command_ps,
    "command-version": command_version,
    "commits": commits,
    "latency": latency,
    "messages": messages,
    "timers-due": timers_due,
    "workers-two": workers_two,
    "lease-free": lease_free,
    "worker-memory": worker_memory,
    "pick-up": pick_up,
    "debug": debugging,
    "fork": forking,
    "state-at": moments,
    "run-diff": comparing,
    "deploy-check": deploying,
    "snapshot-load": snapshot_load,
    "snapshot-bytes": snapshot_bytes,
    "snapshot-lz4": snapshot_lz4,
    "ps-where": searching,
    "postgres-ps-where": postgres_searching,
    "postgres-steps": postgres_steps,
    "postgres-cold-resume": postgres_cold_resume,
}
