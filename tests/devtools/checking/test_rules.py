"""Each rule, on what it finds and on what only looks so; and how flows are found and followed."""

from __future__ import annotations

import pytest

from loom.devtools.checking.findings import RULES
from tests.devtools.checking.checking import found, in_flow, report

# Finding flows


@pytest.mark.parametrize(
    "declared",
    [
        "@loom.flow\nasync def f(ctx):\n    loom_time()\n",
        '@loom.flow(id="x")\nasync def f(c):\n    loom_time()\n',
        "from loom import flow as durable\n@durable\nasync def f(ctx):\n    loom_time()\n",
        "async def f(ctx):\n    loom_time()\ng = loom.flow(f)\n",
        'async def f(ctx):\n    loom_time()\ng = loom.flow(id="x")(f)\n',
        "def make():\n    @loom.flow\n    async def f(ctx):\n        loom_time()\n",
    ],
)
def test_a_flow_is_found_however_it_is_declared(declared: str) -> None:
    assert [each.rule for each in report("from time import time as loom_time\n" + declared).findings] == ["clock"]


def test_a_flow_that_is_no_async_def_is_found_where_it_is_declared() -> None:
    assert found("@loom.flow\ndef order(ctx):\n    return 1\n") == ["not-async:3"]


def test_what_is_no_flow_may_do_anything() -> None:
    assert found("import time\nasync def helper(ctx):\n    return time.time()\n") == []


@pytest.mark.proves("EFF-07")
def test_a_flow_is_followed_through_modules_and_told_by_which_way() -> None:
    result = report(
        "from helpers import first\n@loom.flow\nasync def order(ctx):\n    return first()\n",
        helpers="from deeper import second as other\ndef first():\n    return other()\n",
        deeper="import time\ndef second():\n    return time.time()\n",
    )

    [clock] = result.findings
    assert (clock.rule, clock.path, clock.line) == ("clock", "deeper.py", 3)
    assert [str(each) for each in clock.via] == ["order (flows.py:4)", "first (helpers.py:2)", "second (deeper.py:2)"]


def test_modules_that_import_each_other_end() -> None:
    assert (
        found(
            "from helpers import a\n@loom.flow\nasync def order(ctx):\n    return a()\n",
            helpers="from other import a\n",
            other="from helpers import a\n",
        )
        == []
    )


def test_a_file_that_is_not_python_is_a_finding() -> None:
    assert found("def broken(:\n") == ["syntax:2"]


def test_an_absurdly_deep_expression_is_no_crash() -> None:
    assert "clock" not in found("@loom.flow\nasync def f(ctx):\n    return " + "+".join(["1"] * 900) + "\n")


# What is found, and what is not, a line each


