"""Twenty kinds of harmless edits of a flow in a package of its own, and twenty kinds of harmful ones, each by its name."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from loom.fingerprint import fingerprint, readable, same

PACKAGE: Final = {
    "shop/__init__.py": "",
    "shop/kinds.py": """
import dataclasses
import enum


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Order:
    id: str
    amount: int
    size: Size = Size.SMALL


@dataclasses.dataclass
class Answer:
    approved: bool
    reason: str = ""
""",
    "shop/helpers.py": """
import math

RATE = 0.2


def tax(amount: int) -> int:
    \"\"\"Return the tax.\"\"\"
    return math.floor(amount * RATE)
""",
    "shop/flows.py": """
import json
import math
import loom
from shop.helpers import tax
from shop.kinds import Answer, Order

LIMIT = 100


@loom.step
async def book(id: str, copies: int = 1) -> str:
    return id


@loom.step(idempotent=False, retry=loom.Retry(attempts=2))
async def pay(order: Order) -> str:
    return "paid"


@loom.flow
async def refund(ctx: loom.Context, order: Order) -> str:
    \"\"\"Pay it back.\"\"\"
    total = order.amount + tax(order.amount)
    if total > LIMIT:
        answer = await ctx.suspend("approval", expects=Answer)
        if not answer.approved:
            return "refused"
    booked = await ctx.run(book, order.id)
    paid = await ctx.run(pay, order)
    return json.dumps([booked, paid])
