"""Asking the app's authorizer before a verb changes an execution: the one place, for all verbs."""

from __future__ import annotations

from loom.core import facts as f
from loom.core.ids import execution_id
from loom.driving.annotating import Annotating
from loom.driving.driver import Driver
from loom.driving.errors import Denied
from loom.spi.authorizer import Action


class Authorization:
    """Lets a verb pass, or records that it was refused. Without an authorizer everything passes, and nothing is read."""

    def __init__(self, driver: Driver, notes: Annotating) -> None:
        self._around, self._notes = driver.around, notes

    async def ask(self, action: Action, id: str, principal: str | None) -> None:
        """Return when *principal* may do *action* to the execution *id*; one that does not exist is the verb's to tell.

        Raises:
            Denied: it may not. That stands on the log as `EXECUTION_DENIED`; nothing else has happened.
        """
        authorizer, run_id = self._around.authorizer, execution_id(id)
        row = await self._around.storage.row(run_id) if authorizer is not None else None
        if authorizer is None or row is None:
            return
        reason = await authorizer.authorize(principal, action, run_id, row.index.flow)
        if reason is not None:
            denied = f.ExecutionDenied(action=action, reason=reason, principal=principal)
            await self._notes.put(run_id, lambda _: denied, principal)
            raise Denied(execution_id=run_id, action=action, principal=principal, reason=reason)
