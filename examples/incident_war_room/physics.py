"""How hosts behave under load: what they fail at, how long they take, how busy they are. Pure.

The fleet itself lives by it, with what is true of each version; the simulators predict by it, with what they have estimated from
metrics.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from models import Health, Pool

BUSY = 0.8
"""From here on a host drops requests."""
IDLE_LATENCY_MS = 80


class Traits(NamedTuple):
    """What one version is like: the share of requests that it fails, and how long each keeps a host busy."""

    errors: float
    cpu_ms: float


def host_cpu(rps: float, traits: Traits) -> float:
    """Return how busy a host is (1.0: entirely) that gets so many requests a second."""
    return rps * traits.cpu_ms / 1000


def host_errors(cpu: float, traits: Traits) -> float:
    """Return the share of its requests that a host fails."""
    return min(1.0, traits.errors + 1.5 * max(0.0, cpu - BUSY))


def host_latency_ms(cpu: float) -> float:
    return IDLE_LATENCY_MS / (1 - min(cpu, 0.96))


def health(pools: Sequence[Pool], traffic_rps: float, traits: Mapping[str, Traits]) -> Health:
    """Return how a service does whose traffic all hosts of *pools* share evenly."""
    hosts = sum(pool.hosts for pool in pools)
    each = traffic_rps / hosts
    cpus = [host_cpu(each, traits[pool.version]) for pool in pools]
    failed = [host_errors(cpu, traits[pool.version]) * pool.hosts for cpu, pool in zip(cpus, pools, strict=True)]
    slowest = max(host_latency_ms(cpu) for cpu in cpus)
    return Health(round(100 * sum(failed) / hosts, 2), round(slowest), round(max(cpus), 2))