FOUND = {
    "clock": [
        "import time as t; t.monotonic()",
        "import datetime; datetime.date.today()",
        "import time; time.localtime()",
    ],
    "random": [
        "import random; random.choice(given)",
        "import os; os.urandom(4)",
        "import random; random.SystemRandom()",
    ],
    "environment": ["import os; os.environ['A']", "import sys; given(sys.argv)", "import os; os.getcwd()"],
    "io": [
        "input()",
        "import os; os.listdir('.')",
        "import shutil; shutil.rmtree(given)",
        "import glob; glob.glob('*')",
    ],
    "network": [
        "import httpx; httpx.get('x')",
        "import requests; requests.Session()",
        "import boto3; boto3.client('s3')",
    ],
    "process": ["import os; os.system('ls')", "import subprocess; subprocess.Popen(['ls'])"],
    "threads": ["import multiprocessing; multiprocessing.Process()", "import threading; threading.Timer(1, print)"],
    "sleep": ["import asyncio; await asyncio.sleep(1)"],
    "bare-concurrency": [
        "import asyncio; await asyncio.wait_for(ctx.suspend('x'), 3)",
        "import asyncio; asyncio.as_completed([])",
    ],
    "identity": ["id(given)", "hash(given)"],
    "log": ["print(given)", "import logging; logging.getLogger('x').error('y')", "import warnings; warnings.warn('x')"],
    "set-order": [
        "a, b = {1, 2}",
        "given(*{1, 2})",
        "f'{set(given)}'",
        "next(iter(frozenset(given)))",
        "[*set(given)]",
        "','.join(set(given) - {1})",
        "list(given.keys() & {1})",
    ],
    "foreign-await": ["import thing; await thing.Client().ask()", "import asyncio; await asyncio.Future()"],
    "not-awaited": [
        "ctx.sleep(3)",
        "loom.spawn(ctx, 'child')",
        "a = ctx.run(given, 3)\n    return f'got {a}'",
        "a: int = ctx.run(given, 3)\n    return a + 1",
        "a, b = ctx.run(given, 1), await ctx.run(given, 2)\n    return str(a)",
        "a = ctx.suspend('x')",
        "a = ctx.suspend('x')\n    if a: return a.items",
        "a = ctx.run(given)\n    for x in a: given(x)",
    ],
    "not-a-step": ["await ctx.run(lambda: 3)"],
    "foreign-context": ["await ctx.run(given, ctx)", "await ctx.decide('way', lambda c: ctx.random(), [1])"],
    "broad-except": [
        "try: await ctx.suspend('x')\n    except (ValueError, BaseException): pass",
        "while True:\n        try: await ctx.suspend('x')\n        finally: break",
        "try: await ctx.suspend('x')\n    except BaseException:\n        if given: raise",
    ],
    "loop-id": [
        "for x in given: await ctx.execute('pay', {}, id='pay')",
        "for x in given: await loom.spawn(ctx, order, x, key='child')",
        "while given: await ctx.run(given.keyed(7))",
        "for x in given:\n        name = 'fixed'\n        await ctx.run(given.named(name))",
    ],
}


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule, lines in FOUND.items() for line in lines])
def test_it_is_found(rule: str, line: str) -> None:
    assert in_flow(line) == [rule]


@pytest.mark.parametrize(
    "line",
    [
        "import asyncio; await asyncio.sleep(0)",
        "import time; time.gmtime(given)",
        "import random; random.Random(given.seed).random()",
        "import httpx; httpx.Timeout(3)",
        "import uuid; uuid.UUID(given)",
        "import platform; platform.python_version()",
        "from pathlib import Path; Path(given).parent / 'a'",
        "import logging; logging.getLogger('x')",
        "len({1, 2}); 1 in {1}; sorted({1}); sum(set(given)); {1} | {2}; {1} == {2}",
        "[x for x in dict.fromkeys(given)]",
        "for x in {1, 2}: given.add(x)",
        "len(list(set(given)))",
        "import asyncio; await asyncio.gather(ctx.run(given, 1), ctx.run(given, 2))",
        "import asyncio; await asyncio.create_task(ctx.sleep(1))",
        "a = ctx.run(given, 1)\n    return await a",
        "import asyncio; a, b = ctx.run(given, 1), ctx.run(given, 2)\n    return await asyncio.gather(a, b)",
        "a = ctx.run(given)\n    left = [a]\n    for each in left: await each",
        "a = ctx.run(given)\n    a.close()",
        "a = ctx.run(given)\n    return await given(a)",
        "a = await ctx.run(given)\n    return f'{a}'",
        "a = ctx.run(given)\n    async def later(): return await a\n    await later()",
        "await given.wait()",
        "import contextlib\n    async with contextlib.AsyncExitStack() as stack: pass",
        "try: await ctx.suspend('x')\n    except Exception: pass",
        "try: await ctx.suspend('x')\n    except BaseException:\n        if given: raise\n        else: raise ValueError",
        "try: int(given)\n    except BaseException: pass",
        "try: await ctx.suspend('x')\n    finally:\n        for x in given: break",
        "for x in given: await ctx.run(given.named(f'a#{x}'))",
        "for i, x in enumerate(given): await ctx.run(given.keyed(x.id))",
        "[await ctx.run(given.keyed(x), x) for x in given]",
        "node = given\n    while node:\n        await ctx.run(given.keyed(node.id))\n        node = node.next",
        "for x in given: await ctx.run(given.named(str(ctx.uuid())))",
        "for x in given: await ctx.suspend('approval', key='same')",
        "for x in given: await ctx.execute('pay', {}, id=None)",
        "for x in given: pass\n    else: await ctx.run(given.named('once'))",
        "await ctx.run('clock', __import__('time').time)",
        "raise SystemError",
        "given.cache['a'] = 1; given.items.append(2)",
    ],
)
def test_it_is_right(line: str) -> None:
    assert in_flow(line) == []


