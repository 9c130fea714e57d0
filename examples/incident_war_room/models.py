"""What the war room talks about. Plain dataclasses: Loom writes them to the log and brings them back as they were."""

from dataclasses import dataclass
from typing import Literal

Remedy = Literal["roll back", "scale out", "fail over"]


@dataclass(frozen=True)
class Alert:
    """What the pager says: a service is ill since *minute* of the day's metrics."""

    service: str
    minute: int


@dataclass(frozen=True)
class Rate:
    """How many in a hundred requests failed, and how busy the hosts were (1.0: entirely), of one version or in one zone."""

    name: str
    errors_percent: float
    cpu: float


@dataclass(frozen=True)
class Deploy:
    version: str
    minute: int
    by: str


@dataclass(frozen=True)
class Findings:
    """What the investigation found, and what it points to: the first to look at when somebody decides."""

    points_to: str
    versions: list[Rate]
    zones: list[Rate]
    traffic_rps: float
    deploys: list[Deploy]


@dataclass(frozen=True)
class Decision:
    """The answer of the incident commander."""

    remedy: Remedy


@dataclass(frozen=True)
class Pool:
    """Hosts in service that are alike."""

    zone: str
    version: str
    hosts: int


@dataclass(frozen=True)
class Health:
    """How a service does: failed requests in a hundred, the latency that one in twenty exceeds, and its busiest hosts."""

    errors_percent: float
    latency_ms: int
    busiest_cpu: float

    @property
    def is_well(self) -> bool:
        return self.errors_percent < 1 and self.busiest_cpu < 0.8


@dataclass(frozen=True)
class Resolution:
    """How an incident ended: what was done, and how the service did before and after it."""

    remedy: Remedy
    before: Health
    after: Health
    solved: bool