""",
}

FLOWS, HELPERS, KINDS = "shop/flows.py", "shop/helpers.py", "shop/kinds.py"
BOTH_CALLS: Final = "    booked = await ctx.run(book, order.id)\n    paid = await ctx.run(pay, order)\n"

HARMLESS: Final = {
    "a comment": (FLOWS, "    total =", "    # with tax\n    total ="),
    "blank lines": (FLOWS, "    booked =", "\n\n    booked ="),
    "line breaks": (FLOWS, "ctx.run(book, order.id)", "ctx.run(\n        book,\n        order.id,\n    )"),
    "parentheses": (FLOWS, "if total > LIMIT:", "if (total > (LIMIT)):"),
    "quotes": (FLOWS, '"approval"', "'approval'"),
    "a docstring": (FLOWS, '"""Pay it back."""', '"""Give the money back."""'),
    "the docstring of a helper": (HELPERS, '"""Return the tax."""', '"""How much it is."""'),
    "a hint inside the body": (FLOWS, "total = order", "total: int = order"),
    "reordered imports": (FLOWS, "import json\nimport math\n", "import math\nimport json\n"),
    "an unused import": (FLOWS, "import math\n", "import math\nimport heapq\n"),
    "the path of an import": (FLOWS, "from shop.helpers import tax", "from .helpers import tax"),
    "the name of an import": (FLOWS, "import json\n", "import json as json_\n"),
    "a renamed module": ("shop/helpers.py -> shop/taxes.py", "from shop.helpers", "from shop.taxes"),
    "a renamed constant": (FLOWS, "LIMIT", "MOST"),
    "a renamed helper": ("shop/helpers.py", "tax(", "duty("),
    "the body of a step": (FLOWS, '    return "paid"', '    print(order)\n    return "paid"'),
    "the retries of a step": (FLOWS, "attempts=2", "attempts=5"),
    "a number written otherwise": (FLOWS, "LIMIT = 100", "LIMIT = 0x64"),
    "a constant worked out": (FLOWS, "LIMIT = 100", "LIMIT = 99 + 1"),
    "another flow beside it": (
        FLOWS,
        "@loom.flow\n",
        "@loom.flow\nasync def other(ctx: loom.Context) -> None: ...\n\n\n@loom.flow\n",
    ),
    "a method of a type": (
        KINDS,
        '    reason: str = ""\n',
        '    reason: str = ""\n\n    def no(self): return not self.approved\n',
    ),
}

HARMFUL: Final = {
    "a constant": (FLOWS, "LIMIT = 100", "LIMIT = 1000"),
    "a constant of a helper": (HELPERS, "RATE = 0.2", "RATE = 0.19"),
    "a helper": (HELPERS, "math.floor", "math.ceil"),
    "an operator": (FLOWS, "total > LIMIT", "total >= LIMIT"),
    "a literal": (FLOWS, '"refused"', '"rejected"'),
    "the order of two calls": (FLOWS, BOTH_CALLS, "".join(reversed(BOTH_CALLS.splitlines(keepends=True)))),
    "a call more": (FLOWS, "    paid =", "    await ctx.sleep(1)\n    paid ="),
    "a call less": (FLOWS, "    booked = await ctx.run(book, order.id)\n", "    booked = order.id\n"),
    "another step": (FLOWS, "ctx.run(pay, order)", "ctx.run(book, order.id)"),
    "another argument": (FLOWS, "ctx.run(book, order.id)", "ctx.run(book, order.id, 2)"),
    "the name of a gate": (FLOWS, '"approval"', '"sign-off"'),
    "the type of an answer": (FLOWS, "expects=Answer", "expects=Order"),
    "a branch the other way": (FLOWS, "if not answer.approved", "if answer.approved"),
    "a parameter of a step": (FLOWS, "id: str, copies: int = 1", "id: str, copies: int = 1, fast: bool = False"),
    "the hint of a step's parameter": (FLOWS, "book(id: str,", "book(id: int,"),
    "the result of a step": (FLOWS, "copies: int = 1) -> str", "copies: int = 1) -> bytes"),
    "a default of a step": (FLOWS, "copies: int = 1", "copies: int = 2"),
    "that a step may run twice": (FLOWS, "idempotent=False, ", ""),
    "the id of a step": (FLOWS, "@loom.step\n", '@loom.step(id="book_it")\n'),
    "a field of the input": (KINDS, "    amount: int\n", "    amount: float\n"),
    "a default of a field": (KINDS, "Size = Size.SMALL", "Size = Size.LARGE"),
    "a field of an answer": (KINDS, "    approved: bool\n", "    approved: bool\n    by: str\n"),
    "a member of an enum": (KINDS, 'LARGE = "l"', 'LARGE = "xl"'),
}


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name == "shop" or name.startswith("shop.")]:
        del sys.modules[name]
    linecache.checkcache()


def edited(file: str, old: str, new: str) -> dict[str, str]:
    """Return the package once *old* is *new* in *file*; a file that is renamed, or a name, is so wherever it is used."""
    files = dict(PACKAGE)
    if " -> " in file:
        before, after = file.split(" -> ")
        files[after] = files.pop(before)
    everywhere = " -> " in file or new == "duty("
    for name, text in files.items():
        if everywhere or name == file:
            files[name] = text.replace(old, new)
    if old == "import json\n":
        files[FLOWS] = files[FLOWS].replace("json.dumps", "json_.dumps")
    if new == "duty(":
        files[FLOWS] = files[FLOWS].replace("import tax", "import duty")
    assert files != PACKAGE
    return files


def fingerprint_of(files: dict[str, str], folder: Path) -> str:
    """Return the fingerprint of the flow, as a process that finds these *files* has it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _forget()
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    flow = importlib.import_module("shop.flows").refund
    found = fingerprint(flow.fn, types=flow.hints())
    sys.path.remove(str(folder))
    return found


def test_there_are_twenty_kinds_of_each() -> None:
    assert min(len(HARMLESS), len(HARMFUL)) >= 20


@pytest.mark.proves("RPL-06", "RPL-07")
@pytest.mark.parametrize(
    ("kind", "is_same"), [*((each, True) for each in HARMLESS), *((each, False) for each in HARMFUL)]
)
def test_an_edit_counts_if_it_can_change_what_a_run_does(kind: str, is_same: bool, tmp_path: Path) -> None:
    before = fingerprint_of(PACKAGE, tmp_path / "before")
    after = fingerprint_of(edited(*(HARMLESS | HARMFUL)[kind]), tmp_path / "after")

    assert readable(before)
    assert readable(after)
    assert same(before, after) is is_same
