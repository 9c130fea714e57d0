"""Our own kernel as what is simulated: small programs made from a seed, carried out by the flow that the kernel's tests have."""

from __future__ import annotations

import random
from typing import Any, Final

from loom.devtools.dst.stage import Play
from loom.devtools.dst.world import World
from tests.kernel.programs import CODE, WORLD, Block, interpreted
from tests.kernel.programs import World as Trace

LEAVES: Final[tuple[tuple[Any, ...], ...]] = (
    ("run", 1),
    ("run", 2),
    ("flaky", 2),
    ("once",),
    ("once",),
    ("named", 1),
    ("keyed", 1),
    ("inline", 3),
    ("gather", 1, 2),
    ("decide", True),
    ("emit",),
    ("draw",),
    ("peek",),
    ("gate", None),
    ("gate", 2_000),
    ("receive", "own", None),
    ("receive", "a", 3_000),
    ("receive", "b", None),
    ("sleep", 40),
    ("sleep", 20_000),
    ("fail", "declined"),
    ("raise",),
)
"""What a program does, with its operands; times in ms."""


def program_of(seed: int) -> Block:
    """Return a program: a few operations, some with others inside."""
    return _block(random.Random(f"program {seed}"), depth=2, most=4)


def _block(chance: random.Random, *, depth: int, most: int) -> Block:
    return [_operation(chance, depth) for _ in range(chance.randint(1, most))]


def _operation(chance: random.Random, depth: int) -> list[Any]:
    if depth == 0 or chance.random() < 0.7:
        return list(chance.choice(LEAVES))
    blocks = [_block(chance, depth=depth - 1, most=2) for _ in range(chance.randint(1, 3))]
    name = chance.choice(["parallel", "select", "any", "scope", "map", "catch", "loop", "shield", "clean up"])
    match name:
        case "parallel" | "select" | "any":
            return [name, blocks]
        case "scope":
            return [name, chance.choice([None, 5_000]), blocks[1:], blocks[0]]
        case "map" | "loop":
            return [name, *([2, 2] if name == "map" else [2]), blocks[0]]
        case "clean up":
            return [name, blocks[0], blocks[-1]]
    return [name, blocks[0]]


def play_of(seed: int) -> Play:
    """Return the play of the program that *seed* stands for."""

    def prepare() -> None:
        WORLD.set(Trace(seed))

    def world() -> World:
        return World(real=True, answers=_Any(), replies=len, unread=True, may_fail=True, prepare=prepare)

    return Play(flow=interpreted, flows=CODE.flows, input=program_of(seed), world=world, code=CODE)


class _Any(dict[str, Any]):
    """An answer to every gate."""

    def __contains__(self, label: object) -> bool:
        return True

    def __missing__(self, label: str) -> int:
        return len(label)
