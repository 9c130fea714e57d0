"""Spec 4.5, D10: a branch is promoted by moving a name, and for real by one more fork; losers stay, and nothing is merged."""

from __future__ import annotations

from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.branch_families import family_of
from loom.driving.edits import Edit
from loom.driving.errors import CompactedForkPoint, ForkRefused
from loom.driving.promoting import RefMoved
from loom.driving.runtime import WorkflowRuntime
from loom.services.compacting import Wish, compact
from loom.spi import MemoryStorage, RefStore
from tests.kernel.running import RUN, records

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@loom.step
async def repair(how: str) -> str:
    ran.append(how)
    return f"did {how}"


def pretend(how: str) -> str:
    return f"would {how}"


@loom.flow
async def incident(ctx: loom.Context) -> str:
    how = await ctx.suspend("remedy", expects=str)
    return await ctx.run(repair, how)


async def war_room(*remedies: str) -> WorkflowRuntime:
    """Return a runtime in which an incident waits for a remedy, with a simulated fork for each of *remedies*."""
    over = loom.define_config(flows=[incident], simulators={repair: pretend}, storage=MemoryStorage()).runtime
    await over.start(incident, id=RUN)
    for remedy in remedies:
        await over.fork(RUN, at=1, id=remedy)
        await over.resume(remedy, answer=remedy, simulate=True)
    return over


async def names(over: WorkflowRuntime, run: str = RUN) -> dict[str, str]:
    assert isinstance(over.storage, RefStore)
    return {
        name: move.execution_id for name, move in (await over.storage.refs(await family_of(over.storage, run))).items()
    }


@pytest.mark.proves("BRN-05", "BRN-06", "BRN-07")
async def test_a_simulated_branch_is_forked_for_real_and_the_name_moved_to_that() -> None:
    over = await war_room("restart", "rollback")
    before = {run: await records(over.storage, run) for run in (RUN, "restart", "rollback")}

    promotion = await over.promote("rollback", reason="cheaper", principal="ann")
    outcome = await over.resume(promotion.execution_id, answer="rollback")

    assert (promotion.before, promotion.again) == (RUN, True)
    assert (outcome.value, ran) == ("did rollback", ["rollback"])
    assert await names(over) == {"main": promotion.execution_id}
    assert {run: await records(over.storage, run) for run in before} == before, "the losers, and the winner, stay"
    [forked] = [e for e in await over.events(promotion.execution_id) if e.type == "EXECUTION_FORKED"]
    assert (forked.payload.promotes, forked.payload.reason, forked.metadata["principal"]) == (
        "rollback",
        "cheaper",
        "ann",
    )


async def test_what_is_done_for_real_already_is_not_forked_again_when_it_is_promoted_again() -> None:
    over = await war_room("restart", "rollback")
    first = await over.promote("rollback")

    again = await over.promote("rollback")
    await over.resume(first.execution_id, answer="rollback")
    once_done = await over.promote("rollback")

    assert (again.execution_id, again.before, again.number, again.again) == (
        first.execution_id,
        first.execution_id,
        1,
        False,
    )
    assert once_done == again
    assert ran == ["rollback"]
    assert await names(over) == {"main": first.execution_id}
    assert (await over.promote("restart")).again


async def test_what_was_to_be_done_for_real_and_was_cancelled_can_be_promoted_again() -> None:
    over = await war_room("rollback")
    first = await over.promote("rollback")
    await over.cancel(first.execution_id, force=True)

    again = await over.promote("rollback")

    assert again.execution_id != first.execution_id
    assert (again.again, again.before, again.number) == (True, first.execution_id, 2)


async def test_the_edit_of_a_simulated_branch_is_made_again() -> None:
    over = await war_room()
    await over.fork(RUN, at=1, id="first")
    await over.resume("first", answer="restart")
    await over.fork("first", edit=Edit("remedy", "output", "reboot"), id="trial")
    assert (await over.resume("trial", simulate=True)).value == "would reboot"
    ran.clear()

    promotion = await over.promote("trial")

    assert (await over.resume(promotion.execution_id)).value == "did reboot"
    assert ran == ["reboot"]


async def test_a_branch_that_is_real_is_only_named() -> None:
    over = await war_room()
    await over.fork(RUN, at=1, id="real")

    promotion = await over.promote("real", name="canary")

    assert (promotion.execution_id, promotion.again) == ("real", False)
    assert await names(over, "real") == {"canary": "real"}


