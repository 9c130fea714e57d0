"""Why a call was asked as it was: where the parts of its arguments come from, and all that the flow had been told before."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.ids import ExecutionId
from loom.driving.edits import Edit
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.codec import decode_events
from loom.lenses.execution import execution_view
from loom.lenses.folding import fold_at
from loom.lenses.origins_of_values import Known, bare
from loom.lenses.provenance import Provenance, Questions, provenance_json
from tests.kernel.lives import RUN as LIFE
from tests.kernel.lives import Way, live
from tests.kernel.running import RUN, runtime
from tests.kernel.test_live_and_replay import Program, programs, ways, wild

ORDER: dict[str, Any] = {
    "id": "order-4711",
    "customer": "ada lovelace",
    "lines": [{"sku": "tea-pot-blue", "price": 19.95}],
    "paid": True,
}


@loom.step
async def fetch(order: str) -> dict[str, Any]:
    return {**ORDER, "id": order}


@loom.step
async def pay(**what: Any) -> str:
    if what.get("price") == 0.125:
        raise ValueError(f"no price like that for {what['sku']}")
    return "receipt-0001"


@loom.step
async def note(text: str) -> None:
    pass


@loom.flow
async def desk(ctx: loom.Context, order: str) -> Any:
    fetched = await ctx.run(fetch, order)
    way = await ctx.decide("way", lambda: loom.Choice(value="by courier", policy="cheapest", propensity=0.25))
    answer = await ctx.suspend("approve", show=fetched["lines"], expects=str)
    news = await ctx.receive("news", expects=str)
    line = fetched["lines"][0]
    receipt = await ctx.run(
        pay,
        sku=line["sku"],
        line=line,
        way=way,
        why=f"{answer}: {news}",
        key=str(ctx.uuid()),
        when=ctx.now(),
        total=line["price"] * 3,
        urgent=True,
    )
    await ctx.run(note, f"see {receipt}")
    return receipt


async def questions(over: WorkflowRuntime, run: str = RUN) -> Questions:
    events = await over.events(run)
    state = fold_at(events)
    return Questions(execution_view(state, events), state, events)


async def why(over: WorkflowRuntime, call: str, run: str = RUN) -> Provenance:
    events = await over.events(run)
    view = execution_view(fold_at(events), events)
    return (await questions(over, run)).call(next(each for each in view.calls if each.id == call))


@pytest.fixture
async def over() -> WorkflowRuntime:
    over = runtime(desk)
    await over.start(desk, "order-9999", id=RUN, principal="eve")
    await over.resume(RUN, answer="it is late", principal="bob")
    await over.send(RUN, "news", "rain tomorrow", principal="cem")
    return over


def told(found: Provenance) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Return of each part how sure it is, and the names and paths of the sources it may be from."""
    names = {source.sequence: source.id or source.kind for source in found.seen}
    return {
        part.path: (part.certainty, [(names.get(place.source, ""), place.path) for place in part.places])
        for part in found.parts
    }


async def test_each_part_of_what_a_step_was_asked_with_is_traced_to_where_it_was_first_known(
    over: WorkflowRuntime,
) -> None:
    parts = told(await why(over, "pay"))

    assert parts["what.sku"] == ("exact", [("fetch", "$.lines[0].sku")])
    assert parts["what.line"] == ("exact", [("fetch", "$.lines[0]")])
    assert parts["what.way"] == ("exact", [("way", "$")])
    assert parts["what.why"] == ("inside", [("approve", "$"), ("news", "$")])
    assert parts["what.total"] == ("none", [])
    assert parts["what.urgent"] == ("plain", [])


async def test_what_the_context_derives_from_the_log_is_known_as_that(over: WorkflowRuntime) -> None:
    parts = told(await why(over, "pay"))

    assert parts["what.key"][0] == "exact"
    assert [path for _, path in parts["what.key"][1]] == ["uuid()"]
    assert parts["what.when"][1][-1] == ("news", "now()")


async def test_it_goes_back_from_there_to_the_input(over: WorkflowRuntime) -> None:
    found = await why(over, "note")

    assert found.trail[0].id == "pay"
    assert {step.id for step in found.trail} == {"pay", "fetch", "way", "approve", "news"}
    [fetched] = [step for step in found.trail if step.id == "fetch"]
    assert [(part.path, part.certainty, [place.source for place in part.places]) for part in fetched.parts] == [
        ("order", "exact", [0])
    ]