def test_the_source_of_a_stream_may_do_anything_and_what_it_is_given_may_not() -> None:
    source = "import asyncio, time\nasync def tokens(n):\n    await asyncio.sleep(n)\n    yield time.time()\n"
    flow = "@loom.flow\nasync def order(ctx):\n    return await ctx.stream('answer', tokens({}))\n"

    assert found(source + flow.format("3")) == []
    assert found(source + flow.format("time.time()")) == ["clock:8"]


def test_a_helper_may_return_a_syscall_that_its_caller_awaits() -> None:
    helper = "async def ask(ctx):\n    a = ctx.suspend('x')\n    return a\n"

    assert found(helper + "@loom.flow\nasync def order(ctx):\n    return await (await ask(ctx))\n") == []


def test_the_names_of_the_flow_hide_those_of_the_world() -> None:
    assert in_flow("print = given; print(1)", "def open(x): return x", "open(3)") == []


# State


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("CACHE = {}", "CACHE.update(a=1)"),
        ("CACHE = {}", "CACHE['a']['b'] = 1"),
        ("CACHE = {}", "del CACHE['a']"),
        ("class Limits: top = 1", "Limits.top = 2"),
        ("import settings", "settings.LIMIT = 2"),
        ("from collections import deque; LAST = deque()", "LAST.append(given)"),
    ],
)
def test_state_of_the_module_is_not_changed(before: str, line: str) -> None:
    assert in_flow(line, before=before) == ["global-mutation"]


def test_state_that_other_code_changes_is_a_warning_to_who_reads_it() -> None:
    result = report(
        "LATEST = {}\ndef learn(x):\n    LATEST['x'] = x\n@loom.flow\nasync def order(ctx):\n    return LATEST['x']\n"
    )

    assert [(each.rule, each.severity, each.line) for each in result.findings] == [("shared-state", "warning", 7)]


def test_a_generator_that_the_module_keeps_depends_on_what_ran_before() -> None:
    assert in_flow("DICE.random()", before="import random; DICE = random.Random(7)") == ["random"]


# Loops


@pytest.mark.proves("RPL-02")
def test_an_id_that_cannot_vary_is_told_with_its_line_and_cleared_by_what_varies() -> None:
    text = "@loom.step\ndef fetch(x): ...\n@loom.flow\nasync def order(ctx, items):\n    for i in items:\n        await ctx.run(fetch.named('a{0}'), i)\n"

    [bug] = report(text.replace("{0}", "")).findings
    assert (bug.path, bug.line, bug.rule) == ("flows.py", 7, "loop-id")
    assert "step.named" in bug.fix
    assert bug.change is not None
    assert bug.change.after == '        await ctx.run(fetch.named(f"a#{i}"), i)'
    assert found(text.replace("'a{0}'", "f'a#{i}'")) == []


@pytest.mark.proves("RPL-02")
def test_calls_without_an_id_are_numbered_by_themselves() -> None:
    assert in_flow("for x in given: await ctx.run(given, x)") == []


def test_a_name_that_was_bound_before_the_loop_is_seen() -> None:
    assert in_flow("first = given.named('first')", "for x in given: await ctx.run(first, x)") == ["loop-id"]


# Steps


