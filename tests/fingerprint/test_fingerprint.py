"""Which edits of a flow count as a change of its code, and which do not."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from loom.fingerprint import fingerprint, readable, same

FLOW: Final = '''
from __future__ import annotations
import enum, json, os.path, re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from json import loads
from os import path
from typing import Literal, NamedTuple, Optional, TypedDict
from pydantic import BaseModel
import loom.core.flow as core
from loom.core.flow import flow
from loom.core.retry import Retry
from loom.core.step import StepContext, step
LIMIT = Decimal("100.50")
RATES = {"eu": 0.2, "us": 0.1}
REGIONS = frozenset({"eu", "us", "uk"})
WAIT = timedelta(days=3); CODE = re.compile(r"[a-z]+"); DEPTH = 3
class Status(enum.Enum):
    OPEN = "open"; DONE = "done"
class Client(BaseModel):
    name: str; tags: list[str] = []
class Address(TypedDict, total=False): street: str
class Span(NamedTuple):
    days: int; hours: int = 0
class Claim(BaseModel):
    client: Client
    amount: Decimal
    parent: Optional[Claim] = None
    span: Span = Span(1)
    kind: Literal["new", "old"] = "new"
    status: Status = Status.OPEN
    def doubled(self): return self.amount * 2
@dataclass
class Approval:
    approved: bool
    reason: str = ""
    place: Address | None = None
@dataclass
class Risk: score: float
@dataclass
class Declined: code: str
class Marker: size = 1
@step
async def assess(claim: Claim, depth: int = DEPTH) -> Risk: return Risk(0.5)
@step(idempotent=False, failures={"declined": Declined})
async def pay(context: StepContext, claim: Claim) -> str: return "receipt"
def traced(fn): return fn
def rate(region): return RATES[region] if region in REGIONS else fallback(region)
def fallback(region): return rate("eu") if region else 0
double = lambda value: value * 2
@flow
async def refund(ctx, claim: Claim | None = None) -> object:
    """Pay a claim back."""
    retries = 2
    risk = await ctx.run(assess, claim)
    total: Decimal = claim.amount * rate("eu") + double(1)
    if total > LIMIT and risk.score > 0.5:
        answer = await ctx.suspend("approval", show=risk, expects=Approval, timeout=WAIT)
        if not answer.approved: return {"status": Status.DONE, "why": f"refused: {answer.reason!r:>{retries}}"}
    while retries:  # once more
        retries -= 1
    names = [name for name in json.loads(claim.text) if CODE.match(name)]
    @traced
    def inner(value: int, *, by=DEPTH) -> int:
        """Count."""; return value + by
    match risk:
        case Risk(score=score) if (half := score / 2) > 1: inner(half)
        case {"a": [1, *rest], **others}: inner(len(rest))
    async with ctx.scope("parts") as scope: scope.add(Marker.size)
    return await ctx.run(pay, claim), os.path.join("a", *names)
TYPES = [Claim]
'''
SYNTAX: Final = r"""
import contextlib, functools, heapq, pathlib
NUMBERS = (1, -2, 10**30, 0.1, -0.0, 1e400, 2j, True, None, ..., b"\0", "\ud800", "é")
HERE, PUSH = pathlib.Path("a"), functools.partial(heapq.heappush, [3])
@contextlib.contextmanager
def opened(path, /, *rest, mode="r", **others): yield from rest
async def refund(ctx, items=NUMBERS, *, key=lambda x, y=2: (x, *y), **more):
    global COUNT; count = 0
    def inner():
        nonlocal count; count += 1
        return (yield count)
    class Local:
        size: int = 1; name: str
        def area(self): return self.size ** 2
    from .places import town as city; import json.decoder, heapq
    try:
        with opened("a") as a, (opened("b")) as b: del a.x, b[1:2, ::3]
    except* (ValueError, OSError) as group:
        raise RuntimeError(f"{group=} {a!s:{count}.{count}} {{}} {'x'}") from None
    else: assert count < 3 <= 4 != 5, "no"
    finally: HERE.exists()
    found = {k: v async for k, v in ctx.stream() if (w := k) if not v}
    both = [*{1, 2}, *(i for i in items)] @ {**found, "a": ~w}
    for i, (j, *k) in enumerate(both):
        if i: continue
        elif j: break
    else: PUSH(-count, "\ud800", b"\0", 10**30, 2j, ... if i else key)
    async for x in ctx: await x[...]
    match both:
        case None | True | [1, _] | -1 | 1+2j: ...
    return "a" "b" f"c{x:>{w}}" rf"\d{x}" "\N{BULLET}", items[0](*k, **more)
