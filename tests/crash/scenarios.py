"""Scenarios that a mortal process carries on with: a flow, how its gates are answered, how its doubts are decided."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import loom
from loom.core.errors import ExecutionTerminated
from loom.core.views import OpenGate
from loom.driving.errors import ExecutionNotFound
from loom.spi.event_store import Storage
from tests.crash import flows
from tests.crash.mortal import Deed, Fate, MortalEffects, SameSeed, deeds_in, plain
from tests.crash.places import Place

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "refund_desk"
RUN: Final = "run-1"


class Scenario(NamedTuple):
    """A run to carry on with: how its app is wired, what it starts with, what its gates are told, what it is sent."""

    flow: str
    wire: Callable[[Path, dict[str, Any]], loom.LoomApp]
    answers: Mapping[str, Any]
    input: Any = None
    letters: Sequence[tuple[str, str]] = ()
    cancelled_at: str = ""
    """The gate at which somebody cancels it."""


def _small(folder: Path, config: dict[str, Any]) -> loom.LoomApp:
    kin: list[loom.Flow[Any, Any]] = [flows.family, flows.child, flows.grandchild]
    return loom.define_config(
        flows=[
            flows.pages,
            flows.rooms,
            flows.order,
            flows.trip,
            flows.held,
            flows.letters,
            flows.laps,
            flows.market,
            flows.given_up,
            *kin,
        ],
        **config,
    )


def _refund_desk(folder: Path, config: dict[str, Any]) -> loom.LoomApp:
    """Wire the example as its own app does, with our middleware in the place of its pause."""
    if str(EXAMPLE) not in sys.path:
        sys.path.append(str(EXAMPLE))
    theirs, ledgers, shop = map(importlib.import_module, ("flows", "ledger", "orders"))
    ledger, orders = ledgers.Ledger(folder / "ledger.db", mail_failures=0), shop.Orders(EXAMPLE / "data" / "orders.db")
    resources = {"orders": lambda: nullcontext(orders), "ledger": ledger.opened}
    return loom.define_config(flows=[theirs.refund], resources=resources, **config)


SCENARIOS: Final = {
    "pages": Scenario("pages", _small, {}),
    "rooms": Scenario("rooms", _small, flows.ANSWERS),
    "order": Scenario("order", _small, {}),
    "trip": Scenario("trip", _small, {}),
    "refund_desk": Scenario("refund", _refund_desk, {"approval": {"approved": True}}, {"claim": "C-101"}),
    "held": Scenario("held", _small, {}),
    "letters": Scenario("letters", _small, {}, letters=flows.LETTERS),
    "family": Scenario("family", _small, {}),
    "market": Scenario("market", _small, {}),
    "laps": Scenario("laps", _small, {}),
    "given_up": Scenario("given_up", _small, {}, cancelled_at="parallel/0/stop"),
}
KILLED: Final = ("pages", "rooms", "order", "trip", "refund_desk", "letters", "market")
"""The scenarios whose processes are killed."""


class CarryingOn:
    """One process's part in a run: it starts or resumes it, and brings it to its end if it lives that long."""

    def __init__(self, name: str, folder: Path, fate: Fate, storage: Storage) -> None:
        self._scenario, self._deeds, self._fate = SCENARIOS[name], folder / "deeds", fate
        self.doubts = self._sent = 0
        config = {
            "storage": storage,
            "middleware": [MortalEffects(fate)],
            "entropy": SameSeed(),
        }
        self._app = self._scenario.wire(folder, config)
        flows.OUTSIDE.set(flows.Outside(self._choose, folder))

    async def to_the_end(self) -> dict[str, Any]:
        """Start or resume; answer what is asked; decide what is in doubt by what happened outside. Return a report.

        An error that Loom raises is an outcome as well: its status is the error's code.
        """
        try:
            async with self._app:
                report = _told(await self._carry_on())
        except loom.LoomError as error:
            report = {"status": error.code, "value": str(error)}
        return report | {"writes": self._fate.writes, "effects": self._fate.effects, "doubts": self.doubts}

    async def _carry_on(self) -> loom.Outcome[Any]:
        outcome = await self._begin()
        waits = {"suspended", "in_doubt"} | ({"accepted"} if self._scenario.letters else set())
        while outcome.status in waits:
            gate = outcome.gates[0] if outcome.gates else None
            if gate is None:
                outcome = await self._send_next()
            elif gate.in_doubt:
                outcome = await self._decide(gate)
            elif gate.gate == self._scenario.cancelled_at:
                outcome = await self._app.runtime.cancel(RUN, reason="not wanted any more")
            else:
                answer = self._scenario.answers[gate.gate]
                outcome = await self._app.runtime.resume(RUN, gate=gate.gate, answer=answer)
        return outcome

    async def _begin(self) -> loom.Outcome[Any]:
        runtime = self._app.runtime
        try:
            return await runtime.resume(RUN)
        except ExecutionNotFound:
            given = {} if self._scenario.input is None else {"input": self._scenario.input}
            return await runtime.start(self._scenario.flow, id=RUN, **given)
        except ExecutionTerminated:
            return await runtime.wait(RUN)

    async def _send_next(self) -> loom.Outcome[Any]:
        """Send the next letter, whether a process before this one did or not: a key makes it one."""
        if self._sent == len(self._scenario.letters):
            return await self._app.runtime.resume(RUN)
        number, self._sent = self._sent, self._sent + 1
        topic, letter = self._scenario.letters[number]
        return await self._app.runtime.send(RUN, topic, letter, key=f"letter-{number}", drive=number % 2 == 1)

    async def _decide(self, gate: OpenGate) -> loom.Outcome[Any]:
        self.doubts += 1
        done = [deed for deed in deeds_in(self._deeds) if (deed.phase, deed.step) == ("done", gate.gate)]
        if done:
            return await self._app.runtime.resolve(RUN, gate.gate, "done", value=done[0].result)
        return await self._app.runtime.resolve(RUN, gate.gate, "retry")

    async def _choose(self, options: list[str]) -> str:
        async def act() -> str:
            return options[-1]

        chosen: str = await self._fate.happen(Deed("begun", "way", "", options, 1), act)
        return chosen


async def warm_up() -> None:
    """Have everything imported and every codec made, so that a forked child has nothing to do but to run."""
    config: dict[str, Any] = {"storage": loom.MemoryStorage()}
    async with _small(EXAMPLE, config) as app:
        await app.runtime.start("rooms")
    _refund_desk(EXAMPLE, {"storage": loom.MemoryStorage()})
    for store in (str(EXAMPLE), "postgresql://host/name"):
        Place(EXAMPLE, store).storage()


def _told(outcome: loom.Outcome[Any]) -> dict[str, Any]:
    return {"status": outcome.status, "value": plain(outcome.value)}