STEP = "import requests\nRETRY = loom.Retry(attempts=3)\n@loom.{0}\ndef pay(step: loom.StepContext, x):\n    {1}\n"


@pytest.mark.parametrize(
    ("options", "body", "rules"),
    [
        ("step(reads=True)", "open('x', mode='a')", ["effect-class:6"]),
        ("step(reads=True)", "open('x')", []),
        ("step(reads=True)", "x.execute('INSERT INTO t VALUES (1)')", ["effect-class:6"]),
        ("step(reads=True)", "x.execute('select 1')", []),
        ("tool(reads=True)", "requests.delete('x')", ["effect-class:6"]),
        ("step(idempotent=False, retry=RETRY)", "pass", ["effect-class:4"]),
        ("step(idempotent=False, retry=loom.Retry(attempts=3, on=(OSError,)))", "pass", []),
        ("step(idempotent=False, retry=loom.Retry(attempts=1))", "pass", []),
        ("step(idempotent=False, reads=True)", "pass", ["effect-class:4"]),
        ("step(retry=RETRY)", "requests.post('x', json=x)", ["no-key:6"]),
        ("step(retry=RETRY)", "requests.post('x', headers={'Idempotency-Key': step.idempotency_key})", []),
        ("step", "requests.post('x')", []),
    ],
)
def test_a_step_does_what_it_declares(options: str, body: str, rules: list[str]) -> None:
    assert found(STEP.format(options, body)) == rules


# Ceilings


CEILING = """
@loom.step(reads=True)
def look(x): ...
@loom.step
def save(x): ...
@loom.step(idempotent=False)
def pay(x): ...
async def deeper(ctx):
    return {body}
async def deep(ctx):
    return await deeper(ctx)
@loom.flow(effects="{ceiling}")
async def order(ctx, step):
    return await deep(ctx)
"""
READS, WRITES, ONCE = "await ctx.run(look, 1)", "await ctx.run(save.keyed(1), 1)", "await ctx.map(pay, [1])"


@pytest.mark.proves("EFF-06")
@pytest.mark.parametrize(
    ("ceiling", "body", "holds"),
    [
        ("none", "await ctx.suspend('x')", True),
        ("none", READS, False),
        ("read", READS, True),
        ("read", WRITES, False),
        ("write", WRITES, True),
        ("write", ONCE, False),
        ("once", ONCE, True),
        ("write", "await ctx.execute('pay', {})", False),
        ("once", "await ctx.execute('pay', {})", True),
        ("none", "await ctx.run('sum', sum, [1])", True),
        ("none", "await ctx.run('clock', __import__('time').time)", False),
        ("read", "await ctx.run('print', print, 1)", False),
        ("read", "await ctx.run('own', lambda x: x.do(), 1)", False),
        ("read", "await ctx.run(unknown, 1)", False),
        ("read", "(await ctx.parallel(lambda c: c.run(save, 1)))[0]", False),
    ],
)
def test_a_flow_reaches_no_more_than_it_declares(ceiling: str, body: str, holds: bool) -> None:
    rules = {each.rule for each in report(CEILING.format(ceiling=ceiling, body=body)).findings}

    assert rules == (set() if holds else {"effect-class"})


def test_a_class_of_effects_that_does_not_exist_is_told() -> None:
    assert found('@loom.flow(effects="reads")\nasync def order(ctx): ...\n') == ["effect-class:3"]


# Defaults and places


def test_an_object_whose_default_asks_a_clock_is_fine_when_it_is_given_one() -> None:
    text = "import time\nfrom dataclasses import dataclass, field\n@dataclass\nclass T:\n    at: float = field(default_factory=time.time)\n@loom.flow\nasync def f(ctx):\n    return T({0})\n"

    assert found(text.format("")) == ["clock:9"]
    assert found(text.format("at=1.0")) == []