"""
GOLDEN: Final = ["1:-Du58MAgQCBHSUlnOntsXQ", "1:9T7jlxWbOuZgkBvh3cQvZQ"]

HARMLESS: Final = {
    "a comment": ("    retries = 2\n", "    # how often\n    retries = 2  # type: int\n"),
    "a comment at the margin inside the body": ("    retries = 2\n", "    retries = 2\n# here\n\n"),
    "a docstring": ('"""Pay a claim back."""', '"""Give\nthe money back."""'),
    "the docstring of a nested function": ('"""Count."""', '"""Counts."""'),
    "an unused hint": ("    retries = 2\n", "    left: int\n    retries = 2\n"),
    "the hint of a variable": ("total: Decimal =", "total ="),
    "the hints of a nested function": ("(value: int, *, by=DEPTH) -> int", "(value, *, by: object = DEPTH)"),
    "the hints of the flow itself": ("claim: Claim | None = None) -> object", "claim=None)"),
    "parentheses": ("if total > LIMIT and risk.score > 0.5:", "if ((total > LIMIT) and (risk.score > (0.5))):"),
    "line breaks": ("ctx.run(assess, claim)", "ctx.run(\n        assess,\n        claim,\n    )"),
    "quotes": ('"approval"', "'''approval'''"),
    "text in pieces": ('"approval"', '"app" "roval"'),
    "an f-string in pieces": ('f"refused: {', 'f"refused" f": {'),
    "a number written otherwise": ("retries = 2\n", "retries = 0x2\n"),
    "a constant under another name": ("LIMIT", "MOST"),
    "the order of imports": ("import enum, json, os.path", "import os.path, enum\nimport json"),
    "a library's other path": ("os.path.join(", "path.join("),
    "a function taken out of its module": ("json.loads(claim", "loads(claim"),
    "the body of a step": ("Risk(0.5)", "Risk(0.7)"),
    "the retries of a step": ("@step\n", "@step(retry=Retry(attempts=9))\n"),
    "the hint of an injected context": ("context: StepContext", "ctx: StepContext"),
    "the name of a helper": ("fallback", "otherwise"),
    "how loom's decorator is written": ("@flow\n", "@(\n    core.flow(\n        version='2'\n    )\n)\n"),
    "a class that is not referenced": ("class Client", "class Unused: ...\nclass Client"),
    "a method of a model": ("self.amount * 2", "self.amount * 3"),
    "another spelling of a hint": ("Optional[Claim]", "Claim | None"),
    "lines before the flow": ("LIMIT =", "\n\n\nUNUSED = 1\nLIMIT ="),
}
CHANGES: Final = {
    "an operator": ("risk.score > 0.5", "risk.score >= 0.5"),
    "a constant in the body": ("retries = 2\n", "retries = 3\n"),
    "a number's type": ("retries = 2\n", "retries = 2.0\n"),
    "text in an f-string": ("refused: ", "refused "),
    "a format in an f-string": ("!r:>{", "!r:<{"),
    "a local name": ("answer", "reply"),
    "control flow": ("while retries:", "if retries:"),
    "the order of two calls": ('claim.amount * rate("eu") + double(1)', 'double(1) + claim.amount * rate("eu")'),
    "an await": ("await ctx.run(assess", "ctx.run(assess"),
    "a default of the flow": ("claim: Claim | None = None", "claim: Claim | None = 1"),
    "a default of a nested function": ("by=DEPTH) -> int", "by=DEPTH + 1) -> int"),
    "a decorator of a nested function": ("    @traced\n", ""),
    "a pattern": ('{"a": [1, *rest]', '{"a": [2, *rest]'),
    "a Decimal constant": ('Decimal("100.50")', 'Decimal("100.5")'),
    "a table": ('"us": 0.1', '"us": 0.15'),
    "a regular expression": ('r"[a-z]+"', 'r"[a-z]*"'),
    "the value of an enum member": ('DONE = "done"', 'DONE = "over"'),
    "a constant of a class": ("size = 1", "size = 2"),
    "the body of a helper": ('rate("eu") if region else 0', 'rate("us") if region else 0'),
    "the body of a lambda": ("value * 2", "value * 3"),
    "the body of a decorator": ("def traced(fn): ", "def traced(fn): print(fn); "),
    "another library's function": ("json.loads(claim", "json.dumps(claim"),
    "another decorator": ("@flow\nasync def refund", "@flow\n@traced\nasync def refund"),
    "the id of a step": ("@step\n", "@step(id='weigh')\n"),
    "that a step is not idempotent": ("@step\n", "@step(idempotent=False)\n"),
    "a parameter of a step": ("depth: int = DEPTH", "level: int = DEPTH"),
    "a default of a step": ("depth: int = DEPTH", "depth: int = 9"),
    "the hint of a step's parameter": ("depth: int", "depth: float"),
    "the result of a step": (") -> str: return", ") -> bytes: return"),
    "a field of a step's result": ("score: float", "score: int"),
    "a field of a declared failure": ("code: str", "code: int"),
    "a field of an answer": ("approved: bool", "approved: int"),
    "the default of an answer's field": ('reason: str = ""', 'reason: str = "none"'),
    "a new field of the input": ("    amount: Decimal\n", "    amount: Decimal\n    note: str = ''\n"),
    "the type of a field of the input": ("amount: Decimal", "amount: float"),
    "the default of a field inside the input": ("tags: list[str] = []", "tags: list[str] = ['a']"),
    "a field of a typed dict inside an answer": ("street: str", "street: bytes"),
    "which keys of a typed dict are required": (", total=False", ""),
    "the default in a named tuple inside the input": ("hours: int = 0", "hours: int = 1"),
    "a literal inside the input": ('Literal["new", "old"]', 'Literal["new", "old", "lost"]'),
    "a new member of an enum inside the input": ('OPEN = "open"', 'OPEN = "open"; LATE = "late"'),
}


Load = Callable[..., ModuleType]


@pytest.fixture
def load() -> Iterator[Load]:
    """Makes a module of a source. It has no file; `linecache` is told what would be in it."""
    made: list[ModuleType] = []

    def loaded(source: str, *, name: str = "", file: str = "", readable: bool = True) -> ModuleType:
        name = name or f"shop.flows{len(made)}"  # hints are looked up in the module of this name
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = path = file or f"<flows {len(made)}>"
        made.append(module)
        if readable:
            write(path, source)
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))
        return module

    yield loaded
    for module in made:
        linecache.cache.pop(str(module.__file__), None)
        sys.modules.pop(module.__name__, None)


def write(path: str, text: str) -> None:
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


def both(load: Load, *sources: str) -> list[str]:
    return [fingerprint(module.refund, types=vars(module).get("TYPES", ())) for module in map(load, sources)]


def edited(old: str, new: str) -> str:
    assert old in FLOW
    return FLOW.replace(old, new)


@pytest.mark.parametrize("edit", HARMLESS)
def test_what_does_not_change_the_behaviour_of_a_flow_does_not_count(load: Load, edit: str) -> None:
    before, after = both(load, FLOW, edited(*HARMLESS[edit]))

    assert same(before, after)


@pytest.mark.proves("RPL-07")
@pytest.mark.parametrize("edit", CHANGES)
def test_what_can_change_the_behaviour_of_a_flow_counts(load: Load, edit: str) -> None:
    before, after = both(load, FLOW, edited(*CHANGES[edit]))

    assert readable(after)
    assert not same(before, after)


def test_the_digest_is_the_same_on_every_python(load: Load) -> None:
    assert both(load, FLOW, SYNTAX) == GOLDEN


# Where the code lies

CALL: Final = "async def refund(ctx): return {}\n"
PRICE: Final = CALL.format("price(1)")
PRINTS: Final = """
import importlib, sys; sys.path.insert(0, sys.argv[1])
from loom.fingerprint import fingerprint
module = importlib.import_module(sys.argv[2])
print(fingerprint(module.refund, types=module.TYPES))
"""


def test_neither_hashing_nor_the_place_of_a_file_counts(tmp_path: Path) -> None:
    prints = set()
    for seed, name in enumerate(["flows", "shop/refunds", "src/a/b"]):
        file = tmp_path / str(seed) / f"{name}.py"
        file.parent.mkdir(parents=True)
        file.write_text("\n" * seed + FLOW, encoding="utf-8")
        command = [sys.executable, "-c", PRINTS, str(tmp_path / str(seed)), name.replace("/", ".")]
        environment = {"PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        prints.add(ran.stdout.strip())

    assert prints == {GOLDEN[0]}


def test_a_helper_may_move_to_another_module(load: Load) -> None:
    helper = "def price(x): return x * 2\n"
    load(helper, name="shop_prices")
    dotted = "import shop_prices as p\n" + CALL.format("p.price(1)")
    sources = (helper + PRICE, "from shop_prices import price\n" + PRICE, dotted)

    assert len({fingerprint(load(source).refund) for source in sources}) == 1


def test_a_local_import_counts_by_the_last_name_and_its_library(load: Load) -> None:
    def of(*lines: str) -> str:
        body = "".join(f"    {line}\n" for line in lines)
        return fingerprint(load("async def refund(ctx):\n" + body, name="shop.flows").refund)

    assert of("from shop.a import b", "import json") == of("import json", "from shop.x.y import b")
    assert of("from shop.a import b") == of("from .a import b")
    assert of("from shop.a import b") != of("from shop.a import c")
    assert of("from json import loads") != of("from orjson import loads")


def test_what_is_installed_is_a_name_unless_the_flow_is_installed_with_it(load: Load) -> None:
    flow = "from lent.prices import price\n" + PRICE
    file = "/nowhere/site-packages/lent/%s.py"

    def prints(body: str) -> tuple[str, str]:
        load(f"def price(x):\n    return {body}\n", name="lent.prices", file=file % "prices")
        stranger = load(flow, name="shop.flows")
        return fingerprint(stranger.refund), fingerprint(load(flow, name="lent.flows", file=file % "flows").refund)

    (stranger, own), (stranger_after, own_after) = prints("x"), prints("x + 1")

    assert stranger == stranger_after
    assert own != own_after


# Where the code stands, and what it names: a template, and two texts to put into it

CLOSURE: Final = """
def make(rate):
    def price(x):
        text = '''
at the margin
'''
        return x * rate, text
