"""Write a golden log, once: `python -m tests.golden.make NAME`. What is there is never written again.

Time stands still but for what a story says, and all chance comes from a seed, so that a story gives the same log each time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation
from loom.core.outcome import Outcome
from loom.driving.edits import Edit
from loom.driving.errors import Denied
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.errors import ReplayDivergence
from loom.lenses.folding import state_digest, states
from loom.spi.clock import SeededEntropy, VirtualClock
from loom.spi.event_store import Append, EventRecord, IndexRow, LeaseChange
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from tests.golden.logs import HERE, VERSION, Golden, write

T = TypeVar("T")

SEED: Final = 20_240_229
INDEX: Final = IndexRow(
    flow="golden", status="running", started_at=0, updated_at=0, wake_at=None, gates="[]", attributes="{}", chain=""
)
FLOWS_FILE: Final = "tests/golden/flows.py"


class Life:
    """One execution from its start on; each verb is that of a process of its own, a second after the one before."""

    def __init__(self, name: str, flows: ModuleType, *, forbidden: bool = False, **options: Any) -> None:
        self.run, self.flows, self.flow = ExecutionId(f"golden-{name}"), flows, ""
        self.storage, self.clock = MemoryStorage(), VirtualClock()
        self.entropy, self._options = SeededEntropy(SEED), options
        self.world, self._forbidden = flows.World(), forbidden

    async def log(self) -> list[EventRecord]:
        return list(await self.storage.read(self.run))

    async def start(self, flow: str, input: Any = None, **options: Any) -> Outcome[Any]:
        """Start *flow*, a name of the flows."""
        given = {} if input is None else {"input": input}
        return await self._verb(
            flow, lambda runtime: runtime.start(self._flow.id, id=self.run, linger_s=0, **given, **options)
        )

    async def resume(self, flow: str | None = None, **options: Any) -> Outcome[Any]:
        """Resume, under the code of another *flow* if it is named."""
        return await self._verb(flow, lambda runtime: runtime.resume(self.run, linger_s=0, **options))

    async def resume_as(self, flow: str, migrate: str, **options: Any) -> Outcome[Any]:
        """Move the run to the code of *flow*, with the input that the function *migrate* makes of the old one."""
        return await self._verb(
            flow,
            lambda runtime: runtime.resume_as(self.run, migrate=getattr(self._more, migrate), linger_s=0, **options),
        )

    async def resolve(self, step: str, verdict: Any, **options: Any) -> Outcome[Any]:
        return await self._verb(None, lambda runtime: runtime.resolve(self.run, step, verdict, linger_s=0, **options))

    async def retry(self, **options: Any) -> Outcome[Any]:
        return await self._verb(None, lambda runtime: runtime.retry(self.run, linger_s=0, **options))

    async def send(self, topic: str, message: Any, **options: Any) -> Outcome[Any]:
        return await self._verb(None, lambda runtime: runtime.send(self.run, topic, message, linger_s=0, **options))

    async def denied(self, topic: str, reason: str, *, principal: str) -> None:
        """Have an authorizer refuse a message."""

        class Strict:
            async def authorize(self, *_: Any) -> str | None:
                return reason

        options, self._options = self._options, {**self._options, "authorizer": Strict()}
        with contextlib.suppress(Denied):
            await self.send(topic, None, principal=principal)
        self._options = options

    async def hold_back(self, topic: str, **options: Any) -> None:
        await self._verb(None, lambda runtime: runtime.hold(self.run, topic, **options))

    async def release(self, topic: str, **options: Any) -> Outcome[Any]:
        return await self._verb(None, lambda runtime: runtime.release(self.run, topic, linger_s=0, **options))

    async def cancel(self, **options: Any) -> Outcome[Any]:
        return await self._verb(None, lambda runtime: runtime.cancel(self.run, linger_s=0, **options))

    async def pause(self, **options: Any) -> None:
        await self._verb(None, lambda runtime: runtime.pause(self.run, **options))

    async def unpause(self, **options: Any) -> Outcome[Any]:
        return await self._verb(None, lambda runtime: runtime.unpause(self.run, linger_s=0, **options))

    async def fork(self, id: ExecutionId, **options: Any) -> None:
        """Fork the run as *id*, which is meant from here on."""
        await self._verb(None, lambda runtime: runtime.fork(self.run, id=id, **options))
        self.run = id

    async def attach(self, decision: str, value: Any, **options: Any) -> None:
        await self._verb(None, lambda runtime: runtime.attach(self.run, decision, value, **options))

    async def wake(self) -> Outcome[Any]:
        """Let time pass until the run can go on by itself, as often as it can."""
        while True:
            state = await self._runtime().load_state(self.run)
            if state.is_terminal or state.facts.wake_at is None:
                return await self._runtime().wait(self.run) if state.is_terminal else await self.resume()
            self.clock.advance(max(0, state.facts.wake_at - self.clock.now_ms()))
            outcome = await self.resume()
            if outcome.wake_at is None:
                return outcome

    async def lose(self, step: str, *, driver: str = "", released: bool = False) -> None:
        """Forget what came after the start of *step*, as when the process is killed while it runs.

        A *driver* that is named held the run then, and is gone; unless it *released* it before.
        """
        log = await self.log()
        asked = f'"id":"{step}"'.encode()
        [start] = [record.sequence for record in log if asked in record.payload]
        await self.hold(log[: start + 1], driver=driver)
        if released:
            await self.storage.release(driver, [self.run])

    async def hold(self, log: list[EventRecord], *, driver: str = "") -> None:
        """Have the store hold just *log*, and *driver* the run."""
        self.storage = MemoryStorage()
        index = replace(INDEX, chain=self.run)
        item = Append(execution_id=self.run, incarnation=None, expected=0, append_id="golden", events=log, index=index)
        if driver:
            item = replace(item, lease=LeaseChange(driver, 60_000))
        await self.storage.append([item])

    async def insert(self, key: str, body: bytes) -> None:
        """Put an answer into the lane that nobody has looked at."""
        at = self.clock.now_ms()
        await self.storage.insert(self.run, Incarnation(1), kind="answer", key=key, at=at, body=body)

    @property
    def _flow(self) -> Flow[Any, Any]:
        flow: Flow[Any, Any] = getattr(self.flows, self.flow, None) or getattr(self._more, self.flow)
        return flow

    @property
    def _more(self) -> ModuleType:
        return import_module("tests.golden.flows_in_flight")  # late: it stands on the flows as they were loaded

    def _runtime(self) -> WorkflowRuntime:
        flow, convert = self._flow, self.flows.convert
        host = VirtualHost("here")
        host.gone.add("there/1")
        wired: Mapping[str, Any] = {"clock": self.clock, "entropy": self.entropy, "host": host, **self._options}
        return WorkflowRuntime(self.storage, flows={flow.id: flow}, tools={convert.id: convert}, **wired)

    async def _verb(self, flow: str | None, verb: Callable[[WorkflowRuntime], Awaitable[T]]) -> T:
        self.flow = flow or self.flow
        self.clock.advance(1_000)
        self.world = self.flows.World(broken=self.world.broken, forbidden=self._forbidden)
        self.flows.OUTSIDE.set(self.world)
        return await verb(self._runtime())


async def hello(life: Life) -> None:
    await life.start("hello", "world", principal="ada", attributes={"team": "gold"})


async def loops(life: Life) -> None:
    flows = life.flows
    orders = [
        flows.Order("a-1", Decimal("1.50")),
        flows.Order("b/2", Decimal(3), flows.Size.LARGE),
        flows.Order("retry:1", Decimal(0)),
    ]
    await life.start("loops", orders)


async def crossing(life: Life) -> None:
    await life.start("crossing")


async def failures(life: Life) -> None:
    await life.start("failures")
    await life.wake()


async def branches(life: Life) -> None:
    await life.start("branches")
    await life.wake()
    await life.resume(gate="rooms/map/1/guests", answer=2)
    await life.wake()
    await life.resume(gate="map/2/guests", answer=3, principal="bob")
    await life.resume(answer=1)


async def gates(life: Life) -> None:
    await life.start("gates", Decimal("99.90"))
    await life.insert("gate:99", b'{"start":99,"answer":1,"principal":"eve"}')
    await life.resume(answer={"approved": True, "reason": "fine \u00e9"}, principal="ada")
    await life.resume(gate="ticket-9", answer={"anything": [1, None]})
    await life.resume(answer="A. Lovelace")
    await life.wake()


async def waiting(life: Life) -> None:
    await life.start("waiting")


async def races(life: Life) -> None:
    await life.start("races")
    await life.resume(answer=True, principal="ada")
    await life.wake()
    await life.resume(answer="over")


async def blocks(life: Life) -> None:
    await life.start("blocks")
    await life.resume(gate="scope/southern/desk/body/guests", answer=2)
    await life.resume(answer=3)
    await life.wake()
    await life.resume(answer="over")


async def doubts(life: Life) -> None:
    life.world.broken = {"slow"}
    await life.start("doubts")
    life.world.broken = set()
    await life.resolve("wire#ada", "retry", principal="ada")
    await life.lose("wire#bob")
    await life.resume()
    life.world.broken = {"slow"}
    await life.resolve("wire#bob", "done", value="wired by hand", principal="ada")
    await life.resolve("wire#eve", "failed", value="no trace of it")


async def records(life: Life) -> None:
    await life.start("records")


async def retried(life: Life) -> None:
    life.world.broken = {"breaks"}
    await life.start("retried")
    life.world.broken = set()
    await life.retry(principal="ada")
    await life.resume(answer=4)


async def forked(life: Life) -> None:
    fork, life.run = life.run, ExecutionId("golden-source")
    life.world.broken = {"breaks"}
    await life.start("retried")
    life.world.broken = set()
    await life.fork(fork, edit=Edit("parallel/0/work", "output", "another"), principal="ada", reason="what if")
    await life.resume()
    await life.resume(answer=4)


async def fails(life: Life) -> None:
    await life.start("fails")


async def mistaken(life: Life) -> None:
    await life.start("mistaken")


async def moved(life: Life) -> None:
    await life.start("moved_before")
    await life.resume("moved", answer="on")


async def strayed(life: Life) -> None:
    await life.start("strayed")
    try:
        await life.resume("strayed_off", answer="off")
    except ReplayDivergence:
        await life.resume("strayed", answer="on")


async def patched(life: Life) -> None:
    await life.start("patched_before")
    await life.resume("patched", answer="on")


async def resumed_as(life: Life) -> None:
    await life.start("resumed_as_before", import_module("tests.golden.flows_in_flight").Euros(7))
    await life.resume_as("resumed_as", "in_cents", principal="ada", reason="cents now")
    await life.resume(answer="on")


async def letters(life: Life) -> None:
    await life.start("letters")
    await life.denied("orders", "eve may do nothing", principal="eve")
    await life.send("orders", {"id": 7}, key="o-1", principal="ada")
    await life.hold_back("news", reason="too many", principal="ada")
    await life.send("news", "first \u00e9", principal="bob")
    await life.attach("way", {"rating": 0.5}, note="it came late", principal="shop")
    await life.send("orders", {"id": "a-1", "amount": "2.50", "size": "l"}, key="o-2", principal="bob")
    await life.wake()
    await life.send("news", {"second": [1, None]})
    await life.release("news", principal="ada")


async def rolls(life: Life) -> None:
    await life.start("rolls")


async def taken_over(life: Life) -> None:
    await life.start("taken_over")
    await life.lose("fetch#1", driver="there/1")
    await life.resume(principal="ada")
    await life.lose("fetch#1", driver="there/1", released=True)
    await life.resume()
    await life.lose("charge", driver="there/1")
    await life.resume()
    await life.resolve("charge", "done", value="by hand")
    await life.wake()


async def stopped(life: Life) -> None:
    await life.start("stopped")
    await life.pause(reason="the bank is closed", principal="ada")
    await life.unpause(principal="bob")
    await life.cancel(reason="ordered twice", principal="ada")
    await life.resume(answer="A. Lovelace")


async def too_long(life: Life) -> None:
    await life.start("too_long")
    await life.cancel(grace_s=60.0)
    await life.wake()


async def outbid(life: Life) -> None:
    await life.start("outbid")
    await life.wake()
    await life.resume(gate="sign", answer="A. Lovelace")
    await life.resume(answer="over")


STORIES: Final[dict[str, Callable[[Life], Awaitable[None]]]] = {
    story.__name__: story
    for story in (
        *(hello, loops, crossing, failures, branches, races, blocks, gates, waiting),
        *(doubts, records, retried, forked, fails, mistaken, moved, strayed, patched, resumed_as),
        *(letters, rolls, taken_over),
        *(stopped, too_long, outbid),
    )
}
"""What happened to each run. A story whose log is in the tree is not edited; a new log is a new story."""


async def told(name: str, flows: ModuleType, **options: Any) -> Golden:
    """Live a story and return its log."""
    life = Life(name, flows, **options)
    await STORIES[name](life)
    golden = Golden(name, life.flow, [], life.world.saw, await life.log())
    return golden._replace(digests=[state_digest(state) for state in states(golden.events)])


def flows_of_no_machine() -> ModuleType:
    """Return the flows, loaded so that recorded tracebacks name their file as it is called in the repository."""
    module = ModuleType("tests.golden.flows")
    module.__file__ = FLOWS_FILE
    sys.modules[module.__name__] = module
    code = compile((HERE / "flows.py").read_text(encoding="utf-8"), FLOWS_FILE, "exec")
    exec(code, module.__dict__)
    return module


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="golden", description="Write golden logs; none is ever written again.")
    parser.add_argument("names", nargs="+", choices=STORIES, metavar="NAME", help=", ".join(STORIES))
    parser.add_argument("--in", dest="folder", type=Path, default=HERE / VERSION, help="the folder to write to")
    arguments = parser.parse_args(argv)
    for name in arguments.names:
        if (arguments.folder / f"{name}.jsonl").exists():
            parser.exit(1, f"{name} is written already: it is never edited; tell a new story\n")
    flows = flows_of_no_machine()
    for name in arguments.names:
        write(asyncio.run(told(name, flows)), arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