async def test_who_decided_and_by_what_is_told_and_who_answered_what_was_shown(over: WorkflowRuntime) -> None:
    found = await why(over, "pay")

    news, approve, way = found.steering
    assert (news.kind, news.by, news.about["topic"]) == ("message", "cem", "news")
    assert (approve.kind, approve.by, approve.value) == ("answer", "bob", "it is late")
    assert re.fullmatch(r"[\w-]{22}", approve.about["shown"])
    assert (way.kind, way.about["policy"], way.about["propensity"]) == ("decision", "cheapest", 0.25)
    assert found.force.principal == "eve"


async def test_all_that_came_from_outside_before_is_listed_and_nothing_that_came_later(over: WorkflowRuntime) -> None:
    found = await why(over, "pay")

    assert [(each.kind, each.id) for each in found.outside] == [
        ("message", "news"),
        ("answer", "approve"),
        ("decision", "way"),
        ("step", "fetch"),
        ("input", ""),
    ]


async def test_an_edit_of_a_fork_is_a_source_with_who_made_it_and_why(over: WorkflowRuntime) -> None:
    edit = Edit("fetch", "output", {**ORDER, "lines": [{"sku": "planted-value", "price": 2.5}]})
    await over.fork(RUN, edit=edit, id="fork", reason="had it been another", principal="dan")
    await over.resume("fork", answer="fine by me")
    await over.send("fork", "news", "sunny all day")

    found = await why(over, "pay", "fork")

    assert told(found)["what.sku"] == ("exact", [("fetch", "$.lines[0].sku")])
    [fetched] = [source for source in found.seen if source.id == "fetch"]
    assert (fetched.edited, fetched.by) == (True, "dan")
    [fork] = found.force.forks
    assert (fork.source, fork.by, fork.reason, fork.edited) == (RUN, "dan", "had it been another", "fetch")


async def test_the_arguments_that_a_fork_was_given_are_from_that_edit(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("fetch", "input", {"order": "order-of-another"}), id="fork", principal="dan")
    await over.resume("fork", answer="fine by me")

    found = await why(over, "approve", "fork")

    assert ("edit", "fetch", "dan") in [(each.kind, each.id, each.by) for each in found.seen]


async def test_a_failure_is_explained_by_its_step_and_by_what_its_message_names() -> None:
    @loom.flow
    async def failing(ctx: loom.Context) -> Any:
        fetched = await ctx.run(fetch, "order-4711")
        return await ctx.run(pay, sku=fetched["lines"][0]["sku"], price=0.125)

    over = runtime(failing)
    await over.start(failing, id=RUN)

    [found] = (await questions(over)).run()

    assert (found.what, found.call.id if found.call else None) == ("failure", "pay")
    [part] = found.told
    assert (part.path, part.certainty) == ("failure.message", "inside")
    assert {place.path for place in part.places} == {"$.lines[0].sku"}


async def test_a_run_that_failed_by_itself_names_no_step_and_tells_what_it_had_been_told() -> None:
    @loom.flow
    async def clumsy(ctx: loom.Context) -> int:
        fetched = await ctx.run(fetch, "order-4711")
        return int(fetched["customer"])

    over = runtime(clumsy)
    await over.start(clumsy, id=RUN)

    [found] = (await questions(over)).run()

    assert (found.what, found.call) == ("failure", None)
    assert [place.path for part in found.told for place in part.places] == ["$.customer"]


async def test_what_waits_is_explained_call_by_call_and_a_result_by_its_parts(over: WorkflowRuntime) -> None:
    @loom.flow
    async def both(ctx: loom.Context) -> Any:
        return await ctx.parallel(lambda ctx: ctx.suspend("one"), lambda ctx: ctx.receive("two"))

    waiting = runtime(both)
    await waiting.start(both, id=RUN)

    answers = (await questions(waiting)).run()
    [result] = (await questions(over)).run()

    assert [found.call.id for found in answers if found.call] == ["parallel/0/one", "parallel/1/two"]
    assert (result.what, [(part.path, part.certainty) for part in result.parts]) == ("result", [("result", "exact")])


