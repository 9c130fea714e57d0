"""README and guides are true: what they type runs, what they show is printed, what they name exists."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loom.core.failures import FAILURE_BYTES_MAX
from loom.driving.writer import QUEUE_BYTES_MAX, QUEUE_EVENTS_MAX
from loom.kernel.fold import EVENTS
from loom.spi.surroundings import IDLE_S, LINGER_MS
from loom.spi.threads import THREADS_MAX
from loom_cli.command_table import ROWS
from loom_cli.exits import ExitCode
from tests.docs import event_table, pages, rule_table
from tests.docs.pages import EXAMPLES, PAGES, ROOT
from tests.forked import Forks
from tests.rows import parse_rows

REFUSALS = ROOT / "docs" / "guide" / "refusals.md"

KILLED = 128 + 9
"""What a shell says of a command that SIGKILL ended."""

NAMES = {page: page.parent.name if page in EXAMPLES else page.stem for page in (*PAGES, *EXAMPLES)}
each_page = pytest.mark.parametrize("page", [pytest.param(page, id=name) for page, name in NAMES.items()])

ON_THEIR_OWN = ("backups", "debugging", "the-command")
"""Pages whose every command is started as a reader starts it, whenever the tests are run; with the slow tests all are."""


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as it is made."""
    place = tmp_path_factory.mktemp("made")
    made = [sys.executable, "-m", "loom_cli", "new", "demo", "--in", str(place)]
    subprocess.run(made, check=True, capture_output=True)
    return place / "demo"


@pytest.fixture
def folder(page: Path, demo: Path, tmp_path: Path) -> Path:
    """Where a page is read: an empty folder for the README, a project of its own for a guide, a copy of an example."""
    if page in EXAMPLES:
        return shutil.copytree(page.parent, tmp_path / "app", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    return tmp_path if page.name == "README.md" else shutil.copytree(demo, tmp_path / "demo")


@each_page
def test_what_a_page_types_runs_and_prints_what_it_shows(
    page: Path, folder: Path, forks: Forks, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shelf = tmp_path_factory.mktemp("shelf")
    acts = list(pages.acts(page.read_text("utf-8"), shelf))

    assert pages.faults(acts, folder, shelf, programs=forks.programs) == []


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=() if name in ON_THEIR_OWN else pytest.mark.slow)
        for page, name in NAMES.items()
    ],
)
@pytest.mark.timeout(550)
def test_it_does_so_where_each_command_is_a_process_that_starts_on_its_own(
    page: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shelf = tmp_path_factory.mktemp("shelf")
    acts = list(pages.acts(page.read_text("utf-8"), shelf))

    assert pages.faults(acts, folder, shelf, timeout_s=500) == []


@each_page
def test_every_python_block_compiles(page: Path) -> None:
    for block in pages.blocks(page.read_text("utf-8")):
        if block.language == "python":
            compile(block.text, f"{page.name}:{block.line}", "exec")


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in pages.LINKING])
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    missing = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", pages.prose(page.read_text("utf-8"))):
        to = page.parent / target if target else page
        if "://" not in target and not (to.exists() and (not anchor or anchor in pages.anchors(to))):
            missing.append(f"{target}#{anchor}")

    assert missing == []


@each_page
def test_every_command_and_option_exists(page: Path) -> None:
    known = {name: pages.options_of(row.module) for name, row in ROWS.items()}
    everywhere = {"--help", "--debug", *pages.ALONE}.union(*known.values())

    unknown = []
    for typed in pages.typed(page.read_text("utf-8")):
        words = re.match(r"loom ([a-z]+)( [a-z]+)?\b", typed)
        two, one = ("".join(words.groups("")), words[1]) if words else ("", "")
        command = two if two in known else one
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", typed))
        if command and command not in known:
            unknown.append(typed)
        allowed = {"--help", "--debug", *known[command]} if command in known else everywhere
        unknown += [f"{option} in {typed}" for option in options - allowed]

    assert unknown == []


@each_page
def test_every_status_exists(page: Path) -> None:
    named = re.findall(r"(?:[Ss]tatus|[Ee]nds? with|[Ee]nded with) (\d+)\b", page.read_text("utf-8"))

    assert set(map(int, named)) <= {*ExitCode, KILLED}


def test_the_readme_is_short_and_is_what_the_package_shows() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 200
    assert 'readme = "README.md"' in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES[1:]])
def test_the_readme_leads_to_every_guide_and_each_is_read_in_minutes(page: Path) -> None:
    assert f"docs/guide/{page.name}" in (ROOT / "README.md").read_text("utf-8")
    assert len(page.read_text("utf-8").splitlines()) <= 160


def test_decisions_are_numbered_without_a_gap_and_each_says_its_own_number() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))[1:]  # the first is the template

    assert [int(page.name[:4]) for page in decisions] == list(range(1, len(decisions) + 1))
    assert [page.name for page in decisions if not page.read_text("utf-8").startswith(f"# {page.name[:4]}: ")] == []


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("durability", f"{QUEUE_EVENTS_MAX:,} events or {QUEUE_BYTES_MAX >> 20} MiB"),
        ("durability", f"up to {IDLE_S * 1000:g} ms"),
        ("effects", f"one of up to {THREADS_MAX} daemon threads"),
        ("failures-and-retries", f"{FAILURE_BYTES_MAX >> 10} KiB at most"),
        ("the-command", f"up to `--wait` seconds ({LINGER_MS // 1000})"),
    ],
)
def test_a_figure_in_a_guide_is_the_code_s(page: str, words: str) -> None:
    assert words in (ROOT / "docs" / "guide" / f"{page}.md").read_text("utf-8")


# The pages' tests can fail

A_LIE = """\
```console
$ echo one; echo two            # ends with 1
$ echo one; echo two
two
one
$ echo took 12ms, 2026-11-30 18:47:38
took 3s, ...
```

```python
import sys
print("spoken")  # written
```
"""


def test_a_page_that_is_not_true_is_found_out(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()

    found = pages.faults(list(pages.acts(A_LIE, shelf)), tmp_path, shelf)

    assert [fault.partition(":")[0] for fault in found] == ["line 2", "line 3", "line 11"]


def test_what_differs_from_run_to_run_is_not_compared() -> None:
    shown = "took 12ms at 2026-11-30 18:47:38.062 --shown=GScOpPmICKY_u5m8JqXubw"

    assert pages.comparable(shown) == pages.comparable("took  3s at 2027-01-01 00:00:00 --shown=nowwG8jPp2Gwj74lYKk_bQ")


# Tables that are made


def test_the_table_of_events_is_the_kernel_s() -> None:
    page = event_table.PAGE.read_text("utf-8")

    assert event_table.with_table(page) == page, "run: python -m tests.docs.event_table"
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE)) >= set(EVENTS)


@pytest.mark.proves("NOT-01", "NOT-03", "NOT-06")
def test_the_table_of_rules_is_the_checker_s() -> None:
    page = rule_table.PAGE.read_text("utf-8")

    assert rule_table.with_table(page) == page
    assert page.count(rule_table.rule_table()) == 1


def test_every_refusal_has_its_reason() -> None:
    rows = [row for row in parse_rows((ROOT / "docs" / "requirements.md").read_text("utf-8")) if row.startswith("NOT-")]
    told = dict(re.findall(r"^\| (NOT-\d+) \| [^|]+ \| ([^|]+) \|$", REFUSALS.read_text("utf-8"), re.MULTILINE))

    assert list(told) == rows
    assert all(len(reason) > 80 for reason in told.values())
