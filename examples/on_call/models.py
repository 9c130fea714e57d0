"""What the on-call desk talks about. Plain dataclasses: Loom writes them to the log and brings them back as they were."""

from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["solved", "recovered", "unanswered", "unattended"]


@dataclass(frozen=True)
class Alarm:
    """What the monitor has seen: a host of a service is ill."""

    id: str
    service: str
    host: str
    symptom: str


@dataclass(frozen=True)
class Shift:
    """Who is on call: the first is called first, the others when the first does not answer."""

    first: str
    second: str
    manager: str


@dataclass(frozen=True)
class Page:
    """A call that wakes somebody. The incident and the reason are what it is about: once for each is enough."""

    person: str
    incident: str
    reason: str
    text: str


@dataclass(frozen=True)
class Taken:
    """The answer to a page: whoever gives it owns the incident from now on."""

    by: str


@dataclass(frozen=True)
class Cleared:
    """What the monitor says when an alarm is over by itself."""

    after_minutes: int


@dataclass(frozen=True)
class Status:
    """What the owner of an incident reports. The last report says that it is solved."""

    by: str
    text: str
    solved: bool = False


@dataclass(frozen=True)
class Report:
    """How an incident ended, who owned it, and what was reported on the way."""

    alarm: str
    outcome: Outcome
    owner: str = ""
    words: list[str] = field(default_factory=list)
