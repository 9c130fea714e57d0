"""Patches: code that changes while runs are in flight, and what each run answers to `ctx.patched` for good (kernel rule 11.3).

What the log says counts: a mark is yes, a run that went on under other code without one is no. Where it says nothing the first
answer does: yes live, no in a replay under other code. A replay under the code that wrote the log can only lack a mark that a
crash took back, or one that its code did not ask for; which it was, what the branch asked next tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom.core import facts as f
from loom.kernel.calls import Branch

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


class Patches:
    """What one drive has answered that its log does not say yet."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._answers: dict[str, bool] = {}

    def answer(self, name: str, branch: Branch) -> bool:
        """Return whether the run takes the way of the patch *name*, asked for in *branch*."""
        asking = self._drive.asking
        answer = self._answers.get(name, self._drive.state.facts.patches.get(name))
        if answer is None:
            answer = asking.recorded is None or asking.recorded.may_lack(branch)
            self._answers[name] = answer
            if asking.recorded is None and not asking.is_paused:
                self.record()
        return answer

    @property
    def declined(self) -> list[str] | None:
        """The patches whose way the run does not take, in the order asked; None: there is none that the log lacks."""
        return [name for name, answer in self._answers.items() if not answer] or None

    def record(self) -> None:
        """Write the marks that the log lacks, before what they lead to."""
        applied, self._answers = [name for name, answer in self._answers.items() if answer], {}
        for name in applied:
            self._drive.commit("PATCH_APPLIED", f.PatchApplied(name))
