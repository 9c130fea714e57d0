"""The steps: what looks at the fleet may look again; what changes it must not be done twice, and says so.

Each is a plain function, which runs in a worker thread, so a blocking call like those of sqlite3 holds up nothing.
"""

import loom
from fleet import Fleet
from models import Deploy, Health, Pool, Rate

LOOK_BACK = 20
"""So many minutes before the alert are looked at."""


def fleet_of(step: loom.StepContext) -> Fleet:
    fleet: Fleet = step.resources["fleet"]
    return fleet


@loom.step(reads=True)
def rates_by_version(step: loom.StepContext, service: str, minute: int) -> list[Rate]:
    return fleet_of(step).rates(service, "version", (minute - LOOK_BACK, minute))


@loom.step(reads=True)
def rates_by_zone(step: loom.StepContext, service: str, minute: int) -> list[Rate]:
    return fleet_of(step).rates(service, "zone", (minute - LOOK_BACK, minute))


@loom.step(reads=True)
def traffic(step: loom.StepContext, service: str, minute: int) -> float:
    return fleet_of(step).traffic_rps(service, (minute - 9, minute))


@loom.step(reads=True)
def recent_deploys(step: loom.StepContext, service: str, minute: int) -> list[Deploy]:
    return fleet_of(step).deploys(service, since=minute - 120)


@loom.step(reads=True)
def measure(step: loom.StepContext, service: str) -> Health:
    """How does it do now?"""
    return fleet_of(step).health(service)


@loom.step(reads=True)
def measure_after(step: loom.StepContext, service: str, pools: list[Pool]) -> Health:
    """How does it do now that its hosts are *pools*?"""
    return fleet_of(step).health(service)


# The remedies. Each returns the hosts that are in service then.


@loom.step(idempotent=False)
def roll_back(step: loom.StepContext, service: str, version: str) -> list[Pool]:
    fleet_of(step).roll_back(service, version, incident=step.execution_id, key=step.idempotency_key)
    return fleet_of(step).pools(service)


@loom.step(idempotent=False)
def scale_out(step: loom.StepContext, service: str, hosts: int) -> list[Pool]:
    fleet_of(step).scale_out(service, hosts, incident=step.execution_id, key=step.idempotency_key)
    return fleet_of(step).pools(service)


@loom.step(idempotent=False)
def fail_over(step: loom.StepContext, service: str, zone: str) -> list[Pool]:
    fleet_of(step).fail_over(service, zone, incident=step.execution_id, key=step.idempotency_key)
    return fleet_of(step).pools(service)
