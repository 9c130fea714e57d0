"""`loom gen` without a disk: what sources declare, and the text that lists it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loom.app.registry import DuplicateId
from loom.devtools.codegen import (
    FOLDERS,
    GENERATED,
    KINDS,
    generate,
    is_ours,
    manifest,
    marked,
    plan_generated,
    scan,
)
from loom.devtools.declarations import Scan, SourceInvalid

FLOW = "import loom\n\n\n@loom.flow\nasync def refund(ctx: loom.Context, claim: Claim) -> Outcome: ...\n"


def scanned(**files: str) -> Scan:
    """Scan *files*; `flows__a` stands for `flows/a.py`."""
    return scan({f"{name.replace('__', '/')}.py": text.encode() for name, text in files.items()})


def declaring(kind: str, name: str) -> str:
    """Return a module that declares *name*, in the way of its kind."""
    if kind == "schedule":
        return f"import loom\nfrom flows.a import my_flow\n\n{name} = loom.schedule('{name}', '@daily', my_flow)\n"
    return f"import loom\n\n@loom.{kind}\ndef {name}(): ...\n"


def rows(text: str) -> list[tuple[str, str | None, str]]:
    return [(each.kind, each.id, each.name) for each in scanned(flows__a=text).declared]


# What is found


@pytest.mark.proves("AUT-03")
def test_a_flow_is_listed_with_its_annotations_as_they_are_written() -> None:
    found = scanned(flows__refund=FLOW)

    assert manifest(found.declared) == [
        {
            "kind": "flow",
            "id": "refund",
            "module": "flows.refund",
            "name": "refund",
            "input": "Claim",
            "output": "Outcome",
        }
    ]
    assert found.declared[0].place == "flows/refund.py:5"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import loom\n@loom.step\ndef f(): ...", ("step", "f", "f")),
        ("import loom as l\n@l.tool()\ndef f(): ...", ("tool", "f", "f")),
        ("from loom import step as durable\n@durable(timeout=None)\ndef f(): ...", ("step", "f", "f")),
        ("import loom\n@other\n@loom.step\ndef f(): ...", ("step", "f", "f")),
        ("import loom\n@loom.flow(id='a.b')\nasync def f(ctx): ...", ("flow", "a.b", "f")),
        ("import loom\nID = 'named'\n@loom.flow(id=ID)\nasync def f(ctx): ...", ("flow", "named", "f")),
        ("import loom\ndef f(): ...\ng = loom.step(f)", ("step", "f", "g")),
        ("import loom\ndef f(): ...\ng = loom.step(id='h')(f)", ("step", "h", "g")),
        ("import loom\nasync def f(ctx): ...\ng: loom.Flow = loom.flow(f)", ("flow", "f", "g")),
    ],
)
def test_a_declaration_is_found_however_it_is_spelt(text: str, expected: tuple[str, str, str]) -> None:
    assert rows(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def flow(f): return f\n@flow\nasync def f(ctx): ...",
        "import other as loom\n@loom.flow\nasync def f(ctx): ...",
        "import loom\n@loom.something\ndef f(): ...",
        "from flows.b import f",
        "import loom\nretry = loom.Retry(attempts=3)\nx: int = 3",
        "from .loom import flow\n@flow\nasync def f(ctx): ...",
    ],
)
def test_what_is_no_declaration_is_not_listed(text: str) -> None:
    assert rows(text) == []


def test_quoted_and_missing_annotations_are_told_as_they_are() -> None:
    found = scanned(
        flows__a="import loom\n@loom.flow\nasync def a(ctx, x: 'list[int] | None'): ...\n@loom.flow\nasync def b(ctx): ..."
    )

    assert [(each.input, each.output) for each in found.declared] == [("list[int] | None", None), (None, None)]


def test_an_id_that_is_not_spelt_out_is_listed_but_not_in_the_manifest() -> None:
    found = scanned(flows__a="import loom\n@loom.flow(id=made())\nasync def a(ctx): ...")

    assert manifest(found.declared) == []
    assert "    a,\n" in generate(found.declared)
    assert found.warnings == ("flows/a.py:3: the id of a is not spelt out, so the manifest is without it",)


@pytest.mark.parametrize("body", ["if x:\n    {}", "def make():\n    {}", "class C:\n    {}"])
def test_what_no_import_can_reach_is_told(body: str) -> None:
    inner = "@loom.step\n    def f(): ..."
    found = scanned(flows__a=f"import loom\n{body.format(inner)}")

    assert found.declared == ()
    assert found.warnings == ("flows/a.py:4: f is not at the top level of its module; it is not listed",)


def test_a_module_that_cannot_be_named_is_told() -> None:
    found = scan({"flows/my-flow.py": FLOW.encode(), "tools/class.py": b"import loom\n@loom.step\ndef f(): ..."})

    assert found.declared == ()
    assert found.warnings == (
        "flows/my-flow.py:5: no import can name 'my-flow'; refund is not listed",
        "tools/class.py:3: no import can name 'class'; f is not listed",
    )


@pytest.mark.proves("AUT-15")
def test_one_file_in_each_of_the_seven_folders_is_listed_once_loom_has_its_kind() -> None:
    kinds = {kind: f"{row.constant.lower()}/a.py" for kind, row in KINDS.items() if kind not in {"step", "tool"}}
    kinds["tool"] = "tools/a.py"
    files = {path: declaring(kind, f"my_{kind}").encode() for kind, path in kinds.items()}

    generated = generate(scan(files, kinds=KINDS).declared, kinds=KINDS)

    assert {path.partition("/")[0] for path in files} == set(FOLDERS)
    assert [kind for kind in kinds if f"    my_{kind},\n)\n" not in generated] == []


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"flow", "step", "tool", "schedule"}))
def test_a_kind_that_loom_lacks_is_told_and_one_that_it_has_is_listed(kind: str) -> None:
    files = {f"{KINDS[kind].constant.lower()}/a.py": declaring(kind, "mine").encode()}

    lacking = scan(files, kinds=("flow",))
    having = scan(files, kinds=("flow", kind))

    assert lacking.declared == ()
    assert lacking.warnings == (f"{next(iter(files))}:4: this version of Loom has no @loom.{kind}; mine is not listed",)
    assert f"{KINDS[kind].constant}: Final = (\n    mine,\n)\n" in generate(having.declared, kinds=("flow", kind))


@pytest.mark.proves("AUT-15")
@pytest.mark.parametrize(
    ("call", "id"),
    [
        ("loom.schedule('nightly', '@daily', f)", "nightly"),
        ("loom.schedule(id='nightly', cron='@daily', flow=f)", "nightly"),
        ("loom.schedule(ID, '@daily', f)", "named"),
        ("loom.schedule(f'{ID}-1', '@daily', f)", None),
    ],
)
def test_a_schedule_is_listed_by_its_id_which_comes_first(call: str, id: str | None) -> None:
    found = scanned(schedules__a=f"import loom\nID = 'named'\nn = {call}\n")

    assert [(each.kind, each.id, each.name) for each in found.declared] == [("schedule", id, "n")]
    assert "SCHEDULES: Final[tuple[loom.Schedule, ...]] = (\n    n,\n)\n" in generate(found.declared)
    assert bool(found.warnings) is (id is None)


@pytest.mark.parametrize("text", ["ALL = [{}]", "{}", "def make():\n    return {}", "register({})"])
def test_a_schedule_without_a_name_is_told(text: str) -> None:
    call = "loom.schedule('nightly', '@daily', f)"
    found = scanned(schedules__a=f"import loom\n{text.format(call)}\n")

    assert found.declared == ()
    [told] = found.warnings
    assert "a schedule is not assigned to a name at the top level of its module; it is not listed" in told


# What is refused


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (b"x = 1\ndef f(:\n", 2),
        (b"x = '\xff'\n", 1),
        (b"x = 1\n\x00", 1),
        (b"(" * 500, 1),
    ],
)
def test_what_is_not_python_is_refused_with_its_file_and_line(source: bytes, line: int) -> None:
    with pytest.raises(SourceInvalid) as caught:
        scan({"flows/a.py": FLOW.encode(), "flows/bad.py": source})

    assert caught.value.path == "flows/bad.py"
    assert str(caught.value).startswith(f"flows/bad.py:{line}: ")


def test_an_escape_that_python_warns_of_is_not_our_business() -> None:
    assert len(scanned(flows__a=FLOW + 'x = "\\d"\n').declared) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [("flow", "flow"), ("step", "step"), ("step", "tool")],
)
def test_two_of_one_id_are_refused_with_both_places(first: str, second: str) -> None:
    files = {
        f"flows__{name}": f"import loom\n@loom.{kind}(id='x')\nasync def {name}(ctx): ..."
        for name, kind in [("a", first), ("b", second)]
    }

    with pytest.raises(DuplicateId, match=r"flows/[ab]\.py:3 and flows/[ab]\.py:3"):
        scanned(**files)


def test_a_flow_and_a_step_may_have_one_id() -> None:
    text = "import loom\n@loom.{}(id='x')\nasync def {}(ctx): ..."

    assert len(scanned(flows__a=text.format("flow", "a"), flows__b=text.format("step", "b")).declared) == 2


# What is generated


def test_the_same_sources_in_any_order_give_the_same_text() -> None:
    files = {"flows/a.py": FLOW.encode(), "tools/b.py": b"import loom\n@loom.tool\ndef b(): ...\n"}

    assert generate(scan(files).declared) == generate(scan(dict(reversed(files.items()))).declared)


def test_a_name_that_two_modules_have_is_spelt_with_its_module() -> None:
    text = "import loom\n@loom.flow(id='{0}')\nasync def run(ctx): ..."
    generated = generate(scanned(flows__a=text.format("a"), flows__b=text.format("b")).declared)

    assert "from flows.a import (\n    run as flows__a__run,\n)\n" in generated
    assert "    flows__a__run,\n    flows__b__run,\n)\n" in generated


@pytest.mark.parametrize("name", ["loom", "Any", "FLOWS", "MANIFEST", "annotations"])
def test_a_name_that_the_module_itself_needs_is_spelt_with_its_module(name: str) -> None:
    generated = generate(scanned(flows__a=f"import loom as l\n@l.flow\nasync def {name}(ctx): ...").declared)

    assert f"    {name} as flows__a__{name},\n" in generated


def test_an_empty_project_gives_an_empty_module() -> None:
    names: dict[str, Any] = {}
    exec(generate(()), names)

    assert (names["FLOWS"], names["STEPS"], names["MANIFEST"]) == ((), (), [])


def test_any_text_of_an_author_comes_through() -> None:
    found = scanned(flows__a="import loom\n@loom.flow\nasync def a(ctx, x: 'Literal[\"ä\\\\n\\ud800\"]'): ...")

    generated = generate(found.declared)
    written = ast.literal_eval(generated.encode().decode().partition("MANIFEST: Final[list[dict[str, Any]]] = ")[2])

    assert written == manifest(found.declared)


@pytest.mark.parametrize("width", ["60", "88", "200"])
def test_a_formatter_finds_nothing_to_change(width: str) -> None:
    text = "import loom\n@loom.flow(id='{0}')\nasync def run(ctx, x: {1}): ..."
    long = "dict[str, " * 20 + "int" + "]" * 20
    found = scanned(flows__a=text.format("a", long), flows__b=text.format("b", "int"), **{"flows__" + "x" * 90: FLOW})

    for generated in (generate(found.declared), generate(())):
        bare = "".join(line for line in generated.splitlines(True) if not line.startswith("# fmt"))
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", "--line-length", width, "-"],
            input=bare, capture_output=True, text=True, check=False,
        )  # fmt: skip

        assert (done.returncode, done.stdout) == (0, "")


# Whose file it is


def test_a_generated_file_is_known_by_its_first_line_whatever_its_line_ends() -> None:
    text = generate(())

    assert is_ours(text)
    assert is_ours(text.replace("\n", "\r\n"))
    assert is_ours("\ufeff" + text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        generate(()) + "x = 1\n",
        generate(()).replace("FLOWS", "FLOWs"),
        "\n" + generate(()),
        generate(()).partition("\n")[2],
    ],
)
def test_a_file_that_a_hand_has_touched_is_not_ours(text: str) -> None:
    assert not is_ours(text)


def test_a_file_of_ours_is_brought_up_to_date() -> None:
    planned = plan_generated(scanned(flows__a=FLOW).declared, generate(()))

    assert planned.action == "write"
    assert "+    refund,\n" in planned.diff


def test_a_file_of_ours_keeps_its_line_ends() -> None:
    declared = scanned(flows__a=FLOW).declared

    assert plan_generated(declared, generate(()).replace("\n", "\r\n")).text == generate(declared).replace("\n", "\r\n")
    assert plan_generated(declared, generate(declared).replace("\n", "\r\n")).action == "unchanged"


def test_an_edited_file_is_kept_unless_forced() -> None:
    edited = generate(()) + "mine = 1\n"

    assert plan_generated((), edited).action == "conflict"
    assert "-mine = 1\n" in plan_generated((), edited).diff
    assert plan_generated((), edited, force=True).action == "write"


def test_a_new_file_has_a_diff_as_well() -> None:
    assert "+FLOWS:" in plan_generated((), None).diff


def test_the_mark_is_the_digest_of_the_rest() -> None:
    assert marked("x\n") != marked("y\n")
    assert is_ours(marked("x\n"))


@pytest.mark.proves("PRN-07")
def test_scanning_imports_and_runs_nothing() -> None:
    assert len(scanned(flows__a=f"raise SystemExit('ran')\n{FLOW}").declared) == 1
    assert GENERATED.removesuffix(".py") not in sys.modules
    assert not Path(GENERATED).exists()
