"""Who may do what to an execution: the check at the edge, asked before a verb changes anything."""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeAlias

from loom.core.ids import ExecutionId

AUTHORIZER_SPI_VERSION: Final = "1.0.0"

Action: TypeAlias = Literal[
    "send", "answer", "resolve", "retry", "migrate", "cancel", "pause", "unpause", "hold", "release", "attach", "fork"
]
"""What somebody wants to do: `answer` is a resume with an answer, the others are verbs of the runtime."""


class ExecutionAuthorizer(Protocol):
    """Decides whether a principal may act on an execution. It is asked by whoever takes the wish, not by the driver."""

    async def authorize(
        self, principal: str | None, action: Action, execution_id: ExecutionId, flow: str
    ) -> str | None:
        """Return None when *principal* (None: nobody said who) may do *action*, else the reason why not.

        The reason is recorded and told. What is raised refuses, too: it reaches the caller of the verb, and nothing is
        recorded.
        """
        ...
