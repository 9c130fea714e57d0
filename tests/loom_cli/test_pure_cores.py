"""Behind each command stands a function that is given values and returns values: no file, no network, no process."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

import loom_cli
from loom.coordination.live_query import Change
from loom.coordination.subscribing import RunEvent
from loom.core.errors import LoomError
from loom.core.facts import ExecutionMigrated
from loom.core.flow import flow
from loom.core.ids import ExecutionId, Incarnation
from loom.core.outcome import outcome_of
from loom.core.schedule import schedule
from loom.core.views import open_gates
from loom.devtools.checking.checker import check
from loom.devtools.codegen import generate, scan
from loom.devtools.conformance.running import KITS, names_of
from loom.devtools.deploying import report_of
from loom.devtools.dst.invariants import Breach
from loom.devtools.dst.schedule import Schedule
from loom.devtools.dst.searching import Finding, Report
from loom.devtools.dst.telling import report_json
from loom.devtools.graphing.reading import shape_of
from loom.devtools.projects import new_project
from loom.driving.addressing import decision_meant, doubt_meant, gate_meant
from loom.driving.loading import load
from loom.driving.migrating import Migration
from loom.driving.promoting import Promotion
from loom.driving.replaying import Replayed
from loom.driving.retrying import retried
from loom.driving.snapshots import snapshot_of
from loom.driving.stored_log import StoredLog
from loom.driving.verdicts import Verdict
from loom.lenses.branches import tree
from loom.lenses.comparing import compare
from loom.lenses.execution import execution_view
from loom.lenses.folding import event_json, fold_at
from loom.lenses.inbox import inbox_view
from loom.lenses.proving import proof_of
from loom.lenses.shapes import gate_json
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.copying import Copied
from loom.services.ageing import SweepTally
from loom.services.compacting import Compacted
from loom.services.expiry import Tally
from loom.services.reindexing import Became
from loom.spi import ExecutionRow, ModelRow, RefMove, Request
from loom_cli.branches import move_rows, promotion_words
from loom_cli.command_table import ROWS
from loom_cli.commands.doctor import contracts
from loom_cli.commands.tail import tail_json
from loom_cli.compacting import compacted_json
from loom_cli.content_places import before_all
from loom_cli.copies import copied_json
from loom_cli.files import template_files
from loom_cli.forks import fork_json
from loom_cli.hints import Hints
from loom_cli.linking import link_for
from loom_cli.live import state_line
from loom_cli.migrations import migration_rows
from loom_cli.outcomes import outcome_json
from loom_cli.repairing import Repair, repair_json
from loom_cli.replays import short
from loom_cli.retaining import Pass, retention_json
from loom_cli.rows import row_json
from loom_cli.schedule_views import schedule_json
from loom_cli.selecting import VERBS, chosen
from loom_cli.sending import kept_words
from loom_cli.snapshot_views import head_json, snapshot_json
from loom_cli.standing import Stood, view_of, whole_json
from loom_cli.sweeping import SweepPass, sweep_json
from loom_cli.working import opening_words
from tests.golden import logs
from tests.golden.make import INDEX
from tests.loom_cli.cores import OF_LOOKING, TIMED, Core
from tests.loom_cli.cores_of_bundles import OF_BUNDLES
from tests.loom_cli.model_cores import MODEL_CORES
from tests.loom_cli.projects import loom
from tests.loom_cli.touching import touching

CRASH: Final = Schedule.parse("step.1:crash-after")
LOGS: Final = {name: logs.read(name).events for name in ("hello", "fails", "waiting", "doubts", "records")}
HELLO: Final = logs.read("hello").log
TEMPLATES: Final = template_files("app")
FLOW: Final = b"import loom\n\n@loom.flow\nasync def hello(ctx: loom.Context) -> None: ...\n"


@flow
async def sleepy(ctx: Any) -> None:
    """A flow for a schedule."""


MIGRATION: Final = Migration(
    execution_id=ExecutionId("r1"),
    fact=ExecutionMigrated("1:a", "1:b", [], flow="shop", version="2"),
    status="suspended",
    flow_before="shop",
    version_before="1",
)
SNAPSHOT: Final = snapshot_of(fold_at(LOGS["waiting"]), Incarnation(1), at=7)
NIGHTLY: Final = schedule("nightly", "0 3 * * *", sleepy)


def stored(name: str) -> StoredLog:
    """Return a golden log as a store has it."""
    golden = logs.read(name)
    return StoredLog(golden.events[0].execution_id, golden.events)


STOOD: Final = Stood(StoredLog(ExecutionId("r1"), LOGS["hello"]), None, (), ())
ROW: Final = ExecutionRow(ExecutionId("r1"), Incarnation(1), 4, INDEX)
RETRIED, FORKED = stored("retried"), stored("forked")

CORES: Final[dict[str, Core]] = {
    **OF_LOOKING,
    **OF_BUNDLES,
    "new": Core(
        new_project,
        lambda: new_project("demo", TEMPLATES, loom_version="1.2.3"),
        lambda files: "app.py" in files and 'name = "demo"' in files["pyproject.toml"],
        "new demo",
    ),
    "gen": Core(
        generate,
        lambda: generate(scan({"flows/hello.py": FLOW}).declared),
        lambda text: "from flows.hello import" in text,
        "gen --check",
    ),
    "check": Core(
        check,
        lambda: check(["flows/hello.py"], {"flows/hello.py": FLOW}.get),
        lambda report: (report.flows, report.findings) == (1, ()),
        "check flows",
    ),
    "torture": Core(
        report_json,
        lambda: report_json(
            "hello", Report(9, 0.1, 1, Finding(3, Schedule(), CRASH, [Breach("invariant", "twice")], 5)), ["--real"]
        ),
        lambda shape: shape["finding"]["command"] == "loom torture hello --seed 3 --schedule step.1:crash-after --real",
        "torture hello --seeds 20 --json",
    ),
    "backup": Core(
        copied_json,
        lambda: copied_json(Path("a.db"), Path("b.db"), Copied(1, 2, 3, 4)),
        lambda shape: (shape["store"], shape["file"], shape["events"]) == ("sqlite:a.db", "b.db", 2),
        "backup copy.db --json",
    ),
    "compact": Core(
        compacted_json,
        lambda: compacted_json(
            Compacted(execution_id=ExecutionId("r1"), through=7, events=6, size=90, kept=2, requests=1, length=9),
            dry_run=True,
        ),
        lambda shape: (shape["id"], shape["events"], shape["through"], shape["dry_run"]) == ("r1", 6, 7, True),
        "compact r1 --dry-run --json",
    ),
    "repair index": Core(
        repair_json,
        lambda: repair_json(Repair("memory:", True, Counter[Became]({"right": 3}))),
        lambda shape: (shape["looked_at"], shape["runs"]) == (3, []),
        "repair index --json",
    ),
    "retention run": Core(
        retention_json,
        lambda: retention_json(Pass("memory:", timedelta(days=30), 7, True, Tally(1, 2, 3, 4))),
        lambda shape: shape["deleted"] == {"families": 1, "runs": 2, "logs": 3, "events": 4},
        "retention run --ttl 30d --json",
    ),
    "graph": Core(
        shape_of,
        lambda: shape_of("hello", ["flows/hello.py"], {"flows/hello.py": FLOW}.get),
        lambda shape: (shape.flow, shape.place.line, shape.body) == ("hello", 4, ()),
        "graph hello",
    ),
    "run": Core(
        outcome_json,
        lambda: outcome_json(fold_at(LOGS["hello"]), outcome_of(fold_at(LOGS["hello"]), "hello world")),
        lambda shape: (shape["status"], shape["result"]) == ("completed", "hello world"),
        "run hello --json",
    ),
    "resume": Core(
        gate_meant,
        lambda: gate_meant(fold_at(LOGS["waiting"]), "asker/question"),
        lambda gate: gate.gate == "parallel/asker/question",
        "resume r1 --answer true",
    ),
    "retry": Core(
        retried,
        lambda: retried(fold_at(LOGS["fails"])),
        lambda fact: (fact.generation, fact.reopened) == (1, [3]),
        "retry r1",
    ),
    "unpause": Core(
        chosen,
        lambda: chosen([ExecutionRow(ExecutionId("r1"), Incarnation(1), 4, INDEX)], VERBS["unpause"], now_ms=0),
        lambda found: [each.refused for each in found] == ["is running, not paused"],
        "unpause --where flow=refund --where status=suspended --dry-run",
    ),
    "pause": Core(
        chosen,
        lambda: chosen([ExecutionRow(ExecutionId("r1"), Incarnation(1), 4, INDEX)], VERBS["pause"], now_ms=0),
        lambda found: [each.refused for each in found] == [None],
        "pause --where flow=refund --where status=suspended --dry-run",
    ),
    "migrate": Core(
        migration_rows,
        lambda: list(migration_rows(MIGRATION)),
        lambda rows: [words for _, words in rows] == ["shop version 2, before shop version 1", "1:b, before 1:a"],
        "migrate r1 --dry-run",
    ),
    "cancel": Core(
        chosen,
        lambda: chosen([ExecutionRow(ExecutionId("r1"), Incarnation(1), 4, INDEX)], VERBS["cancel"], now_ms=0),
        lambda found: [each.refused for each in found] == [None],
        "cancel --where flow=refund --where status=suspended --dry-run",
    ),
    "resolve": Core(
        doubt_meant,
        lambda: doubt_meant(fold_at(LOGS["doubts"], 3), "wire#ada"),
        lambda gate: gate.in_doubt,
        "resolve r1 --as retry",
    ),
    "send": Core(
        kept_words,
        lambda: kept_words(fold_at(LOGS["waiting"]), "news", Hints("r1")),
        lambda words: words == ("keeps it: nothing waits for news now", ""),
        "send r1 news",
    ),
    "inbox": Core(
        inbox_view,
        lambda: inbox_view(fold_at(LOGS["waiting"]), [Request(1, "message", "", 5, b'{"topic":"news","message":1}')]),
        lambda topics: [(topic.topic, len(topic.unread)) for topic in topics] == [("news", 1)],
        "inbox r1",
    ),
    "outcome": Core(
        decision_meant,
        lambda: decision_meant(fold_at(LOGS["records"]), "way#1"),
        lambda start: start == 2,
        "outcome add r1 --decision way --value 1",
    ),
    "ps": Core(
        row_json,
        lambda: row_json(ExecutionRow(ExecutionId("r1"), Incarnation(1), 4, INDEX)),
        lambda shape: (shape["id"], shape["length"], shape["gates"]) == ("r1", 4, []),
        "ps --json",
    ),
    "tail": Core(
        tail_json,
        lambda: tail_json(RunEvent(LOGS["hello"][0], Incarnation(7), "12")),
        lambda shape: (shape["sequence"], shape["incarnation"], shape["cursor"]) == (0, 7, "12"),
        "tail --all --once --json",
    ),
    "schedules": Core(
        schedule_json,
        lambda: schedule_json(NIGHTLY, 1_700_000_000_000, 1),
        lambda shape: (shape["id"], shape["flow"]) == ("nightly", "sleepy"),
        "schedules --app timed:app --json",
    ),
    "worker": Core(
        opening_words,
        lambda: opening_words("memory:"),
        lambda words: words == "working on memory:",
        "worker --until-idle",
    ),
    "show": Core(
        execution_view,
        lambda: execution_view(fold_at(LOGS["hello"]), LOGS["hello"]),
        lambda view: (view.status, [call.id for call in view.calls]) == ("completed", ["greet"]),
        "show r1",
    ),
    "logs": Core(
        event_json,
        lambda: event_json(LOGS["hello"][2]),
        lambda shape: shape["payload"] == {"start": 1, "result": "hello world"},
        "logs r1 --json",
    ),
    "watch": Core(
        state_line,
        lambda: state_line(Change(LOGS["hello"][2], fold_at(LOGS["hello"], 2))),
        lambda shape: (shape["event"], shape["status"]) == ("STEP_COMPLETED", "running"),
        "watch r1 --json",
    ),
    "inspect": Core(
        whole_json,
        lambda: whole_json(STOOD, view_of(STOOD, 2), 2),
        lambda shape: (shape["sequence"], shape["status"], shape["unread"]) == (2, "running", None),
        "inspect r1 --at 1 --json",
    ),
    "sweep content": Core(
        sweep_json,
        lambda: sweep_json(SweepPass("files:/x", timedelta(days=60), 7, True, SweepTally(looked_at=9, removed=2))),
        lambda shape: (shape["looked_at"], shape["removed"]["contents"], shape["kept"]["pinned"]) == (9, 2, 0),
        "sweep content --ttl 60d --json",
    ),
    "content get": Core(
        before_all,
        lambda: before_all("a0"),
        lambda before: before == "9f" + "f" * 62,
        "content get a0",
    ),
    "gates": Core(
        gate_json,
        lambda: [gate_json(gate) for gate in open_gates(fold_at(LOGS["waiting"]))],
        lambda shapes: [shape["label"] for shape in shapes] == ["question", "question"],
        "gates --json",
    ),
    "link": Core(
        link_for,
        lambda: link_for(
            fold_at(LOGS["waiting"]), Incarnation(7), "asker/question", principal="ines", expires_at=9_000
        ),
        lambda made: (made.gate, made.incarnation, made.expires_at) == ("parallel/asker/question", 7, 9_000),
        "link r1 --gate asker/question --json",
    ),
    "conformance": Core(
        names_of,
        lambda: names_of(KITS["clock"]),
        lambda names: "test_it_tells_milliseconds_since_the_epoch" in names,
        "conformance clock loom.spi.clock:VirtualClock",
    ),
    "fork": Core(
        fork_json,
        lambda: fork_json(FORKED.state()),
        lambda told: told["source"] == {"id": "golden-source", "sequence": 5} and told["edited"],
        "fork r1 --at 1 --json",
    ),
    "branch list": Core(
        tree,
        lambda: tree(ROW, {}, {}, "main"),
        lambda views: [(view.row, view.names) for view in views] == [(ROW, ("main",))],
        "branch list r1",
    ),
    "branch log": Core(
        move_rows,
        lambda: move_rows([RefMove(1, ExecutionId("r1"), 0, "ada", "why")]),
        lambda rows: rows[0][3:] == ("ada", "why"),
        "branch log r1",
    ),
    "branch compare": Core(
        compare,
        lambda: compare([FORKED, FORKED]),
        lambda comparison: comparison.is_same,
        "branch compare r1 r1",
    ),
    "promote": Core(
        promotion_words,
        lambda: promotion_words(
            Promotion(ExecutionId("a"), "main", ExecutionId("b"), ExecutionId("a"), 1, again=False)
        ),
        lambda words: words == "is main of a now; before it was a",
        "promote r1",
    ),
    "diff": Core(
        compare,
        lambda: compare([RETRIED, FORKED]),
        lambda comparison: comparison.differences[0].id == "parallel/0/work",
        "diff r1 r1",
    ),
    "snapshot show": Core(
        snapshot_json,
        lambda: snapshot_json(SNAPSHOT.head, fold_at(LOGS["waiting"])),
        lambda shape: (shape["codec"], shape["current"], shape["state"]["status"]) == ("json", True, "suspended"),
        "snapshot show r1 --json",
    ),
    "snapshot take": Core(
        head_json,
        lambda: head_json(SNAPSHOT.head),
        lambda shape: (shape["codec"], shape["size"]) == ("json", len(SNAPSHOT.body)),
        "snapshot take r1 --json",
    ),
    "snapshot list": Core(
        head_json,
        lambda: head_json(SNAPSHOT.head),
        lambda shape: (shape["sequence"], shape["checkpoint"]) == (fold_at(LOGS["waiting"]).sequence, False),
        "snapshot list r1 --json",
    ),
    **MODEL_CORES,
    "replay": Core(
        proof_of,
        lambda: proof_of(HELLO, Replayed(Verdict(id="r1", kind="same"), LOGS["hello"])),
        lambda proof: (len(proof.lines), proof.problems) == (4, ()),
        "replay r1",
    ),
    "check replay": Core(
        short,
        lambda: short(Verdict(id="r1", kind="flow_missing", why="no flow 'hello' is registered")),
        lambda words: words == "no flow 'hello' is registered",
        "check replay r1",
    ),
    "deploy check": Core(
        report_of,
        lambda: report_of([Verdict(id=f"r{n}", kind="newer", why="it is newer") for n in range(3)]),
        lambda report: [(finding.count, finding.samples) for finding in report.findings] == [(3, ("r0", "r1", "r2"))],
        "deploy check",
    ),
    "doctor": Core(contracts, contracts, lambda shape: shape["kernel_abi"] == "1.0.0", "doctor --versions"),
}


@pytest.mark.proves("PRN-09")
def test_every_command_has_such_a_function() -> None:
    assert set(CORES) == set(ROWS)


@pytest.mark.proves("PRN-09")
@pytest.mark.parametrize("name", CORES)
def test_it_is_called_with_values_and_touches_nothing(name: str) -> None:
    core = CORES[name]
    core.call()  # what it imports when it is first called is no part of what it does

    with touching() as touched:
        found = core.call()

    assert touched == []
    assert core.says(found)


def test_a_function_that_touches_a_file_is_seen() -> None:
    with touching() as touched:
        Path(__file__).read_bytes()

    assert any(line.startswith("open") for line in touched)


class Reached(LoomError):
    """The function was called."""

    code = "reached"


def reached(*_: Any, **__: Any) -> NoReturn:
    raise Reached


@pytest.mark.proves("PRN-09")
@pytest.mark.parametrize("name", CORES)
def test_the_command_goes_through_it(name: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk / "flows").mkdir()
    (desk / "flows" / "hello.py").write_bytes(FLOW)
    assert loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", folder=desk).status == 3
    (desk / "timed.py").write_text(TIMED)
    asyncio.run(keep_snapshot(desk / ".loom" / "loom.db", "r1"))
    for module in pkgutil.walk_packages(loom_cli.__path__, "loom_cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert loom("bundle", "r1", "-o", "given.loombundle", folder=desk).status == 0
    replaced = replace_everywhere(CORES[name].function, monkeypatch)

    done = loom(*CORES[name].line.split(), folder=desk)

    assert replaced
    assert done.err.splitlines()[-1].startswith(("error[reached]", '{"error": {"code": "reached"')), done


async def keep_snapshot(path: Path, run: str) -> None:
    """Keep a snapshot of a run as it stands, and a row of a read model."""
    storage = SqliteStorage(path)
    loaded = await load(storage, run)
    assert await storage.put_snapshot(snapshot_of(loaded.state, loaded.row.incarnation, at=7))
    await storage.put_model_rows("totals", "1:a", [ModelRow(ExecutionId(run), loaded.row.incarnation, 0, b"{}")])
    await storage.close()


def replace_everywhere(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have *function* raise wherever a module of ours has it, and return where that is."""
    modules = [(name, module) for name, module in sys.modules.items() if name.partition(".")[0] in {"loom", "loom_cli"}]
    holding = [
        (module, name, key) for name, module in modules for key, value in vars(module).items() if value is function
    ]
    for module, _, key in holding:
        monkeypatch.setattr(module, key, reached)
    return [name for _, name, _ in holding]
