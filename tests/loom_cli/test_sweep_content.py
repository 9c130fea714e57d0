"""`loom sweep content` and `loom content get`: what they remove, write and say; and how an envelope is shown."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loom.core.retention import retention_policy
from loom.services.ageing import SweepTally
from loom.spi.content_store import address_of
from loom_cli import content_sweep
from loom_cli.commands.content_get import about
from loom_cli.content_places import before_all
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.readable import readable
from loom_cli.sweeping import BY_WORDS, KEPT_WORDS, SweepPass, content_ttl_of, size_words, sweep_json, sweep_lines
from tests.loom_cli.projects import Ended, loom, tree

APP = """
from datetime import timedelta

import loom


@loom.step(claim_check=loom.ClaimCheck(over_bytes=100, digest=len))
async def fetch(name: str) -> bytes:
    return (name * 500).encode()


@loom.flow
async def fetches(ctx: loom.Context, name: str) -> int:
    page = await ctx.run(fetch, name)
    return page.digest


@loom.flow
async def waits(ctx: loom.Context, name: str) -> int:
    page = await ctx.run(fetch, name)
    await ctx.suspend("go on")
    return page.digest


class Pins:
    async def pinned_runs(self, executions):
        return [run for run in executions if run == "pinned"]

    async def pinned_contents(self, refs):
        return []


