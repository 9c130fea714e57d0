"""How the body of a flow runs: inside its context, and watched by a guard if there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from loom.core.errors import LoomError
from loom.core.flow import Flow
from loom.core.inside import INSIDE
from loom.core.step import Step
from loom.spi.event_store import EventRecord

Stop: TypeAlias = Callable[[LoomError], None]


class Rehearsal(Protocol):
    """A run that is about to end, or has parked, and how its body is run again: with effects cut off, against its own log."""

    @property
    def execution_id(self) -> str: ...

    @property
    def flows(self) -> Mapping[str, Flow[Any, Any]]: ...

    @property
    def tools(self) -> Mapping[str, Step[Any, Any]]: ...

    async def log(self) -> Sequence[EventRecord]:
        """Return what the store has of its log, with the end that it has come to if it is about to end."""
        ...

    async def base(self) -> bytes:
        """Return the state, encoded, before which events of the log were moved to an archive; empty where none were."""
        ...

    async def replay(self) -> None:
        """Run its body again, here.

        Raises:
            LoomError: it asks something else, or comes to something else.
        """
        ...


class BodyGuard(Protocol):
    """Watches what the bodies of flows do themselves. With none, that costs nothing."""

    def watched(self, body: Coroutine[Any, Any, Any], stop: Stop) -> Coroutine[Any, Any, Any]:
        """Return *body*, the flow or a branch of it, watched at each of its turns; *stop* ends the drive with an error."""
        ...

    async def before_leaving(self, rehearsal: Rehearsal) -> None:
        """A run is about to end, or has parked.

        Raises:
            LoomError: the drive ends with it. A run that was about to end stays open.
        """
        ...


class ExitInFlow(RuntimeError):
    """A flow called `sys.exit`: it fails, and the process goes on."""


def run_body(body: Callable[[], Awaitable[Any]], guard: BodyGuard | None, stop: Stop) -> Coroutine[Any, Any, Any]:
    """Return what runs the body of a branch, or of the flow; an exit that it asks for is a failure of its own."""
    running = body_running(body)
    return running if guard is None else guard.watched(running, stop)


async def body_running(body: Callable[[], Awaitable[Any]]) -> Any:
    """Run *body*: the frame below all that it does."""
    INSIDE.set("flow")
    try:
        return await body()
    except SystemExit as exit_:  # asyncio would end the loop with it
        raise ExitInFlow(f"sys.exit({exit_.code!r}) was called in the flow") from exit_
