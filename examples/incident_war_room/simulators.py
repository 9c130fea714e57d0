"""What the steps would come to: predicted from metrics, with nothing touched.

A remedy is applied to the hosts as they are, on paper; what comes of that is computed with what the metrics say of each version.
"""

from collections import Counter
from collections.abc import Iterable

import loom
from fleet import Fleet
from models import Health, Pool
from physics import Traits, health
from steps import fleet_of

LAST_MINUTES = 15


def would_roll_back(step: loom.StepContext, service: str, version: str) -> list[Pool]:
    return together(Pool(pool.zone, version, pool.hosts) for pool in fleet_of(step).pools(service))


def would_scale_out(step: loom.StepContext, service: str, hosts: int) -> list[Pool]:
    fleet = fleet_of(step)
    newest = fleet.deploys(service, since=0)[-1].version
    added = [Pool("abc"[number % 3], newest, 1) for number in range(hosts)]
    return together([*fleet.pools(service), *added])


def would_fail_over(step: loom.StepContext, service: str, zone: str) -> list[Pool]:
    return [pool for pool in fleet_of(step).pools(service) if pool.zone != zone]


def would_measure_after(step: loom.StepContext, service: str, pools: list[Pool]) -> Health:
    fleet = fleet_of(step)
    last = fleet.last_minute(service)
    return health(pools, fleet.traffic_rps(service, (last - 9, last)), estimated(fleet, service))


def estimated(fleet: Fleet, service: str) -> dict[str, Traits]:
    """Return what metrics say of each version: how much of what it was asked it failed, and how busy that kept its hosts."""
    last, hosts = fleet.last_minute(service), sum(pool.hosts for pool in fleet.pools(service))
    minutes = (last - LAST_MINUTES, last)
    each_rps = fleet.traffic_rps(service, minutes) / hosts
    rates = fleet.rates(service, "version", minutes)
    return {rate.name: Traits(rate.errors_percent / 100, 1000 * rate.cpu / each_rps) for rate in rates}


def together(pools: Iterable[Pool]) -> list[Pool]:
    """Return pools with those that are alike as one."""
    hosts: Counter[tuple[str, str]] = Counter()
    for pool in pools:
        hosts[pool.zone, pool.version] += pool.hosts
    return [Pool(*alike, count) for alike, count in sorted(hosts.items())]
