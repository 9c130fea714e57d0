"""What a flow is made of, as it is written: blocks in blocks. Each part has a key that the pictures and visits share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

ActKind: TypeAlias = Literal["step", "gate", "message", "timer", "decision", "event", "stream", "child"]
LeaveKind: TypeAlias = Literal["return", "raise", "break", "continue", "rolls over"]
GroupKind: TypeAlias = Literal["helper", "saga", "shield"]


class Place(NamedTuple):
    """Where something stands in the source."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class Act(NamedTuple):
    """A syscall. *name* is that of its identity, None where the source does not spell it out; *undo* what undoes it."""

    key: str
    kind: ActKind
    text: str
    name: str | None
    place: Place
    notes: tuple[str, ...] = ()
    undo: str | None = None


class Arm(NamedTuple):
    """One way of several, or a branch; *each*: any number of branches are so."""

    label: str
    body: Block
    each: bool = False


class Choice(NamedTuple):
    """Exactly one of the arms is gone through."""

    key: str
    text: str
    arms: tuple[Arm, ...]
    place: Place


class Loop(NamedTuple):
    """The body is gone through any number of times; an *endless* one is left from inside."""

    key: str
    text: str
    body: Block
    place: Place
    endless: bool = False


class Fork(NamedTuple):
    """A scope: its arms run side by side. *kind* is that of the scope, *name* that of its identity."""

    key: str
    kind: str
    name: str | None
    arms: tuple[Arm, ...]
    place: Place
    notes: tuple[str, ...] = ()


class Guarded(NamedTuple):
    """A body with what is done where it fails, and what is done in the end whatever happens."""

    key: str
    body: Block
    handlers: tuple[Arm, ...]
    final: Block
    place: Place


class Group(NamedTuple):
    """A part that has a name: a helper that is called, a saga, a shield. Without a body it is a helper inside itself."""

    key: str
    kind: GroupKind
    text: str
    body: Block
    place: Place


class Leave(NamedTuple):
    """The end of a loop's turn, of a helper, or of the flow."""

    key: str
    kind: LeaveKind
    text: str
    place: Place


Item: TypeAlias = Act | Choice | Loop | Fork | Guarded | Group | Leave
Block: TypeAlias = tuple[Item, ...]


class Shape(NamedTuple):
    """A flow as it is written. *unfollowed* is what the source does not tell: a line each."""

    flow: str
    takes: str
    gives: str
    about: str
    place: Place
    body: Block
    unfollowed: tuple[str, ...] = ()


def inner_blocks(item: Item) -> Iterator[Block]:
    """Yield the blocks that *item* holds."""
    match item:
        case Choice(arms=arms) | Fork(arms=arms):
            yield from (arm.body for arm in arms)
        case Loop(body=body) | Group(body=body):
            yield body
        case Guarded(body=body, handlers=handlers, final=final):
            yield body
            yield from (arm.body for arm in handlers)
            yield final
        case _:
            return


def items_in(block: Block) -> Iterator[Item]:
    """Yield all items of *block*, at any depth, in the order of the source."""
    for item in block:
        yield item
        for inner in inner_blocks(item):
            yield from items_in(inner)


def does_something(block: Block) -> bool:
    """Whether *block* asks anything."""
    return any(isinstance(item, Act | Fork) for item in items_in(block))


def matters(block: Block) -> bool:
    """Whether *block* asks anything, or leads elsewhere than to what follows it."""
    return any(isinstance(item, Act | Fork | Leave) for item in items_in(block))
