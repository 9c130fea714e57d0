"""Which branch of a run counts: names for forks, moved by a decision that is kept (spec 4.5, D10). There is no merge."""

from __future__ import annotations

from typing import NamedTuple

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId, label
from loom.core.state import ExecutionState
from loom.driving.authorizing import Authorization
from loom.driving.branch_families import MAIN, family_of
from loom.driving.driver import Driver
from loom.driving.forking import Forking
from loom.driving.loading import load
from loom.spi.ref_store import RefMove, RefStore


class Promotion(NamedTuple):
    """What a promotion came to: *name* stands for *execution_id* now, and stood for *before*. *again* says that it was forked anew."""

    family: ExecutionId
    name: str
    execution_id: ExecutionId
    before: ExecutionId
    number: int
    again: bool


class RefMoved(LoomError):
    """Somebody else moved the name meanwhile; it stands as they left it."""

    code = "ref-moved"
    hint = "Look at it with `loom branch list`, and decide anew."

    def __init__(self, *, family: str, name: str) -> None:
        self.family, self.name = family, name
        super().__init__(f"{name} of {family} was moved by somebody else meanwhile")


class Promoting:
    """Moves names to the branches that count."""

    def __init__(self, driver: Driver, forking: Forking) -> None:
        self._driver, self._forking, self._storage = driver, forking, driver.around.storage

    async def promote(self, id: str, name: str, *, reason: str | None, principal: str | None) -> Promotion:
        """Move *name* to the run, or to a fork that does it for real; see `PromotingVerbs.promote`."""
        store, by = self._storage, label("principal", principal) if principal else ""
        await self._driver.open()
        name = label("branch", name)
        family = await family_of(store, id)
        assert isinstance(store, RefStore)
        state = (await load(store, id)).state
        last = (await store.refs(family)).get(name)
        if last is not None and await self._does(last, state):
            return Promotion(family.execution_id, name, last.execution_id, last.execution_id, last.number, again=False)
        run_id = branch = ExecutionId(state.facts.chain[0]) if state.facts.chain else state.execution_id
        if state.facts.simulated:
            run_id = (await self._forking.again(branch, reason=reason, principal=by or None)).execution_id
        number = last.number + 1 if last is not None else 1
        move = RefMove(number, run_id, self._driver.around.clock.now_ms(), by, reason or "")
        if not await store.move_ref(family, name, move):
            raise RefMoved(family=family.execution_id, name=name)
        before = last.execution_id if last is not None else family.execution_id
        return Promotion(family.execution_id, name, run_id, before, number, run_id != branch)

    async def _does(self, last: RefMove, simulated: ExecutionState) -> bool:
        """Whether what the name stands for does already, or has done, for real what was *simulated*: it is to be done once."""
        if not simulated.facts.simulated or await self._storage.row(last.execution_id) is None:
            return False
        state = (await load(self._storage, last.execution_id)).state
        forked = state.facts.forked
        branch = simulated.facts.chain[0] if simulated.facts.chain else simulated.execution_id
        promotes = forked is not None and forked.payload.promotes == branch
        return promotes and state.status not in {"failed", "cancelled"}


class PromotingVerbs:
    """The verb of a runtime that promotes."""

    _authorization: Authorization
    _promoting: Promoting

    async def promote(
        self, execution_id: str, *, name: str = MAIN, reason: str | None = None, principal: str | None = None
    ) -> Promotion:
        """Let a branch be the one that counts: *name* is moved to it, and who did so, when and why is kept.

        A branch that was simulated is forked once more, at the same event and with the same edit, and the name is moved to that:
        `resume` then does for real what was tried. All branches stay as they are.

        Raises:
            ExecutionNotFound, ForkRefused, InvalidId: nothing was written.
            RefMoved: somebody else moved the name meanwhile.
            Denied: only the refusal was written.
        """
        await self._authorization.ask("fork", execution_id, principal)
        return await self._promoting.promote(execution_id, name, reason=reason, principal=principal)
