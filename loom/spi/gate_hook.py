"""Who is told that something waits for a person: a chat, a queue of tickets, a pager."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from loom.core.ids import ExecutionId, Incarnation
from loom.core.views import OpenGate

GATE_HOOK_SPI_VERSION: Final = "1.0.0"


class GateNotice(NamedTuple):
    """A gate, or an effect in doubt, that waits in one life of a run of *flow*.

    *key* is the same whenever it is told of: who is told twice knows it by that. *at* is when it is told, ms since the epoch.
    """

    key: str
    at: int
    execution_id: ExecutionId
    incarnation: Incarnation
    flow: str
    gate: OpenGate


class GateHook(Protocol):
    """Takes news of what waits for a person."""

    def wants(self, flow: str) -> bool:
        """Whether gates of the runs of *flow* are told of; always the same for one flow."""
        ...

    async def tell(self, notice: GateNotice) -> None:
        """Return once the news has arrived.

        Whatever it raises, it is asked again later, with the same *key*; so it is where an attempt was lost half-way.
        """
        ...
