"""A process that dies by SIGKILL where it is told to: at a write of its store, or inside an effect.

What effects do to the world outside is a line in a file that is only ever appended to, so that whoever looks afterwards
can count.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import loom
from loom.core.middleware import Next
from loom.spi.clock import SystemEntropy
from loom.spi.event_store import Append, AppendResult, LaneClosed, RequestTaken, Storage
from tests.plugins.postgres.server import PowerCut

Moment: TypeAlias = Literal[
    "before write", "after write", "child has ended", "effect begins", "effect is done", "effect ends", "never"
]

DELAY_MAX_S = 0.002


class Death(NamedTuple):
    """When a process dies: at the *number*-th write, end of a child, or effect of its own, counted from 1.

    It may be the server of its store that dies *instead* of it, and comes back.
    """

    moment: Moment = "never"
    number: int = 0
    instead: bool = False


class Deed(NamedTuple):
    """One line of what happened outside: an effect *begun*, or *done* with its result or the error it ended with."""

    phase: Literal["begun", "done"]
    step: str
    key: str
    args: Any
    attempt: int
    result: Any = None
    error: str | None = None


class Fate:
    """The life of this process: its death, its luck, and the file of deeds. It counts its writes and effects."""

    def __init__(self, death: Death, *, deeds: Path, seed: str, power_cut: PowerCut | None = None) -> None:
        self._death, self._deeds, self._rng, self._power_cut = death, deeds, random.Random(seed), power_cut
        self.writes = self.effects = 0

    def write(self) -> int:
        """Begin a write, and return its number."""
        self.writes += 1
        self.meet("before write", self.writes)
        return self.writes

    def meet(self, moment: Moment, number: int) -> None:
        """Die if this is the moment, or let the server die: it is back at once, or some time later."""
        if self._death[:2] != (moment, number):
            return
        if not self._death.instead:
            _die()
        assert self._power_cut is not None, "this store has no server"
        self._power_cut.happen(wait=self._rng.random() < 0.5)

    def note(self, deed: Deed) -> None:
        """Do to the world what cannot be undone: append a line."""
        line = json.dumps(deed, default=_told).encode() + b"\n"
        file = os.open(self._deeds, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    async def pass_time(self) -> None:
        await asyncio.sleep(self._rng.random() * DELAY_MAX_S)

    async def happen(self, begun: Deed, act: Any) -> Any:
        """Be an effect that does *act*: the moments of dying are before it, when it is done, and before it returns."""
        self.effects += 1
        number = self.effects
        self.note(begun)
        self.meet("effect begins", number)
        await self.pass_time()
        try:
            result = await act()
        except Exception as error:  # noqa: BLE001  # whatever the effect ended with is what happened
            self.note(begun._replace(phase="done", error=type(error).__name__))
            failed: Exception | None = error
            result = None
        else:
            self.note(begun._replace(phase="done", result=result))
            failed = None
        self.meet("effect is done", number)
        await self.pass_time()
        self.meet("effect ends", number)
        if failed is not None:
            raise failed
        return result


class MortalEffects:
    """The middleware through which every effect of a mortal process goes."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    async def __call__(self, effect: loom.EffectContext, arguments: dict[str, Any], call_next: Next) -> Any:
        step = effect.step
        begun = Deed("begun", step.step_id, step.idempotency_key, arguments, step.attempt)
        return await self._fate.happen(begun, lambda: call_next(arguments))


def mortal(storage: Storage, fate: Fate) -> Storage:
    """Return *storage*, whose process dies right before or right after its n-th write."""
    append, insert, ends = storage.append, storage.insert, itertools.count(1)

    async def appends(batch: Sequence[Append]) -> Sequence[AppendResult]:
        number = fate.write()
        results = await append(batch)
        fate.meet("after write", number)
        if any(item.sends for item in batch):  # and its parent, which was told in that transaction, has not looked yet
            fate.meet("child has ended", next(ends))
        return results

    async def inserts(*given: Any, **named: Any) -> int | RequestTaken | LaneClosed | None:
        number = fate.write()
        inserted = await insert(*given, **named)
        fate.meet("after write", number)
        return inserted

    storage.append, storage.insert = appends, inserts  # type: ignore[method-assign]  # whichever store it is
    return storage


class SameSeed(SystemEntropy):
    """Entropy that gives every run the same seed, so that draws can be compared; all else differs as it should."""

    def token(self, bytes_count: int) -> bytes:
        return bytes(16) if bytes_count == 16 else super().token(bytes_count)


def deeds_in(path: Path) -> list[Deed]:
    """Return what happened, in order."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Deed(*json.loads(line)) for line in lines]


def plain(value: Any) -> Any:
    """Return *value* as JSON has it: a dataclass as its fields, by name."""
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if is_record else value


def _told(value: Any) -> Any:
    fields = plain(value)
    return fields if fields is not value else str(value)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")
