"""The debugger without a terminal: moves, trees of values, rows and panes, over every golden log and any value."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.core.ids import ExecutionId
from loom.lenses.folding import fold_at
from loom.lenses.sifting import sift_of
from loom_cli.screen import Styled
from loom_cli.tui import model as moves
from loom_cli.tui.calls_pane import CallLines
from loom_cli.tui.changes_pane import change_nodes
from loom_cli.tui.event_pane import event_nodes
from loom_cli.tui.exporting import view_json, view_text
from loom_cli.tui.gates_pane import gate_nodes
from loom_cli.tui.keys import BY_KEY, FOOT, KEYS, foot
from loom_cli.tui.model import Model
from loom_cli.tui.nodes import BRIEF_MAX, GROUP, Node, brief, shown, value_node
from loom_cli.tui.open_log import OpenLog
from loom_cli.tui.rows import head_line, place_line, row_line
from loom_cli.tui.state_pane import state_nodes
from tests.golden import logs

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)


def opened(name: str) -> OpenLog:
    log = OpenLog(ExecutionId(f"golden-{name}"))
    log.add(logs.read(name).events)
    log.is_read = True
    return log


def text(pieces: Iterable[Styled]) -> str:
    return "".join(piece.text for piece in pieces)


def everything(nodes: list[Node]) -> list[Node]:
    """Return all nodes of a tree, all opened."""
    found: list[Node] = []
    for node in nodes:
        found.append(node)
        if node.children is not None:
            found += everything(list(node.children()))
    return found


@pytest.mark.parametrize("name", logs.names())
def test_every_pane_can_be_drawn_at_every_event(name: str) -> None:
    log = opened(name)
    for at in range(len(log.rows)):
        model = moves.at_event(Model(mark=at // 2), log, at)
        for nodes in (
            state_nodes(log, model, None),
            change_nodes(log, model),
            event_nodes(log, model),
            gate_nodes(log, model, (), 0),
        ):
            every = everything(nodes)
            keys = [node.key for node in every]
            assert len(keys) == len(set(keys)), [key for key in keys if keys.count(key) > 1]
            assert all(isinstance(text(node.pieces), str) for node in every)
        calls = CallLines(log, model)
        for line in range(len(calls)):
            assert calls.event_of(line) < len(log.rows)
            text(calls.line(line, 80))
        assert text(head_line(log, model)).startswith(f" {log.run_id}")
        assert str(log.rows[at].sequence) in text(place_line(log, model))
        text(row_line(log, model, at, 80))


@pytest.mark.parametrize("name", logs.names())
def test_what_the_state_marks_is_what_changed(name: str) -> None:
    log = opened(name)
    for at in range(1, len(log.rows)):
        marked = {node.key for node in everything(state_nodes(log, Model(at=at), None)) if node.mark}
        changed = log.changes(at, None)
        assert changed is not None
        kept = [c for c in changed if c.path[0] in ("status", "open", "settled", "facts") and log_has(log, at, c.path)]
        assert {change.path[:2] for change in kept} <= {key[:2] for key in marked}


def log_has(log: OpenLog, at: int, path: tuple[str, ...]) -> bool:
    """Whether what changed is still there to be marked."""
    state = fold_at(log.moments.events, at)
    if path[0] == "open" and len(path) > 1:
        return int(path[1]) in state.open
    if path == ("open",):
        return bool(state.open)
    if path[0] == "settled" and len(path) > 1:
        return any(each.start.sequence == int(path[1]) for each in state.settled)
    if path[0] == "facts" and len(path) > 1:
        return bool(getattr(state.facts, path[1])) and getattr(state.facts, path[1]) != state.facts._field_defaults.get(
            path[1]
        )
    return True


@pytest.mark.parametrize("name", logs.names())
def test_an_export_is_json_and_the_state_is_that_of_the_fold(name: str) -> None:
    log = opened(name)
    golden = logs.read(name)
    for at in range(0, len(log.rows), 3):
        view = view_json(log, Model(at=at))
        assert json.loads(json.dumps(view))["digest"] == golden.digests[at]
        assert view["event"]["sequence"] == log.rows[at].sequence
        assert ">" in view_text(log, Model(at=at), range(len(log.rows)), [])


@given(st.data())
@settings(max_examples=60)
def test_whatever_keys_are_pressed_the_cursor_stands_on_an_event_that_is_there(data: st.DataObject) -> None:
    log = opened(data.draw(st.sampled_from(["hello", "retried", "branches", "failures"])))
    model = Model()
    plain = [bound.move for group in KEYS.values() for bound in group if bound.move is not None]
    steps = st.sampled_from(
        [*plain, *(moves.by_rows(count) for count in (-40, -1, 1, 40)), moves.to_first, moves.to_last]
    )
    for _ in range(data.draw(st.integers(1, 25))):
        choice = data.draw(st.integers(0, 9))
        if choice == 0:
            log.look_for(sift_of(data.draw(st.sampled_from(["step", "is:failure", "nothing-like-it", ""]))))
            while log.sift_some(7):
                pass
            model = moves.unfiltered(model)
        elif choice == 1:
            model = moves.going_to(data.draw(st.text(max_size=6) | st.integers(0, 60).map(str)), lambda text: None)(
                model, log
            )
        else:
            model = data.draw(steps)(model, log)
        assert 0 <= model.at < len(log.rows)
        assert 0 <= moves.row_of_event(model, log) < max(moves.rows_shown(model, log), 1)
        assert model.mark is None or 0 <= model.mark < len(log.rows)
        if model.only_matches:
            assert model.at in log.matches


@given(VALUES)
def test_any_value_opens_to_the_end_and_its_line_is_short(value: Any) -> None:
    node = value_node(("v",), "v", value)

    for each in everything([node]):
        assert len(text(each.pieces)) < BRIEF_MAX + 600


@given(VALUES, st.integers(1, 200))
def test_a_brief_is_the_beginning_of_the_json(value: Any, limit: int) -> None:
    whole = json.dumps(value, ensure_ascii=False)
    told = brief(value, limit)

    if not told.endswith("\u2026"):
        assert told == whole
    else:
        assert whole.startswith(told[:-1])
        assert len(told) == limit + 1


def test_a_value_of_many_parts_is_opened_in_groups_and_only_so_far() -> None:
    node = value_node(("v",), "v", list(range(1_000_000)))
    assert node.children is not None
    groups = list(node.children())
    assert len(groups) <= GROUP
    inner = groups[-1].children
    assert inner is not None
    assert len(list(inner())) <= GROUP
    last = shown([node], frozenset({("v",), groups[-1].key}))
    assert last[-1].depth == 2


def test_a_long_text_is_shown_in_lines_and_only_its_beginning() -> None:
    node = value_node(("v",), "v", "x" * 5_000_000)
    assert "5,000,000 characters" in text(node.pieces)
    assert node.children is not None
    lines = list(node.children())
    assert len(lines) < 500
    assert "beginning" in text(lines[-1].pieces)


def test_a_key_does_one_thing_and_what_stands_below_the_panes_fits_80_cells() -> None:
    keys = [key for group in KEYS.values() for bound in group for key in bound.keys]

    assert len(keys) == len(set(keys)) == len(BY_KEY)
    assert sum(len(bound.shown) + len(bound.short) + 3 for bound in FOOT) <= 80
    assert [bound for bound, _ in foot(80)] == list(FOOT)
    assert BY_KEY["F"] in [bound for bound, _ in foot(140)]
    assert all(
        sum(len(bound.shown) + len(word) + 3 for bound, word in foot(width)) <= width for width in range(20, 200)
    )
    for bound in BY_KEY.values():
        assert (bound.move is None) is bool(bound.action)


def test_a_log_that_is_damaged_is_shown_as_far_as_it_can_be_read() -> None:
    log = OpenLog(ExecutionId("golden-hello"))
    events = logs.read("hello").events
    log.add([events[0], events[1], events[2]._replace(payload=events[2].payload._replace(start=77))])

    assert len(log.rows) == 2
    assert log.problem is not None


def test_what_changed_from_a_mark_is_told_by_calls_in_the_words_of_the_timeline() -> None:
    log = opened("gates")
    last = len(log.rows) - 1
    told = [(node.mark, text(node.pieces).strip()) for node in change_nodes(log, Model(at=last, mark=0))]
    back = [(node.mark, text(node.pieces).strip()) for node in change_nodes(log, Model(at=1, mark=3))]

    assert told[:7] == [
        ("", "from event 0 to event 24"),
        ("", "status"),
        ("gone", '"running"'),
        ("new", '"completed"'),
        ("", "1 approval"),
        ("new", 'GATE_OPENED  {"amount": "99.90"}'),
        ("new", 'GATE_ANSWERED  by ada  {"approved": true, "reason": "fine \u00e9"}'),
    ]
    assert told[-2:] == [("", "facts \u203a result"), ("new", '"fine \u00e9"')]
    assert ("gone", "GATE_OPENED") not in back