# a comment at the margin
    async def refund(ctx): return price(1)
    return refund
refund = make({})
"""
WRAPPED: Final = "@{}\ndef price(x): yield x * {{}}\n" + PRICE
TRACED: Final = """
import functools
def traced(fn):
    @functools.wraps(fn)
    def outer(*args): return fn(*args)
    return outer
"""
FUNCTIONS: Final = """
def add(x): return x + {}
def sub(x): return x - 1
TABLE = dict(add=add, kinds={{add, sub}}, more=[]); TABLE["more"].append(TABLE)
"""
DATACLASS: Final = "from dataclasses import dataclass, field\n@dataclass(frozen=True)\n"
SESSION: Final = "class Session:\n    def __init__(self, x): self.x = x\nSESSION = Session({})\n"
STEP: Final = "from __future__ import annotations\nfrom loom.core.step import step\n@step\n"
CHILD: Final = "from loom.core.flow import flow\n@flow{}\nasync def child(ctx, x: int) -> int: return x + {}\n"
NODE: Final = DATACLASS + "class Node:\n    size: {}\n    next: 'Node | None' = None\nimport typing\n" + PRICE
NODE_HINTS: Final = "Node; list[Node]; dict[str, Node | None]; typing.Optional[Node]; typing.Annotated[Node, 1]"

ALIKE: Final = {
    "the same closure": (CLOSURE, "1", "1"),
    "a lambda beside ours": ("a, price = (lambda x: x + {}), (lambda x: x + 2)\n" + PRICE, "1", "2"),
    "a global that a local name hides": ("x = {}\nasync def refund(ctx, x): return [x for y in ctx]", "1", "2"),
    "an object that may change": (SESSION + CALL.format("SESSION.x"), "1", "2"),
    "the body of a child flow": (CHILD.format("", "{}") + CALL.format("ctx.run(child, 1)"), "1", "2"),
    "the same table with itself inside": (FUNCTIONS + CALL.format("TABLE['add'](1)"), "1", "1"),
}
UNLIKE: Final = {
    "what a closure holds": (CLOSURE, "1", "2"),
    "one lambda of a line": ("a, price = (lambda x: x + 1), (lambda x: x + {})\n" + PRICE, "1", "2"),
    "a global beside a comprehension": ("x = {}\nasync def refund(ctx): return [x for x in ctx], x", "1", "2"),
    "a cached helper": ("import functools\n" + WRAPPED.format("functools.lru_cache"), "1", "2"),
    "a context manager": ("import contextlib\n" + WRAPPED.format("contextlib.contextmanager"), "1", "2"),
    "a helper in a wrapper": (TRACED + WRAPPED.format("traced"), "1", "2"),
    "a wrapper": (TRACED.replace("*args)\n", "*args, {})\n") + WRAPPED.format("traced").format(1), "1", "2"),
    "a function in a table": (FUNCTIONS + CALL.format("TABLE['add'](1)"), "1", "2"),
    "a frozen dataclass": (DATACLASS + "class Policy:\n    a: int\nP = Policy({})\n" + CALL.format("P.a"), "1", "2"),
    "the id of a child flow": (CHILD.format("(id='{}')", 1) + CALL.format("ctx.run(child, 1)"), "a", "b"),
    "a name only for checkers": (STEP + "async def get(x: Gone) -> {}: ...\n" + CALL.format("get"), "Gone", "Lost"),
}


@pytest.mark.parametrize(("template", "first", "second"), ALIKE.values(), ids=ALIKE)
def test_what_is_none_of_a_flows_business_does_not_count(load: Load, template: str, first: str, second: str) -> None:
    assert same(*both(load, template.format(first), template.format(second)))


@pytest.mark.parametrize(("template", "first", "second"), UNLIKE.values(), ids=UNLIKE)
def test_what_a_flow_leads_to_counts(load: Load, template: str, first: str, second: str) -> None:
    before, after = both(load, template.format(first), template.format(second))

    assert before != after
    assert readable(before)
    assert readable(after)


@pytest.mark.parametrize("hint", NODE_HINTS.split("; "))
def test_the_types_behind_an_annotation_are_found(load: Load, hint: str) -> None:
    before, after = (NODE.format(size) + f"TYPES = [{hint}]\n" for size in ("int", "str"))

    assert not same(*both(load, before, after))


def test_nesting_may_be_deep(load: Load) -> None:
    text = " + ".join(["ctx"] * 700)
    branches = "    if ctx: pass\n" + "".join(f"    elif ctx == {n}: {n}\n" for n in range(40))

    assert readable(fingerprint(load(f"async def refund(ctx):\n{branches}    return {text}\n").refund))


def test_a_model_is_the_same_before_and_after_its_first_use(load: Load) -> None:
    models = "class Outer(BaseModel):\n    inner: Inner\nclass Inner(BaseModel):\n    size: int\n"
    module = load("from __future__ import annotations\nfrom pydantic import BaseModel\n" + models + PRICE)
    before = fingerprint(module.refund, types=[module.Outer])
    module.Outer(inner=module.Inner(size=1))

    assert before == fingerprint(module.refund, types=[module.Outer])


class Hostile:
    """A proxy that is not bound yet."""

    @property  # type: ignore[misc]  # as lazy proxies do
    def __class__(self) -> Any:
        raise RuntimeError("__class__")


def test_a_proxy_is_not_woken(load: Load) -> None:
    module = load("request = None\n" + CALL.format("request.user"))
    vars(module)["request"] = Hostile()

    assert readable(fingerprint(module.refund))


def test_a_step_needs_no_readable_source(load: Load) -> None:
    load(STEP + "def fetch(x: int) -> int: ...", name="shop_steps", readable=False)
    counter = "class Counter:\n    def __call__(self, x: int) -> int: ...\ncount = step(Counter())\n"
    module = load(STEP.replace("@step", "") + "from shop_steps import fetch\n" + counter + CALL.format("fetch, count"))

    assert readable(fingerprint(module.refund))


@pytest.mark.proves("RPL-12")
def test_dynamic_step_ids_do_not_change_it_with_the_data(load: Load) -> None:
    calls = "def calls(items): return [fetch.keyed(item) for item in items]\n"
    source = STEP + "async def fetch(item: int) -> int: ...\n" + calls + CALL.format("[calls(items) for items in ctx]")
    module = load(source)
    before = fingerprint(module.refund)

    assert len(module.calls(range(3))) == 3
    assert before == fingerprint(module.refund)
    assert len(module.calls(range(300))) == 300
    assert before == fingerprint(module.refund)


# Source that cannot be read


def test_code_without_source_is_the_same_as_nothing_else(load: Load) -> None:
    found = fingerprint(load(PRICE, readable=False).refund)

    assert found == "unreadable:refund"
    assert not readable(found)
    assert not same(found, found)


def test_a_helper_without_source_makes_the_flow_unreadable_and_is_named(load: Load) -> None:
    load("def price(x): return x", name="shop_prices", readable=False)

    assert fingerprint(load("from shop_prices import price\n" + PRICE).refund) == "unreadable:price"


@pytest.mark.parametrize("thing", [len, 3, Hostile, object()])
def test_what_is_no_function_of_an_author_is_unreadable(thing: Any) -> None:
    assert not readable(fingerprint(thing))


@pytest.mark.parametrize(
    "text", ["", PRICE.replace("refund", "other"), PRICE.replace("ctx", "x"), "async def refund(ctx"]
)
def test_source_that_is_no_longer_that_of_the_function_is_unreadable(load: Load, text: str) -> None:
    module = load(PRICE)
    write(str(module.__file__), text)

    assert not readable(fingerprint(module.refund))


def test_an_odd_escape_raises_no_second_warning(load: Load) -> None:
    module = load(PRICE)
    write(str(module.__file__), CALL.format("'\\d'"))

    assert readable(fingerprint(module.refund))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are newer")
def test_type_parameters_are_hints_and_an_alias_is_looked_through(load: Load) -> None:
    flow = "async def refund(ctx):\n    def inner{1}(x): return x\n    return first(inner(1))\n"

    def of(alias: str, parameters: str) -> str:
        source = "type Size = {0} | list[Size]\ndef first{1}(items): return items[0]\n" + flow
        module = load(source.format(alias, parameters))
        return fingerprint(module.refund, types=[module.Size])

    assert readable(of("int", "[T: int]"))
    assert of("int", "[T: int]") == of("int", "") != of("str", "")
