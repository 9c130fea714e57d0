"""What is round a flow while it is simulated: stand-ins for its steps, people who answer, messages, and what must stay so.

    def world() -> World:
        bank = Bank()
        return World(
            steps={"charge": bank.charge},
            answers={"approval": {"approved": True}},
            messages=[Message("paid", {"amount": 40})],
            invariants={"nobody is charged twice": lambda end: len(bank.charges) <= 1},
        )

A world is made anew for each simulation. It is in no process: what a stand-in changes stays when processes die.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeAlias

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState
from loom.driving.errors import ExecutionNotFound
from loom.driving.runtime import WorkflowRuntime

SOON_S: Final = 5.0
"""Whoever acts at a time of their own does so within so many seconds."""


class Message(NamedTuple):
    """A message that somebody sends to the run: at *at_s* seconds after the start, or when the seed has it.

    One that is not *keyed* is sent again without a key when its acknowledgement is lost, and may come twice.
    """

    topic: str
    message: Any = None
    at_s: float | None = None
    keyed: bool = True


class End(NamedTuple):
    """How a simulated run ended: *result* and *failure* are JSON, *types* those of its events in order.

    *status* is that of the last link where the run goes on as another.
    """

    status: str
    result: Any
    failure: Any
    types: tuple[str, ...]


class Desk:
    """From where somebody outside acts on the run: in a process of its own, which may die as others do."""

    def __init__(self, runtime: WorkflowRuntime, run_id: ExecutionId, name: str) -> None:
        self.runtime, self.run_id = runtime, run_id
        self._name = name

    async def send(self, topic: str, message: Any = None, *, key: str | None = None) -> None:
        """Send a message to the run. Who acts again after a failure sends under the same key, this act's name by default."""
        await self.runtime.send(self.run_id, topic, message, key=key or self._name, linger_s=0.0)

    async def answer(self, gate: str, answer: Any) -> None:
        """Answer a gate of the run."""
        await self.runtime.resume(self.run_id, gate=gate, answer=answer, linger_s=0.0)

    async def state(self) -> ExecutionState | None:
        """Return how the run stands, None when it has not been started."""
        try:
            return await self.runtime.load_state(self.run_id)
        except ExecutionNotFound:
            return None

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


Act: TypeAlias = Callable[[Desk], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class World:
    """What is round a flow.

    *steps* has for the id of a step what stands in for its function, with the same parameters, or the one result it has. A
    step that is in none runs as it is written if *real* says so (True, or ids), else its result is made up from its type.
    *resources* are what `step.resources` has. *answers* has for the label of a gate the answer, or what gives it for the
    gate's label; a gate without one is answered by a value made up from its schema, unless *answers* is None: then
    nobody answers. *replies* has for a topic what is sent when the run waits for it. *messages* are sent, and *acts*
    carried out, at times that the seed decides. *invariants* are asked at the end: what returns False or a text, or
    raises, is broken. Messages to topics in *unread* (True: all) may be left unread. With *may_fail*
    the run may fail where it does not when nothing goes wrong. *prepare* is called in each process as it begins.
    """

    steps: Mapping[str, Any] = field(default_factory=dict)
    real: bool | Collection[str] = False
    resources: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] | None = field(default_factory=dict)
    replies: Callable[[str], Any] | None = None
    messages: Sequence[Message] = ()
    acts: Sequence[Act] = ()
    invariants: Mapping[str, Callable[[End], object]] = field(default_factory=dict)
    unread: bool | Collection[str] = False
    may_fail: bool = False
    prepare: Callable[[], None] | None = None

    def runs(self, step_id: str) -> bool:
        """Whether a step without a stand-in runs as it is written."""
        return _names(self.real, step_id)

    def leaves(self, topic: str) -> bool:
        """Whether a message of *topic* may be left unread."""
        return _names(self.unread, topic)


def _names(chosen: bool | Collection[str], name: str) -> bool:
    return chosen if isinstance(chosen, bool) else name in chosen


class NoValue(LoomError):
    """A result, an answer or an input cannot be made up from its type."""

    code = "no-value"

    def __init__(self, what: str, why: str, hint: str) -> None:
        self.hint = hint
        super().__init__(f"no value can be made up for {what}: {why}")


def refuse_misspelt(world: World, *, steps: Collection[str], gates: Collection[str]) -> None:
    """Refuse names that nothing in a simulation had, and that are spelt like one which something had without a value.

    Other names may belong to what did not come up: an undo, a branch that was not taken.

    Raises:
        InvalidDeclaration: *steps*, which were asked for, or *gates*, which were opened, have such a name.
    """
    for kind, given, asked in (("steps", world.steps, steps), ("answers", world.answers or {}, gates)):
        for name in [name for name in given if name not in asked]:
            if near := get_close_matches(name, [each for each in asked if each not in given]):
                what = f"World({kind}={{{name!r}: ...}}): no {'step' if kind == 'steps' else 'gate'} of the run has that name"
                raise InvalidDeclaration(what, hint=f"Did you mean {' or '.join(map(repr, near))}?")


def broken(world: World, end: End) -> list[str]:
    """Return which of the world's own invariants do not hold at the end, and what they say."""
    told: list[str] = []
    for name, holds in world.invariants.items():
        try:
            said = holds(end)
        except AssertionError as error:
            told.append(f"{name}: {error}" if str(error) else name)
            continue
        except Exception as error:  # noqa: BLE001  # what cannot be told to hold does not
            told.append(f"{name}: it raised {type(error).__name__}: {error}")
            continue
        if isinstance(said, str) and said:
            told.append(f"{name}: {said}")
        elif said is False:
            told.append(name)
    return told


def made_by(factory: Callable[[], object]) -> World:
    """Return what *factory* makes.

    Raises:
        InvalidDeclaration: it raises, or makes no world.
    """
    try:
        made = factory()
    except Exception as error:
        what = f"the factory of the world raised {type(error).__name__}: {error}"
        raise InvalidDeclaration(what, hint="Mend it; --debug shows the traceback.") from error
    return checked(made)


def checked(made: object) -> World:
    """Return what a factory made.

    Raises:
        InvalidDeclaration: it is no world.
    """
    if not isinstance(made, World):
        raise InvalidDeclaration(
            f"the world is {made!r:.80}", hint="Return loom.devtools.dst.World(...) from the factory."
        )
    return made
