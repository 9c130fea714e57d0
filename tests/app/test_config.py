from __future__ import annotations

import asyncio
import inspect
import types
import warnings
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.app.registry import DuplicateId, Registry
from loom.app.resources import ResourceNotOpened
from loom.core.errors import InvalidDeclaration
from loom.driving.effects import EffectRuntime
from loom.driving.runtime import RuntimeOptions, WorkflowRuntime
from loom.spi.clock import VirtualClock


@loom.step
async def work(x: int) -> int:
    return x


@loom.flow
async def first(ctx: loom.Context, x: int) -> int:
    return await ctx.run(work, x)


@loom.flow
async def second(ctx: loom.Context) -> int:
    return 2


def module(**names: Any) -> types.ModuleType:
    made = types.ModuleType("app_module")
    vars(made).update(names)
    return made


@pytest.mark.proves("COM-01")
async def test_an_app_is_wired_in_a_few_lines_and_what_it_is_made_of_can_be_reached() -> None:
    async with loom.define_config(flows=[first, second]) as app:
        outcome = await app.runtime.start(first, 7)

        assert outcome.value == 7
        assert app.storage is app.runtime.storage
        assert list(app.registry.flows) == ["first", "second"]


async def test_under_a_clock_that_stands_still_a_rest_parks_the_run_unless_a_verb_says_to_linger() -> None:
    clock, attempts = VirtualClock(), list[int]()

    @loom.step(retry=loom.Retry(attempts=2, delay=timedelta(seconds=0.3), jitter=0))
    async def flaky(step: loom.StepContext) -> int:
        attempts.append(step.attempt)
        if step.attempt == 1:
            raise ConnectionError("no luck")
        return step.attempt

    @loom.flow
    async def persistent(ctx: loom.Context) -> int:
        return await ctx.run(flaky)

    async with loom.define_config(flows=[persistent], clock=clock) as app:
        async with asyncio.timeout(20):
            parked = await app.runtime.start(persistent, id="a")
        clock.advance(300)
        done = await app.runtime.resume("a")
        lingering = asyncio.create_task(app.runtime.start(persistent, id="b", linger_s=1))
        while clock.next_due_ms is None:
            await asyncio.sleep(0)
        clock.advance(300)

        assert (parked.status, done.value, attempts[:2]) == ("suspended", 2, [1, 2])
        assert (await lingering).value == 2


@pytest.mark.proves("PRN-08")
async def test_what_define_config_wires_can_be_wired_by_hand() -> None:
    by_hand = WorkflowRuntime(loom.MemoryStorage(), flows={"first": first}, tools={}, effects=EffectRuntime())
    wired = loom.define_config(flows=[first]).runtime

    logs = []
    for runtime in (by_hand, wired):
        await runtime.start(first, 7, id="run-1")
        logs.append([(event.type, event.sequence) for event in await runtime.events("run-1")])

    assert logs[0] == logs[1]


@pytest.mark.proves("COM-03")
def test_modules_are_read_by_shape_and_twice_is_once() -> None:
    made_by_helper = loom.flow(id="made")(second.fn)
    flows = module(first=first, alias=first, made=made_by_helper, constant=3, function=len)

    app = loom.define_config(flow_modules=[flows, flows], flows=[first])

    assert list(app.registry.flows) == ["first", "made"]
    assert list(app.registry.tools) == []


def test_steps_of_modules_are_reached_by_id() -> None:
    app = loom.define_config(step_modules=[module(work=work, other_name=work, x=1)])

    assert list(app.registry.tools) == ["work"]


@pytest.mark.proves("COM-04")
def test_a_flow_that_was_generated_but_not_registered_is_told_before_any_dispatch() -> None:
    manifest = [{"kind": "flow", "id": "first", "module": "a"}, {"kind": "flow", "id": "lost", "module": "app.lost"}]
    told: list[str] = []

    loom.define_config(flows=[first], manifest=manifest, on_warn=told.append)

    assert told == ["the flow 'lost' of app.lost was generated but is not registered"]
    with pytest.warns(match="lost"):
        loom.define_config(flows=[first], manifest=manifest)


def test_a_whole_manifest_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loom.define_config(flows=[first], manifest=[{"kind": "flow", "id": "first"}, {"kind": "step", "id": "x"}])


@pytest.mark.proves("COM-05")
def test_two_declarations_of_one_id_are_refused_with_both_places() -> None:
    async def impostor(ctx: loom.Context, x: int) -> int:
        return x

    with pytest.raises(DuplicateId) as told:
        loom.define_config(flows=[first, loom.flow(id="first")(impostor)])

    assert (told.value.kind, told.value.name) == ("flow", "first")
    assert told.value.first != told.value.second
    assert all(__file__ in place for place in (told.value.first, told.value.second))


