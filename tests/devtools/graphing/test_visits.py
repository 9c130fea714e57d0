"""A run's log, laid over the picture of its flow: which nodes it visited, how often, and how that stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import loom
from loom.core.flow import Flow
from loom.devtools.graphing.edges import Graph, graph_of
from loom.devtools.graphing.reading import shape_of
from loom.devtools.graphing.structure import Shape
from loom.devtools.graphing.views import graph_json, resumability
from loom.devtools.graphing.visits import Visits, visits


@loom.step
async def fetch(item: str) -> str:
    if item == "broken":
        raise ValueError(item)
    return item


@loom.step
async def restore(item: str) -> str:
    return item


@loom.flow
async def looping(ctx: loom.Context, items: list[str]) -> str:
    await ctx.run(fetch, "before")
    for item in items:
        try:
            await ctx.run(fetch, item)
        except loom.StepFailed:
            await ctx.run(restore, item)
    await ctx.run(fetch, "after")
    return "done"


@loom.flow
async def asking(ctx: loom.Context, many: int) -> str:
    if many > 2:
        await ctx.suspend("too-many", expects=bool)
    else:
        await ctx.run(fetch, "few")
    return "done"


async def one(ctx: loom.Context, item: str) -> str:
    await ctx.run(fetch, item)
    return await ctx.run(restore, item)


async def other(ctx: loom.Context) -> None:
    await ctx.sleep(timedelta(0))


@loom.flow
async def branching(ctx: loom.Context) -> str:
    await ctx.map(one, ["a", "b", "c"])
    async with ctx.scope() as scope:
        first, second = scope.start(one, "d"), scope.start(other)
        await ctx.run(fetch, "e")
    await first
    await second
    return "done"


@loom.flow
async def undoing(ctx: loom.Context) -> str:
    async with loom.saga(ctx) as saga:
        await saga.run(fetch.undone_by(restore), "a")
        raise ValueError("no")


def shape(flow: str) -> Shape:
    path = Path(__file__).name
    return shape_of(flow, [path], {path: Path(__file__).read_bytes()}.get)


async def visited(flow: Flow[Any, Any], *input: Any) -> tuple[Graph, Visits]:
    graph = graph_of(shape(flow.id))
    async with loom.define_config(flows=[flow]) as app:
        outcome = await app.runtime.start(flow, *input)
        return graph, visits(graph, await app.runtime.load_state(outcome.execution_id))


def counts(graph: Graph, found: Visits) -> Mapping[str, int]:
    """Return how often what was asked was visited, by kind, text and line."""
    asked = [node for node in graph.nodes if node.name is not None]
    first = min(node.place.line for node in asked if node.place is not None)
    found_here: Counter[str] = Counter()
    for node in asked:
        if node.place is not None:
            visit = found.nodes.get(node.key)
            found_here[f"{node.kind} {node.text} +{node.place.line - first}"] += visit.count if visit is not None else 0
    return found_here


async def test_calls_of_one_name_are_told_apart_by_their_place() -> None:
    graph, found = await visited(looping, ["a", "broken", "c"])

    assert counts(graph, found) == {"step fetch +0": 1, "step fetch +3": 3, "step restore +5": 1, "step fetch +6": 1}
    [loop] = [node.key for node in graph.nodes if node.kind == "loop"]
    assert found.nodes[loop].count == 4
    assert found.elsewhere == ()


async def test_a_failure_and_the_handler_that_it_came_to() -> None:
    _, found = await visited(looping, ["broken"])

    turned = next(edge for edge in found.edges if edge.kind == "except")
    assert found.nodes[turned.source].standing == {"failed": 1}
    assert turned.label == "loom.StepFailed"


async def test_what_a_run_waits_at_and_the_arm_it_took() -> None:
    graph, found = await visited(asking, 3)

    [gate] = [node.key for node in graph.nodes if node.kind == "gate"]
    assert found.nodes[gate].worst == "waiting"
    assert [edge.label for edge in found.edges if edge.kind == "choice"] == ["yes"]
    assert "end" not in found.nodes


async def test_branches_and_tasks_go_into_the_arm_that_fits() -> None:
    graph, found = await visited(branching)

    assert counts(graph, found) == {
        "step fetch +0": 4,
        "step restore +1": 4,
        "timer timedelta(0) +5": 1,
        "fork map +10": 1,
        "fork scope +11": 1,
        "step fetch +13": 1,
    }
    assert found.elsewhere == ()


async def test_what_was_undone_is_counted_with_what_it_undoes() -> None:
    graph, found = await visited(undoing)

    [step] = [node.key for node in graph.nodes if node.kind == "step"]
    assert (found.nodes[step].count, found.nodes[step].undone) == (1, 1)


async def test_a_log_that_the_source_does_not_fit_is_told_apart() -> None:
    graph, _ = await visited(asking, 1)
    async with loom.define_config(flows=[looping]) as app:
        outcome = await app.runtime.start(looping, ["a"])
        found = visits(graph, await app.runtime.load_state(outcome.execution_id))

    assert len(found.elsewhere) == 2
    assert "end" not in found.nodes, "where it went after that cannot be told"


async def test_the_json_has_each_node_with_its_visit() -> None:
    graph = graph_of(shape("asking"))
    async with loom.define_config(flows=[asking]) as app:
        state = await app.runtime.load_state((await app.runtime.start(asking, 3, id="r1")).execution_id)

    drawn = graph_json(shape("asking"), graph, state, visits(graph, state))

    gate = next(node for node in drawn["nodes"] if node["kind"] == "gate")
    assert drawn["execution"] == {"id": "r1", "status": "suspended", "elsewhere": []}
    assert gate["visit"]["standing"] == {"waiting": 1}
    assert gate["visit"]["last"]["type"] == "GATE_OPENED"


def test_a_build_knows_where_a_flow_can_be_put_away_and_what_it_asks_up_to_there() -> None:
    built = resumability(shape("asking"))

    [park] = built["parks"]
    assert (park["kind"], park["name"], park["waits_for"]) == ("gate", "too-many", "an answer")
    assert [segment["after"] for segment in built["segments"]] == ["start", park["key"]]
    assert park["key"] in built["segments"][0]["asks"]
    assert built["segments"][1]["asks"] == []
