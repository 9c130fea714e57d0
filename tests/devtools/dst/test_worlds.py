"""Worlds that are broken themselves: said so in words, with the simulation that shows it."""

from __future__ import annotations

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.devtools.dst import Play, World, search
from loom.devtools.dst.world import End, made_by


@loom.step
async def count() -> int:
    return 1


@loom.flow
async def counted(ctx: loom.Context) -> int:
    return await ctx.run(count)


def test_an_invariant_that_raises_is_broken() -> None:
    def each_is_named(end: End) -> bool:
        return bool(end.result["name"])

    def world() -> World:
        return World(invariants={"each is named": each_is_named})

    report = search(Play(flow=counted, flows={"counted": counted}, world=world), range(2))

    assert report.finding is not None
    told = "each is named: it raised TypeError: 'int' object is not subscriptable"
    assert told in [breach.what for breach in report.finding.breaches]


def test_a_factory_that_raises_is_told_as_the_authors() -> None:
    def world() -> World:
        raise ConnectionError("no bank")

    with pytest.raises(InvalidDeclaration, match="the factory of the world raised ConnectionError: no bank"):
        made_by(world)


@loom.flow
async def charged(ctx: loom.Context) -> int:
    await ctx.suspend("approval", expects=bool)
    return await ctx.run(count)


@pytest.mark.parametrize(
    ("world", "told", "near"),
    [
        (World(steps={"cuont": 2}), r"World\(steps=\{'cuont': ...\}\): no step of the run has that name", "'count'"),
        (
            World(answers={"aproval": True}),
            r"World\(answers=\{'aproval': ...\}\): no gate of the run has",
            "'approval'",
        ),
    ],
)
def test_a_name_that_nothing_has_and_that_is_spelt_like_another_is_refused(world: World, told: str, near: str) -> None:
    with pytest.raises(InvalidDeclaration, match=told) as refused:
        search(Play(flow=charged, flows={"charged": charged}, world=lambda: world), range(1))

    assert refused.value.hint == f"Did you mean {near}?"


@pytest.mark.parametrize("steps", [{"count": 1, "counts": 2}, {"undo_all": 1}])
def test_a_stand_in_for_what_does_not_come_up_is_left(steps: dict[str, int]) -> None:
    report = search(Play(flow=charged, flows={"charged": charged}, world=lambda: World(steps=steps)), range(1))

    assert report.finding is None