POLICY = loom.retention_policy(terminal_ttl=timedelta(days=30), content=timedelta(days=60), pins=Pins())
LOGS_ONLY = loom.retention_policy(terminal_ttl=timedelta(days=30))
app = loom.define_config(flows=[fetches, waits], storage=loom.sqlite_storage())
"""


def name_of(text: str) -> str:
    return address_of((text * 500).encode())


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the app alone, as the working folder; its modules are forgotten afterwards."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in ("app", "elsewhere"):
        sys.modules.pop(name, None)


@pytest.fixture
def folder(bare: Path) -> Path:
    for flow, run, status in [
        ("fetches", "old", 0),
        ("fetches", "pinned", 0),
        ("waits", "waits", 3),
        ("fetches", "young", 0),
    ]:
        assert loom("run", flow, "--input", f'"{run}"', "--id", run, "--quiet", folder=bare).status == status
    age(bare, "old", "pinned", "waits", days=100)
    return bare


def age(folder: Path, *runs: str, days: int) -> None:
    """Have *runs* ended, and their contents put and cited, so many *days* ago."""
    at = time.time_ns() // 1_000_000 - days * 24 * 3_600_000
    with closing(sqlite3.connect(folder / ".loom" / "loom.db")) as raw, raw:
        raw.executemany("UPDATE executions SET updated_at = ? WHERE id = ?", [(at, run) for run in runs])
    for run in runs:
        file = folder / ".loom" / "loom.db.content" / name_of(run)[:2] / name_of(run)
        cited = file.with_name(f"{file.name}.cited")
        cited.write_text(f'{{"id":"{run}","life":{lives(folder)[run]},"at":{at}}}\n', encoding="utf-8")
        os.utime(file, ns=(at * 1_000_000, at * 1_000_000))


def lives(folder: Path) -> dict[str, int]:
    with closing(sqlite3.connect(folder / ".loom" / "loom.db")) as raw:
        return dict(raw.execute("SELECT id, run FROM executions"))


def there(folder: Path) -> set[str]:
    files = tree(folder / ".loom" / "loom.db.content")
    return {run for run in ("old", "pinned", "waits", "young") if f"{name_of(run)[:2]}/{name_of(run)}" in files}


def sweep(folder: Path, *options: str) -> Ended:
    return loom("sweep", "content", *options, folder=folder)


@pytest.mark.proves("CLI-18", "LIF-15", "LIF-16")
def test_a_dry_run_says_what_the_real_one_does(folder: Path) -> None:
    before = tree(folder / ".loom" / "loom.db.content")

    dry = sweep(folder, "--policy", "app:POLICY", "--dry-run", "--json")
    after = tree(folder / ".loom" / "loom.db.content")
    real = sweep(folder, "--policy", "app:POLICY", "--json")

    assert (dry.status, real.status) == (0, 0)
    assert before == after
    said = dry.json
    assert real.json == said | {"dry_run": False, "clock_before_at": real.json["clock_before_at"]}
    assert said["removed"] == {
        "contents": 1,
        "bytes": 1_500,
        "uncited": 0,
        "refs_aged_by_citation": 1,
        "refs_aged_by_end": 0,
        "refs_of_reopened": 0,
    }
    assert said["kept"] == {"open": 1, "young": 1, "held_by_end_clock": 0, "kept_by_touch": 0, "pinned": 1}
    assert there(folder) == {"pinned", "waits", "young"}


@pytest.mark.proves("CLI-18")
def test_it_says_what_it_did_in_words_and_replay_goes_on(folder: Path) -> None:
    done = sweep(folder, "--ttl", "60d")

    lines = done.out.splitlines()
    assert lines[0].startswith("removed 2 contents (4.5 KB) whose clock started before ")
    assert lines[1] == "  2 by the time of the citation"
    assert sorted(lines[2:]) == [
        "kept 1: a run that cites it has not ended",
        "kept 1: it was cited, or put, not so long ago",
    ]
    assert there(folder) == {"waits", "young"}
    assert loom("replay", "old", folder=folder).status == 0
    assert loom("resume", "waits", "--answer", "null", "--quiet", folder=folder).status == 0
    assert sweep(folder, "--ttl", "60d").out.startswith("nothing to remove: of 2 contents in files:")


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ([], 2, "how long is a content kept?"),
        (["--policy", "app:LOGS_ONLY"], 2, "the policy says nothing of contents"),
        (["--policy", "app:app"], 2, "no retention policy"),
        (["--policy", "app:nothing"], 2, "has no 'nothing'"),
        (["--ttl", "5s"], 2, "shorter than a minute"),
        (["--ttl", "60d", "--store", "elsewhere.db"], 4, "there is no database"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_removes_nothing(
    folder: Path, options: list[str], status: int, told: str
) -> None:
    done = sweep(folder, *options)

    assert done.status == status
    assert told in done.err
    assert there(folder) == {"old", "pinned", "waits", "young"}


def test_without_contents_there_is_nothing_to_remove(bare: Path) -> None:
    loom("run", "fetches", "--input", '""', "--quiet", folder=bare)

    done = sweep(bare, "--ttl", "60d")

    assert done.out.startswith("nothing to remove: no content in files:")
    assert not (bare / ".loom" / "loom.db.content").exists()


def test_an_app_that_keeps_its_contents_elsewhere_is_asked_for_them(folder: Path) -> None:
    text = APP.replace(
        "storage=loom.sqlite_storage()", 'storage=loom.sqlite_storage(), content=loom.file_content("big")'
    )
    (folder / "elsewhere.py").write_text(text.replace('"big"', f'"{folder}/big"'), encoding="utf-8")
    run = ["run", "fetches", "--input", '"big"', "--id", "big", "--quiet", "--app", "elsewhere:app"]
    assert loom(*run, folder=folder).status == 0

    done = sweep(folder, "--ttl", "60d", "--app", "elsewhere:app", "--json")

    assert (done.json["store"], done.json["looked_at"]) == (f"files:{folder}/big", 1)
    assert there(folder) == {"old", "pinned", "waits", "young"}
    assert loom("content", "get", name_of("big"), "--app", "elsewhere:app", folder=folder).out == "big" * 500
    assert loom("content", "get", name_of("big"), folder=folder).status == ExitCode.NOT_FOUND


def test_ctrl_c_ends_it_between_two_pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loom.services.sweeping.PAGE", 1)
    tell = content_sweep.SweepRun._tell

    def interrupted(self: Any, tally: SweepTally) -> None:
        tell(self, tally)
        if tally.looked_at == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(content_sweep.SweepRun, "_tell", interrupted)

    done = sweep(folder, "--ttl", "60d", "--json")

    assert done.status == ExitCode.INTERRUPTED
    assert (done.json["interrupted"], done.json["looked_at"]) == (True, 2)
    assert "stopping after this page" in done.err


# What it says


def test_every_clock_and_every_reason_has_words() -> None:
    from typing import get_args

    from loom.services.ageing import By, Why

    assert set(KEPT_WORDS) == set(get_args(Why))
    assert set(BY_WORDS) == set(get_args(By))


def test_the_shape_and_the_lines_of_a_sweep() -> None:
    tally = SweepTally(looked_at=9, removed=3, bytes=4_600_000, forgotten=2, tidied=1)
    tally.by.update({"end": 2, "reopened": 1})
    tally.kept.update({"held_by_end_clock": 4, "kept_by_touch": 2})
    done = SweepPass("files:/x", timedelta(days=60), 7, True, tally)

    assert sweep_json(done)["removed"]["refs_aged_by_end"] == 2
    assert sweep_json(done)["kept"]["held_by_end_clock"] == 4
    assert (sweep_json(done)["forgotten"], sweep_json(done)["tidied"]) == (2, 1)
    assert sweep_lines(done) == [
        "would remove 3 contents (4.6 MB) whose clock started before 1970-01-01 00:00:00 in files:/x",
        "  2 by the end of the run",
        "  1 by the time of the citation, by runs that were retried and ended not so long ago",
        "kept 4: a run that cites it ended not so long ago",
        "kept 2: somebody has put or cited it meanwhile",
        "tidied away 1 put that had been cut off",
    ]


def test_how_long_contents_are_kept() -> None:
    policy = retention_policy(terminal_ttl=timedelta(days=30), content=timedelta(days=60))

    assert content_ttl_of(policy, None) == timedelta(days=60)
    assert content_ttl_of(policy, timedelta(days=1)) == timedelta(days=1)
    with pytest.raises(Usage):
        content_ttl_of(None, None)


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1_500, "1.5 KB"), (2_147_483_648, "2.1 GB")]
)
def test_a_size_in_words(size: int, words: str) -> None:
    assert size_words(size) == words


# A content itself


def test_a_content_is_printed_or_written_to_a_new_file(folder: Path) -> None:
    ref = name_of("old")

    printed = loom("content", "get", ref[:8], folder=folder)
    written = loom("content", "get", ref, "-o", "page", folder=folder)
    again = loom("content", "get", ref, "-o", "page", folder=folder)

    assert (printed.status, printed.out) == (0, "old" * 500)
    assert (written.status, written.out, written.err) == (0, "", f"1.5 KB in {folder / 'page'}\n")
    assert (folder / "page").read_text() == "old" * 500
    assert (again.status, "is there already" in again.err) == (ExitCode.USAGE, True)


def test_what_is_known_of_a_content(folder: Path) -> None:
    done = loom("content", "get", name_of("young"), "--json", folder=folder)

    [citation] = done.json.pop("cited_by")
    assert (done.json["ref"], done.json["size"]) == (name_of("young"), 2_500)
    assert (citation["execution"], citation["incarnation"]) == ("young", lives(folder)["young"])


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["f" * 64], ExitCode.NOT_FOUND, "is not there"),
        (["../../etc/passwd"], ExitCode.USAGE, "is no address of a content"),
        (["A" * 64], ExitCode.USAGE, "is no address of a content"),
        (["0" * 65], ExitCode.USAGE, "is no address of a content"),
        (["0", "--json", "-o", "page"], ExitCode.USAGE, "Leave one of them"),
        (["f" * 64, "-o", "no/such/folder"], ExitCode.USAGE, "cannot be written"),
    ],
)
def test_a_content_that_cannot_be_had_is_told(folder: Path, arguments: list[str], status: ExitCode, told: str) -> None:
    done = loom("content", "get", *arguments, folder=folder)

    assert (done.status, told in done.err) == (status, True), done
    assert not (folder / "page").exists()


def test_a_content_that_is_no_text_and_a_beginning_that_two_share(folder: Path) -> None:
    from loom.plugins.files import FileContent

    contents = FileContent(folder / ".loom" / "loom.db.content")
    ref = asyncio.run(contents.put(b"\xff\xfe\x00"))
    shared = sorted(name_of(f"{number}") for number in range(40))
    for number in range(40):
        asyncio.run(contents.put((f"{number}" * 500).encode()))
    two = next(one[:1] for one, other in pairwise(shared) if one[:1] == other[:1])

    binary = loom("content", "get", ref, folder=folder)
    ambiguous = loom("content", "get", two, folder=folder)

    assert (binary.status, "is no text" in binary.err) == (ExitCode.USAGE, True)
    assert (ambiguous.status, "fits more than one content" in ambiguous.err) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("0", ""),
        ("0" * 64, ""),
        ("1", "0" + "f" * 63),
        ("a0", "9f" + "f" * 62),
        ("f" * 64, "f" * 63 + "e"),
    ],
)
def test_what_comes_before_all_that_begin_so(text: str, before: str) -> None:
    assert before_all(text) == before
    assert before < text


def test_who_cites_is_told_by_time() -> None:
    from loom.core.ids import ExecutionId, Incarnation
    from loom.spi.content_store import Citation, Citer, Content

    ref = address_of(b"")
    citations = [
        Citation(ref, Citer(ExecutionId("b"), None), 5),
        Citation(ref, Citer(ExecutionId("a"), Incarnation(1)), 9),
    ]

    assert [each["execution"] for each in about(Content(ref, 0, 9), citations)["cited_by"]] == ["b", "a"]


# How an envelope is shown


def test_an_envelope_is_shown_with_its_digest_first() -> None:
    ref = "0" * 64
    kept = {"$claimed": {"ref": ref, "size": 5, "form": "json", "digest": {"$tuple": [1, {"$decimal": "1.50"}]}}}
    inline = {"$claimed": {"size": 5, "form": "json", "inline": {"$type": "app:Page", "value": {"title": "Ada"}}}}

    assert readable(kept) == {"digest": [1, "1.50"], "size": 5, "ref": ref}
    assert list(readable(kept)) == ["digest", "size", "ref"]
    assert readable(inline) == {"inline": {"title": "Ada"}}


def test_show_and_logs_show_where_a_large_result_is(folder: Path) -> None:
    shown = loom("show", "young", "fetch", folder=folder)
    logged = loom("logs", "young", folder=folder)

    assert f'result  {{"digest": 2500, "size": 2500, "ref": "{name_of("young")}"}}' in shown.out
    assert f'"ref": "{name_of("young")}"' in logged.out
