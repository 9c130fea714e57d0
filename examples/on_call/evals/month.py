"""Live through a month of one seed and compare what came of each alarm with the record, expected.json: python -m evals.month

When a change is meant to change that, record it and review the difference: python -m evals.month --accept
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import loom
from app import on_call
from loom.devtools.testing import VirtualWorld, virtual_world
from models import Cleared, Page, Status, Taken
from outside import Outside

T = TypeVar("T")

EXPECTED = Path(__file__).parent / "expected.json"
SEED = 7
START = datetime(2026, 11, 30, tzinfo=UTC)  # a Monday
DAYS = 30
SERVICES = ("checkout", "search", "mail")
SYMPTOMS = ("errors over 5 %", "slow answers", "no answer", "the disk is full")


class Chance(random.Random):
    """Of a seeded generator only random() is promised never to change."""

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[int(self.random() * len(choices))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))


def troubles(seed: int) -> Iterator[tuple[timedelta, str, str, str]]:
    """Yield when which host of which service falls ill, and how: for a day less than a month, so that all can end."""
    chance = Chance(f"troubles {seed}")
    for day in range(DAYS - 1):
        for _ in range(chance.between(0, 3)):
            at = timedelta(days=day, minutes=chance.between(0, 24 * 60 - 1))
            yield at, chance.one_of(SERVICES), f"web-{chance.between(1, 9)}", chance.one_of(SYMPTOMS)


class People:
    """Whoever is called. Chance says who sleeps on, who answers when, and what becomes of the incident then."""

    def __init__(self, world: VirtualWorld, seed: int) -> None:
        self.world, self.seed = world, seed

    def hear(self, call: Page) -> None:
        if call.reason != "alarm":
            return
        chance = Chance(f"{self.seed} {call.incident} {call.person}")
        if chance.random() < 0.1:
            minutes = chance.between(2, 12)
            self.world.at(timedelta(minutes=minutes), partial(self.tell, call.incident, "monitor", Cleared(minutes)))
        if chance.random() < 0.7:
            self.world.at(timedelta(minutes=chance.between(1, 20)), partial(self.answer, call, chance))

    async def answer(self, call: Page, chance: Chance) -> None:
        with suppress(loom.LoomError):  # somebody else has it, or it is over
            await self.world.runtime.resume(call.incident, answer=Taken(call.person))
            self.work_on(call, chance)

    def work_on(self, call: Page, chance: Chance) -> None:
        """Report now and then. Most incidents are solved; some turn out to be none, and some people fall silent."""
        ends_as, after = chance.random(), timedelta(0)
        for number in range(chance.between(1, 4)):
            after += timedelta(minutes=chance.between(10, 100))
            self.world.at(
                after, partial(self.tell, call.incident, "status", Status(call.person, f"report {number + 1}"))
            )
        if ends_as < 0.7:
            solved = Status(call.person, "it is well again", solved=True)
            self.world.at(after + timedelta(minutes=5), partial(self.tell, call.incident, "status", solved))
        elif ends_as < 0.9:
            self.world.at(after + timedelta(minutes=5), partial(self.cancel, call.incident))

    async def tell(self, incident: str, topic: str, message: Any) -> None:
        with suppress(loom.LoomError):  # it is over
            await self.world.runtime.send(incident, topic, message, key=str(message))

    async def cancel(self, incident: str) -> None:
        with suppress(loom.LoomError):
            await self.world.runtime.cancel(incident, reason="false alarm")


async def live(world: VirtualWorld, outside: Outside, seed: int = SEED) -> None:
    """Let a month go by."""
    outside.pager.heard = People(world, seed).hear
    for after, *what in troubles(seed):
        world.at(after, partial(outside.monitor.raise_alarm, *what))
    await world.run_for(timedelta(days=DAYS))


async def lived(folder: Path, seed: int = SEED) -> dict[str, Any]:
    """Return what came of each alarm of a month: how it ended, who was called, and what the load balancer did."""
    with Outside(folder / "outside.db") as outside:
        async with virtual_world(on_call(outside), start=START, seed=seed) as world:
            await live(world, outside, seed)
        return dict(summary(outside))


def summary(outside: Outside) -> Iterator[tuple[str, dict[str, Any]]]:
    incidents = {
        call.incident.rpartition("#")[2]: call.incident for call in outside.pager.calls() if call.reason == "alarm"
    }
    for alarm, ended in outside.monitor.ends().items():
        called = [call.person for call in outside.pager.calls(incidents[alarm])]
        moves = [" ".join(move) for move in outside.balancer.moves(incidents[alarm])]
        yield alarm, {"ended": ended, "called": called, "moves": moves}


def expected() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return recorded


def as_text(alarms: dict[str, Any]) -> str:
    """Return JSON with a line an alarm, so that a difference reads well."""
    lines = ",\n".join(f"  {json.dumps(alarm)}: {json.dumps(told)}" for alarm, told in alarms.items())
    return f"{{\n{lines}\n}}\n"


def main(arguments: list[str]) -> int:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        present = asyncio.run(lived(Path(folder)))
    print(f"{DAYS} days in {time.perf_counter() - began:.1f} s")
    if arguments == ["--accept"]:
        EXPECTED.write_text(as_text(present), encoding="utf-8")
        return 0
    recorded = expected()
    changed = [alarm for alarm in sorted({*present, *recorded}) if present.get(alarm) != recorded.get(alarm)]
    for alarm in changed:
        print(f"{alarm}: was {recorded.get(alarm)}, is {present.get(alarm)}")
    print(f"{len(present) - len(changed)} of {len(present)} alarms end as recorded")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
