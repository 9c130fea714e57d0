"""What this process holds, and for how long it can be sure of it (kernel rule 7).

The write that starts or resumes a run takes it for the time of a lease, and the one that parks or ends it gives it up: neither
is a transaction of its own. Only what is driven for longer than a third of the lease is renewed, all of it at once. The age of
a lease is measured by a clock that goes on while the machine sleeps, from before the store was asked, so that it is
never younger than it seems.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.kernel.calls import DriveEnding
from loom.kernel.drive import Drive
from loom.kernel.journal import Journal
from loom.spi.conflicts import Fenced
from loom.spi.errors import StoreError
from loom.spi.event_store import Claim, LeaseChange, LeaseStore
from loom.spi.host import Host

SURE_FOR: Final = 2 / 3
"""The part of a lease after which a driver renews it before it does anything else."""
TRIES_MAX: Final = 3
RETRY_S: Final = 0.05

_log = logging.getLogger("loom.driving")


class Hold:
    """One run that this process holds, or is about to: *claim* is how it came to it, None when a verb took it up."""

    def __init__(self, tenure: Tenure, run_id: ExecutionId, *, since_s: float, claim: Claim | None = None) -> None:
        self.run_id, self.claim = run_id, claim
        self._tenure, self._since_s = tenure, since_s
        self._sure_until_s = -math.inf
        self._is_taken_by_drive = False
        self._journal: Journal | None = None
        self._drive: Drive | None = None
        self._length = 0

    def driven_by(self, drive: Drive) -> None:
        """The run is driven by *drive*. Nobody else knows of one that is only being started."""
        self._tenure.holds[self.run_id] = self
        self._drive, self._journal, self._length = drive, drive.journal, drive.journal.durable
        self._is_taken_by_drive = not drive.journal.is_held  # by its first write, so after *since_s*
        if drive.setting.is_start:
            self._sure_until_s = self._since_s + self._tenure.sure_for_s

    def may_dispatch(self) -> Awaitable[None] | None:
        """Return None while it is sure that nobody else has the run, else what makes sure of it; see `Setting`."""
        return None if self._tenure.host.boottime_s() < self._sure_until_s else self._make_sure()

    async def _make_sure(self) -> None:
        assert self._drive is not None
        assert self._journal is not None
        is_held = self._journal.is_held
        if not is_held:
            await self._journal.barrier()
        if not is_held or (self._is_taken_by_drive and self._sure_until_s == -math.inf):
            self._sure_until_s = self._since_s + self._tenure.sure_for_s
        tries = 0
        while self._tenure.host.boottime_s() >= self._sure_until_s and self.is_held and not self._drive.is_over:
            if self._tenure.holds.get(self.run_id) is not self:
                self._lose()  # this process keeps the run for another drive: nothing renews it for this one
                break
            try:
                await self._tenure.renew()
            except StoreError as error:
                tries += 1
                if tries == TRIES_MAX:
                    self._drive.stop(error)
                await asyncio.sleep(RETRY_S * tries)
        if self._drive.is_over:
            raise DriveEnding

    @property
    def is_held(self) -> bool:
        """Whether the store has it as held by this process, as far as is known."""
        return self.claim is not None if self._journal is None else self._journal.is_held

    @property
    def is_driving(self) -> bool:
        """Whether it is held for a drive that goes on."""
        return self._drive is not None and not self._drive.is_over

    def renewed(self, since_s: float) -> None:
        """The lease was renewed at *since_s* or later."""
        self._since_s = since_s
        self._sure_until_s = since_s + self._tenure.sure_for_s

    def lost(self) -> None:
        """The store says that another has the run. One that is just being parked or ended has only been given up."""
        drive = self._drive
        if drive is not None and not drive.is_over and not drive.asking.is_paused and self.is_held:
            self._lose()

    def _lose(self) -> None:
        assert self._drive is not None
        length = self._drive.state.length
        self._drive.stop(Fenced(execution_id=self.run_id, expected=length, actual=length))

    async def let_go(self) -> None:
        """The drive is over: what it has neither parked nor ended, and what it was claimed for, is free for others."""
        is_anew = self._tenure.holds.get(self.run_id) not in (None, self)
        self._tenure.drop(self)
        journal, drive, self._journal, self._drive = self._journal, self._drive, None, None
        if is_anew or journal is None or drive is None or isinstance(journal.error, Fenced):
            return
        if journal.is_held or (journal.error is not None and self.claim is not None):
            await self._tenure.release(self.run_id)  # a write of unknown outcome may have had the run begin to move
        elif self.claim is not None and journal.durable == self._length:
            await self._tenure.leave(self.run_id, seen=self.claim.calls if drive.ending == "park" else 0)


class Tenure:
    """All that this process holds under one name, in one event loop."""

    def __init__(self, leases: LeaseStore, host: Host, lease_s: float) -> None:
        self.host, self.lease_s, self.sure_for_s = host, lease_s, lease_s * SURE_FOR
        self.lease = LeaseChange(host.name(), max(1, round(lease_s * 1000)))
        self.holds: dict[ExecutionId, Hold] = {}
        self._leases = leases
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[None] | None = None

    @property
    def driver(self) -> str:
        """The name under which it holds what it holds."""
        return self.lease.driver

    def hold(self, run_id: ExecutionId, *, since_s: float | None = None, claim: Claim | None = None) -> Hold:
        """Keep *run_id* from now on, which was claimed at *since_s* or later, or is taken with its next write."""
        since_s = self.host.boottime_s() if since_s is None else since_s
        hold, before = Hold(self, run_id, since_s=since_s, claim=claim), self.holds.get(run_id)
        if claim is not None and before is not None:
            before.lost()  # the store had it to give: another has had it meanwhile, unless it is taken up this very moment
            if before.is_driving:
                return hold
        self.holds[run_id] = hold
        if self._timer is None:
            self._renew_in(self.lease_s / 3)
        return hold

    def drop(self, hold: Hold) -> None:
        """Keep it no more."""
        if self.holds.get(hold.run_id) is hold:
            del self.holds[hold.run_id]
        if not self.holds and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def release(self, run_id: ExecutionId) -> None:
        """Let a run go that stands in the middle; where the store cannot be told, its lease ends by itself."""
        with suppress(StoreError):
            await self._leases.release(self.driver, [run_id])

    async def leave(self, run_id: ExecutionId, *, seen: int) -> None:
        """Give a claimed run up that is parked as it was; for calls after the number *seen* it can be claimed again."""
        with suppress(StoreError):
            await self._leases.leave(self.driver, {run_id: seen})

    async def renew(self) -> None:
        """Renew all that is held, in one transaction; what is lost is stopped.

        Raises:
            StoreError: nothing is known to be renewed.
        """
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew(), name="loom-tenure")
        await asyncio.shield(self._renewing)

    async def _renew(self) -> None:
        held = {run_id: hold for run_id, hold in self.holds.items() if hold.is_held}
        if not held:
            return
        since_s = self.host.boottime_s()
        lost = set(await self._leases.renew(self.driver, list(held), lease_ms=self.lease.ms))
        for run_id, hold in held.items():
            hold.lost() if run_id in lost else hold.renewed(since_s)

    def _renew_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._renew_now)

    def _renew_now(self) -> None:
        self._timer = None
        self._turn = asyncio.get_running_loop().create_task(self._renew_in_turn(), name="loom-tenure-turn")

    async def _renew_in_turn(self) -> None:
        rest_s = self.lease_s / 3
        try:
            await self.renew()
        except LoomError as error:
            rest_s = self.lease_s / 12
            _log.warning("the leases of this process could not be renewed: %s", error)
        if self.holds and self._timer is None:
            self._renew_in(rest_s)
