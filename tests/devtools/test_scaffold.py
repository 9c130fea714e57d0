"""Scaffolding decides by values: which names are refused, what templates become, what a plan would overwrite."""

from __future__ import annotations

import jinja2
import pytest

from loom.devtools import scaffold
from loom.devtools.codegen import GENERATED, is_ours
from loom.devtools.projects import is_scanned, new_item, new_project
from loom.devtools.scaffold import NameRefused, always, item_name, plan, project_name, render

pytestmark = pytest.mark.proves("CLI-16")


# Names


@pytest.mark.parametrize("name", ["demo", "refund-desk", "refund_desk", "Desk2", "x"])
def test_a_plain_word_names_a_project(name: str) -> None:
    assert project_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("../x", "path"),
        ("..", "path"),
        (".", "path"),
        ("/tmp/x", "path"),
        ("a\\b", "path"),
        ("C:\\x", "path"),
        ("a" * 81, "longer"),
        (".hidden", "letter"),
        ("-x", "letter"),
        ("9lives", "letter"),
        ("two words", "letter"),
        ("tail-", "letter"),
        ("größe", "ASCII"),
        ("x\n", "letter"),
        ("class", "Python language"),
        ("None", "Python language"),
        ("true", "Python language"),
        ("json", "standard library"),
        ("JSON", "standard library"),
        ("test", "standard library"),
        ("loom", "Loom's own"),
        ("loom-runtime", "Loom's own"),
        ("pydantic", "library that the project needs"),
        ("con", "Windows"),
    ],
)
def test_a_name_that_would_do_harm_is_refused_in_words(name: str, reason: str) -> None:
    with pytest.raises(NameRefused, match=reason):
        project_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Refund", "lower-case"),
        ("refund-order", "lower-case"),
        ("../x", "lower-case"),
        ("", "lower-case"),
        ("_x", "lower-case"),
        ("x" * 81, "longer"),
        ("class", "Python language"),
        ("list", "builtin"),
        ("loom", "Loom's own"),
    ],
)
def test_an_item_needs_a_name_that_python_takes(name: str, reason: str) -> None:
    with pytest.raises(NameRefused, match=reason):
        item_name("flow", name)


# Templates


def test_a_template_names_its_file_and_keeps_its_last_line_end() -> None:
    files = render({"flows/{{ name }}.py.jinja": "x = '{{ name }}'\n"}, {"name": "refund"})

    assert files == {"flows/refund.py": "x = 'refund'\n"}


def test_a_value_that_is_missing_is_an_error_and_no_empty_text() -> None:
    with pytest.raises(jinja2.UndefinedError, match="nobody"):
        render({"a.jinja": "{{ nobody }}"}, {})


def test_a_new_project_brings_its_generated_module() -> None:
    templates = {
        "flows/hello.py.jinja": "import loom\n\n\n@loom.flow\nasync def hello(ctx: loom.Context) -> None: ...\n"
    }

    files = new_project("demo", templates, loom_version="1.2.3")

    assert sorted(files) == ["flows/hello.py", GENERATED]
    assert is_ours(files[GENERATED])
    assert "from flows.hello import (\n    hello,\n)\n" in files[GENERATED]


def test_an_item_whose_id_is_taken_is_refused_with_the_place() -> None:
    templates = {"flows/{{ name }}.py.jinja": "import loom\n\n\n@loom.flow\nasync def {{ name }}(ctx): ...\n"}
    files = new_item("flow", "refund", templates)
    declared = new_project("demo", {f"{path}.jinja": text for path, text in files.items()}, loom_version="1")
    assert declared

    from loom.devtools.codegen import scan

    taken = scan({"flows/other.py": b"import loom\n\n@loom.flow(id='refund')\nasync def other(ctx): ...\n"}).declared

    with pytest.raises(NameRefused, match=r"flows/other\.py:4"):
        new_item("flow", "refund", templates, declared=taken)


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("flows/a.py", True),
        ("flows/__init__.py", True),
        ("flows/deep/er/a.py", True),
        ("agents/a.py", True),
        ("elsewhere/a.py", False),
        ("flows.py", False),
        ("flows", False),
        ("flows/a.txt", False),
        ("flows/test_a.py", False),
        ("flows/conftest.py", False),
        ("flows/.a.py", False),
        ("flows/.hidden/a.py", False),
        ("flows/__pycache__/a.py", False),
    ],
)
def test_gen_reads_the_python_of_the_convention_folders(path: str, is_read: bool) -> None:
    assert is_scanned(path) is is_read


# Plans


def test_a_new_file_is_written_and_an_equal_one_is_left() -> None:
    planned = plan({"b": "two\n", "a": "one\n"}, {"b": "two\n"})

    assert [(each.path, each.action) for each in planned] == [("a", "write"), ("b", "unchanged")]


def test_a_file_of_somebody_is_a_conflict_with_the_difference() -> None:
    [planned] = plan({"a": "one\ntwo\n"}, {"a": "one\n2\n"})

    assert planned.action == "conflict"
    assert planned.diff.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " one", "-2", "+two"]


def test_what_is_replaceable_is_written() -> None:
    [planned] = plan({"a": "new\n"}, {"a": "old\n"}, replaceable=always)

    assert (planned.action, planned.text) == ("write", "new\n")


def test_line_ends_are_kept_and_are_no_difference() -> None:
    [same] = plan({"a": "one\ntwo\n"}, {"a": "one\r\ntwo\r\n"})
    [other] = plan({"a": "one\ntwo\n"}, {"a": "one\r\n"}, replaceable=always)

    assert (same.action, same.text) == ("unchanged", "one\r\ntwo\r\n")
    assert other.text == "one\r\ntwo\r\n"
    assert "\r" not in other.diff


def test_nothing_here_touches_the_disk() -> None:
    assert not {"os", "pathlib", "shutil", "tempfile"} & set(vars(scaffold))