async def test_the_failing_step_of_a_long_run_and_the_value_that_caused_it_are_found() -> None:
    @loom.step
    async def rate(n: int) -> dict[str, Any]:
        return {"rate": 1.25 if n != 137 else 0.125, "of": f"supplier-{n:04}"}

    @loom.flow
    async def long(ctx: loom.Context) -> None:
        rates = [await ctx.run(rate, n) for n in range(250)]
        for each in rates[130:140]:
            await ctx.run(pay, sku=each["of"], price=each["rate"])

    over = runtime(long)
    await over.start(long, id=RUN)

    [found] = (await questions(over)).run()

    assert len(await over.events(RUN)) > 500
    assert told(found)["what.price"][1] == [("rate#137", "$.rate")]
    assert told(found)["what.sku"] == ("exact", [("rate#137", "$.of")])
    assert found.trail[0].id == "rate#137"


# -- laws ---------------------------------------------------------------------------------------------------------------


def at(value: Any, path: str) -> Any:
    """Return the part of *value* at *path*."""
    for name, number, quoted in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]|\[('.*?'|\".*?\")\]", path.removeprefix("$")):
        value = bare(value)
        value = value[int(number)] if number else value[name] if name else value[eval(quoted)]
    return bare(value)


leaves = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text())
jsons = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), inner, max_size=4)
    ),
)


def leaf_count(value: Any) -> int:
    value = bare(value)
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(map(leaf_count, inner)) if inner else 1


@given(values=st.lists(jsons, max_size=4), asked=jsons)
def test_a_part_equals_what_stands_at_its_place_and_the_parts_are_the_whole(values: list[Any], asked: Any) -> None:
    known = Known()
    for number, value in enumerate(values):
        known.add(number, value)

    parts = known.parts(asked, "it", before=len(values))

    assert sum(leaf_count(part.value) for part in parts) == leaf_count(asked)
    for part in parts:
        for place in part.places:
            found = at(values[place.source], place.path)
            assert found in part.value if part.certainty == "inside" else found == part.value


@given(value=jsons, wrap=st.sampled_from(["list", "dict", "model", "tuple"]))
def test_what_was_known_whole_is_found_wherever_it_was_put(value: Any, wrap: str) -> None:
    known = Known()
    known.add(3, value)
    put = {
        "list": [value],
        "dict": {"a": value},
        "model": {"$type": "m:T", "value": {"a": value}},
        "tuple": {"$tuple": [value]},
    }[wrap]

    parts = known.parts(put, "it", before=4)

    assert all(part.certainty != "none" for part in parts)
    assert all(part.certainty == "plain" for part in known.parts(put, "it", before=3) if part.places)


@settings(max_examples=8)
@given(program=programs(wild), way=ways(retries=2))
async def test_of_every_call_of_every_run_only_what_came_before_is_named(program: Program, way: Way) -> None:
    life = await live(program, way)
    events = decode_events(ExecutionId(LIFE), list(life.log))
    state = fold_at(events)
    view = execution_view(state, events)
    asked = Questions(view, state, events)

    for call in view.calls:
        found = asked.call(call)
        ended_before = {each.end for each in view.calls if each.end is not None and each.end < call.start}
        assert {each.sequence for each in found.seen if each.kind not in ("input", "edit")} <= ended_before
        assert all(place.source < call.start for part in found.parts for place in part.places)
        assert all(step.start < call.start for step in found.trail)
        provenance_json(found)


async def test_whatever_changes_what_an_action_is_asked_with_is_listed_before_it(over: WorkflowRuntime) -> None:
    """Each source is changed in a fork: where the action is asked otherwise then, the source is one of those that are told."""
    others: dict[str, Any] = {
        "fetch": {**ORDER, "lines": [{"sku": "other", "price": 1}]},
        "way": "by pigeon",
        "approve": "never",
        "news": "snow",
    }
    before = await why(over, "pay")
    changing = set()
    for id, value in others.items():
        await over.fork(RUN, edit=Edit(id, "output", value), id=f"no-{id}")
        await over.resume(f"no-{id}")
        if (await over.load_state(f"no-{id}")).gates:
            await over.resume(f"no-{id}", answer="it is late")
        if id != "news":
            await over.send(f"no-{id}", "news", "rain tomorrow")
        events = await over.events(f"no-{id}")
        asked = [event.payload.args["what"] for event in events if getattr(event.payload, "id", None) == "pay"]
        named = {part.path: part.value for part in before.parts}
        changing |= {
            id for args in asked if any(args.get(name) != named.get(f"what.{name}") for name in ("sku", "way", "why"))
        }

    assert changing == set(others)
    assert changing <= {source.id for source in before.outside}