async def test_all_that_a_name_stood_for_is_kept() -> None:
    over = await war_room()
    for fork in ("a", "b"):
        await over.fork(RUN, at=1, id=fork)
        await over.promote(fork, principal="ann")
    await over.promote(RUN, reason="as it was")

    assert isinstance(over.storage, RefStore)
    moves = await over.storage.ref_moves(await family_of(over.storage, "b"), "main")
    assert [(m.number, m.execution_id, m.principal, m.reason) for m in moves] == [
        (1, "a", "ann", ""),
        (2, "b", "ann", ""),
        (3, RUN, "", "as it was"),
    ]


async def test_who_is_second_to_move_a_name_is_told_so() -> None:
    class Late(MemoryStorage):
        async def move_ref(self, *args: Any) -> bool:
            return False

    over = loom.define_config(flows=[incident], storage=Late()).runtime
    await over.start(incident, id=RUN)

    with pytest.raises(RefMoved, match="moved by somebody else"):
        await over.promote(RUN)


async def test_what_is_a_fork_of_something_simulated_is_not_promoted_over_it() -> None:
    over = await war_room("restart")
    at = next(e.sequence for e in await over.events("restart") if e.type == "STEP_STARTED")
    await over.fork("restart", at=at, id="deeper")
    await over.resume("deeper")

    with pytest.raises(ForkRefused, match="restart is simulated up to there, too"):
        await over.promote("deeper")

    assert await names(over) == {}


async def test_a_family_is_that_of_what_is_a_fork_of_nothing() -> None:
    over = await war_room("a")
    await over.fork("a", at=1, id="b")

    assert (await family_of(over.storage, "b")).execution_id == RUN


# -- chains: the logs of a run that continues as new are one branch ----------------------------------------------------


@loom.flow
async def rounds(ctx: loom.Context, turn: int) -> str:
    done = await ctx.run(repair, f"round {turn}")
    await ctx.suspend("on")
    return done if turn == 3 else await ctx.continue_as_new(turn + 1)


async def rolling(*, storage: MemoryStorage | None = None) -> WorkflowRuntime:
    """Return a runtime with a run that stands in the third of its logs."""
    app = loom.define_config(flows=[rounds], simulators={repair: pretend}, storage=storage or MemoryStorage())
    await app.runtime.start(rounds, 1, id=RUN)
    for _ in range(2):
        await app.runtime.resume(RUN, answer=None)
    return app.runtime


@pytest.mark.proves("BRN-05")
async def test_a_simulated_run_that_continues_as_new_is_simulated_in_every_log_whoever_drives_it() -> None:
    over = await rolling()
    ran.clear()
    await over.fork(RUN, at=1, id="trial")
    await over.resume("trial", simulate=True)

    for _ in range(2):
        await over.resume("trial", answer=None)
    outcome = await over.resume("trial", answer=None)

    assert (outcome.value, ran) == ("would round 3", [])
    assert all([(await over.load_state(link)).facts.simulated for link in ("trial~2", "trial~3")])
    assert not (await over.load_state(f"{RUN}~2")).facts.simulated


@pytest.mark.proves("BRN-06")
@pytest.mark.parametrize("named", ["trial", "trial~2"])
async def test_a_simulated_chain_is_forked_for_real_where_it_began(named: str) -> None:
    over = await rolling()
    await over.fork(RUN, at=1, id="trial")
    await over.resume("trial", simulate=True)
    await over.resume("trial", answer=None)
    ran.clear()

    promotion = await over.promote(named)
    await over.resume(promotion.execution_id)

    assert (promotion.family, promotion.before, promotion.again) == (RUN, RUN, True)
    assert ran == ["round 1"]


@pytest.mark.parametrize("named", ["real", "real~2"])
async def test_a_name_stands_for_a_chain_by_the_id_of_its_first_log(named: str) -> None:
    over = await rolling()
    await over.fork(RUN, at=1, id="real")
    for _ in range(2):
        await over.resume("real", answer=None)

    promotion = await over.promote(named)

    assert promotion == (RUN, "main", "real", RUN, 1, False)
    assert await names(over, "real~2") == {"main": "real"}


async def test_a_fork_of_a_later_log_is_of_the_family_of_the_chain() -> None:
    over = await rolling()
    await over.fork(f"{RUN}~2", at=1, id="late")
    await over.fork("late", at=1, id="later")

    assert [(await family_of(over.storage, run)).execution_id for run in (f"{RUN}~3", "late", "later")] == [RUN] * 3


async def test_how_a_simulated_branch_was_forked_may_be_in_an_archive() -> None:
    over = await war_room("restart")
    storage: Any = over.storage
    row = await storage.row(ExecutionId("restart"))
    moved = await compact(storage, MemoryStorage(), row, Wish())

    with pytest.raises(CompactedForkPoint, match=f"up to {moved.through} are in an archive, .* at event 1"):
        await over.promote("restart")

    assert await names(over) == {}