def test_columns_count_characters_and_only_chosen_rules_are_applied() -> None:
    text = "@loom.flow\nasync def f(ctx):\n    return 'é', print(id(1))\n"

    [identity] = report(text, rules={"identity"}).findings
    assert (identity.line, identity.column, identity.end_column) == (4, 23, 28)


def test_every_rule_says_what_it_finds_and_what_to_write_instead() -> None:
    assert all(rule.finds and rule.instead and rule.severity in {"error", "warning"} for rule in RULES.values())


# Followed a little further


FURTHER = {
    "tasks kept in a list": (
        "import asyncio\nasync def one(ctx): ...\n@loom.flow\nasync def f(ctx, items):\n    tasks = [one(ctx) for x in items]\n    await asyncio.gather(*tasks)\n",
        ["bare-concurrency:7"],
    ),
    "syscalls kept in a list": (
        "import asyncio\n@loom.flow\nasync def f(ctx, items):\n    asked = []\n    for x in items:\n        asked.append(ctx.sleep(x))\n    await asyncio.gather(*asked)\n",
        [],
    ),
    "a class method that counts": (
        "class C:\n    n = 0\n    @classmethod\n    def up(cls):\n        cls.n += 1\n@loom.flow\nasync def f(ctx):\n    C.up()\n",
        ["global-mutation:6"],
    ),
    "a set kept by an object": (
        "class C:\n    def __init__(self):\n        self.seen: set[str] = set()\n    def all(self):\n        return list(self.seen)\n@loom.flow\nasync def f(ctx):\n    C().all()\n",
        ["set-order:6"],
    ),
    "a clock that a default is": (
        "import time\ndef at(clock=time.time):\n    return clock()\n@loom.flow\nasync def f(ctx):\n    at()\n",
        ["clock:4"],
    ),
    "a clock that a default has read": (
        "import time\n@loom.flow\nasync def f(ctx, at=time.time()):\n    return at\n",
        ["import-time:4"],
    ),
    "a set that a step returns": (
        "@loom.step\ndef tags() -> set[str]: ...\n@loom.flow\nasync def f(ctx):\n    for tag in await ctx.run(tags):\n        await ctx.sleep(1)\n",
        ["set-order:6"],
    ),
    "a set that an answer is": (
        "@loom.flow\nasync def f(ctx):\n    return list(await ctx.suspend('tags', expects=set[str]))\n",
        ["set-order:4"],
    ),
    "a set that is handed to a helper": (
        "def first(items):\n    return list(items)[0]\n@loom.flow\nasync def f(ctx, given):\n    return first(set(given))\n",
        ["set-order:3"],
    ),
    "a helper that keeps a name, called in a loop of its caller's caller": (
        "async def ask(ctx, step):\n    await ctx.run(step.named('x'))\nasync def turn(ctx, step):\n    await ask(ctx, step)\n@loom.flow\nasync def f(ctx, step):\n    while True:\n        await turn(ctx, step)\n",
        ["loop-id:3"],
    ),
    "a helper whose name is its argument, called in a loop": (
        "async def ask(ctx, step, name):\n    await ctx.run(step.named(name))\n@loom.flow\nasync def f(ctx, step):\n    for n in range(3):\n        await ask(ctx, step, f'n{n}')\n",
        [],
    ),
    "a method whose object counts, called in a loop": (
        "class C:\n    n = 0\n    async def ask(self, ctx, step):\n        await ctx.run(step.named(f'x{self.n}'))\n@loom.flow\nasync def f(ctx, step):\n    c = C()\n    for _ in range(3):\n        c.n += 1\n        await c.ask(ctx, step)\n",
        [],
    ),
    "a function made into a step is none of the flow": (
        "import time\ndef now():\n    return time.time()\n@loom.flow\nasync def f(ctx):\n    return await ctx.run(loom.step(id='now')(now))\n",
        [],
    ),
}


@pytest.mark.proves("EFF-07")
@pytest.mark.parametrize("what", FURTHER)
def test_it_is_followed(what: str) -> None:
    text, rules = FURTHER[what]

    assert found(text) == rules