def test_the_registry_is_read_only() -> None:
    registry: Any = Registry([first])

    with pytest.raises(TypeError):
        registry.flows["second"] = second


@pytest.mark.proves("PRN-06")
def test_the_same_declarations_in_another_order_give_the_same_digest() -> None:
    assert Registry([first, second], [work]).digest() == Registry([second, first], [work]).digest()
    assert Registry([first]).digest() != Registry([first, second]).digest()


@pytest.mark.proves("KER-23")
def test_nothing_switches_a_feature_of_the_kernel_on_or_off() -> None:
    settings = {*inspect.signature(loom.define_config).parameters, *RuntimeOptions.__annotations__}

    assert not {name for name in settings if "feature" in name or "flag" in name}
    with pytest.raises(TypeError, match="features"):
        loom.define_config(flows=[first], features={"inbox": True})  # type: ignore[call-arg]


def test_what_is_no_flow_is_refused() -> None:
    wrong: Any = work

    with pytest.raises(InvalidDeclaration, match="no flow"):
        loom.define_config(flows=[wrong])


@pytest.mark.proves("AUT-09")
def test_schedules_are_registered_with_their_flows() -> None:
    nightly, weekly = loom.schedule("nightly", "@daily", second), loom.schedule("weekly", "@weekly", first, input=1)

    app = loom.define_config(flows=[first, second], schedules=[weekly, nightly, weekly])

    assert list(app.registry.schedules.items()) == [("nightly", nightly), ("weekly", weekly)]
    assert app.registry.digest() != Registry([first, second]).digest()


def test_two_schedules_of_one_id_are_refused_with_what_each_is() -> None:
    one, another = loom.schedule("nightly", "@daily", second), loom.schedule("nightly", "30 2 * * *", second)

    with pytest.raises(DuplicateId, match=r"'0 0 \* \* \*' for second and '30 2 \* \* \*' for second"):
        loom.define_config(flows=[second], schedules=[one, another])


@pytest.mark.parametrize("flows", [[], [first], [loom.flow(id="second")(first.fn)]])
def test_a_schedule_of_a_flow_that_is_not_registered_is_refused(flows: list[Any]) -> None:
    with pytest.raises(InvalidDeclaration, match="the flow second, which is not registered"):
        loom.define_config(flows=flows, schedules=[loom.schedule("nightly", "@daily", second)])


def test_what_is_no_schedule_is_refused() -> None:
    wrong: Any = second

    with pytest.raises(InvalidDeclaration, match="which is none"):
        loom.define_config(flows=[second], schedules=[wrong])


class Resource:
    """An async context manager that keeps a diary."""

    diary: list[str]
    name: str
    breaks: bool

    async def __aenter__(self) -> str:
        await asyncio.sleep(0)
        if self.breaks:
            raise ConnectionError(self.name)
        self.diary.append(f"open {self.name}")
        return self.name

    async def __aexit__(self, *_: object) -> None:
        self.diary.append(f"close {self.name}")


def factory(diary: list[str], name: str, breaks: set[str]) -> Any:
    def make() -> Resource:
        made = Resource()
        made.diary, made.name, made.breaks = diary, name, name in breaks
        return made

    return make


@loom.step
async def names(step: loom.StepContext) -> list[str]:
    return sorted(step.resources)


@loom.flow
async def looks(ctx: loom.Context) -> list[str]:
    return await ctx.run(names)


async def test_resources_open_once_at_the_first_verb_and_close_in_reverse() -> None:
    diary: list[str] = []
    app = loom.define_config(flows=[looks], resources={name: factory(diary, name, set()) for name in "ab"})
    assert diary == []

    async with app:
        outcomes = await asyncio.gather(*(app.runtime.start(looks) for _ in range(3)))

    assert [outcome.value for outcome in outcomes] == [["a", "b"]] * 3
    assert diary == ["open a", "open b", "close b", "close a"]


async def test_a_resource_that_cannot_be_opened_leaves_nothing_open_and_may_be_tried_again() -> None:
    diary: list[str] = []
    broken = {"b"}
    resources = {name: factory(diary, name, broken) for name in "ab"}
    app = loom.define_config(flows=[looks], resources=resources)

    with pytest.raises(ResourceNotOpened) as refused:
        await app.runtime.start(looks, id="run-1")
    broken.clear()
    outcome = await app.runtime.start(looks, id="run-2")
    await app.close()

    assert outcome.value == ["a", "b"]
    assert str(refused.value).startswith("the resource 'b' cannot be opened: ConnectionError: b (")
    assert f"{__file__}:" in refused.value.where
    assert isinstance(refused.value.__cause__, ConnectionError)
    assert diary == ["open a", "close a", "open a", "open b", "close b", "close a"]


async def test_closing_twice_or_without_having_opened_does_nothing() -> None:
    app = loom.define_config(flows=[looks])

    await app.close()
    await app.close()
