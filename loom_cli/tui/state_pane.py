"""The state at the cursor as a tree, with what changed marked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.core.missing import MISSING
from loom.core.state import ExecutionState, Settled
from loom.kernel.codec import payload_json
from loom.lenses.differing import Change
from loom.lenses.folding import attempts_json, facts_json, state_digest
from loom_cli.event_lines import event_line
from loom_cli.screen import Styled
from loom_cli.times import date_time
from loom_cli.tui.model import Model
from loom_cli.tui.nodes import Key, Mark, MarkOf, Node, as_read, brief, grouped, line, value_node
from loom_cli.tui.open_log import LARGE, OpenLog
from loom_cli.tui.rows import STATUS_SIGNS
from loom_cli.wording import counted

Event = EventEnvelope[Any]

_NEWEST: Final = 100
DIGEST_MAX: Final = 2_000
"""The state of a longer run is named only when somebody asks: to name it, the whole of it is walked."""


class Marks:
    """What became of each part of a state, by its key: those of `changes`, and what lies above and below them."""

    def __init__(self, changes: Iterable[Change], log: OpenLog) -> None:
        self._exact: dict[Key, Mark] = {}
        self._above: set[Key] = set()
        for change in changes:
            mark: Mark = "new" if change.before is MISSING else "gone" if change.after is MISSING else "changed"
            for path in _as_shown(change.path, change, log):
                self._exact[path] = mark
                self._above.update(path[:end] for end in range(1, len(path)))

    def of(self, key: Key) -> Mark:
        """Return what became of the part with *key*."""
        if key in self._exact:
            return self._exact[key]
        if any(self._exact.get(key[:end]) == "new" for end in range(1, len(key))):
            return "new"
        return "inside" if key in self._above else ""


def _as_shown(path: Key, change: Change, log: OpenLog) -> Iterator[Key]:
    """Yield where a change is seen in the tree, which shows the outcome of a call beside what it was asked with."""
    if path[0] != "outcomes":
        yield path
        return
    ends = [path[1]] if len(path) > 1 else list(change.after if change.after is not MISSING else change.before)
    for end in ends:
        call = log.call(log.index(int(end)))
        if call is not None:
            yield ("settled", str(call.start), "outcome", *path[2:])


def state_nodes(log: OpenLog, model: Model, digest: str | None) -> list[Node]:
    """Return the tree of the state at the cursor; *digest* is its name where that is known."""
    state = log.state(model.at)
    if state is None:
        return [
            line(("gone",), Styled("the state here is not known: the events before were moved to an archive", "quiet"))
        ]
    mark_of = Marks(_changes(log, model) or [], log).of
    sign, style = STATUS_SIGNS.get(state.status, ("", ""))
    named = digest or ("D names it: the log is long" if state.length > DIGEST_MAX else "")
    return [
        Node(
            ("status",),
            (Styled("status    ", "name"), Styled(f"{sign} {state.status}", style)),
            None,
            mark_of(("status",)),
        ),
        line(("sequence",), Styled("sequence  ", "name"), Styled(f"{state.sequence}", "number")),
        line(("at",), Styled("at        ", "name"), Styled(date_time(state.at))),
        line(("digest",), Styled("digest    ", "name"), Styled(named, "" if digest else "quiet")),
        *_facts(state, mark_of),
        *_open(state, log, mark_of),
        *_settled(state, log, mark_of),
        *_cuts(state, log, mark_of),
    ]


def digest_of(state: ExecutionState) -> str:
    """Return the name of a state, as every command prints it."""
    return state_digest(state)


def _facts(state: ExecutionState, mark_of: MarkOf) -> Iterator[Node]:
    facts, key = facts_json(state.facts), ("facts",)
    label = (Styled("facts", "name"), Styled("     what is known of the run", "quiet"))

    def children() -> list[Node]:
        return [value_node((*key, name), name, value, mark_of=mark_of) for name, value in facts.items()]

    if facts:
        yield Node(key, label, children, mark_of(key), is_open=True)


def _open(state: ExecutionState, log: OpenLog, mark_of: MarkOf) -> Iterator[Node]:
    key = ("open",)
    starts = sorted(state.open)
    label = (
        Styled("open", "name"),
        Styled(f"      {counted(len(starts), 'call', 'calls')} asked and not settled", "quiet"),
    )

    def between(first: int, last: int) -> Iterator[Node]:
        for start in starts[first:last]:
            yield _open_call(state, state.open[start], log, mark_of)

    if starts or mark_of(key):
        yield Node(key, label, lambda: grouped(key, len(starts), between, mark_of), mark_of(key), is_open=True)


def _open_call(state: ExecutionState, start: Event, log: OpenLog, mark_of: MarkOf) -> Node:
    key = ("open", str(start.sequence))
    attempts = state.attempts.get(start.sequence)

    def children() -> Iterator[Node]:
        yield value_node((*key, "payload"), "asked", payload_json(start.payload), mark_of=mark_of)
        if attempts is not None:
            yield value_node(("attempts", key[1]), "attempts", attempts_json(attempts), mark_of=mark_of, is_open=True)

    def label() -> tuple[Styled, ...]:
        said = event_line(start, str)
        waits = " waits for a person" if start.sequence in state.gates else ""
        told = f"  {brief(as_read(said.value))}" if said.value is not None else ""
        begin = (Styled(f"{start.sequence} ", "quiet"), Styled(said.about, "name"))
        return (*begin, Styled(waits, "waits"), Styled(told, "quiet"))

    return Node(key, label, children, mark_of(key) or mark_of(("attempts", key[1])))


def _settled(state: ExecutionState, log: OpenLog, mark_of: MarkOf) -> Iterator[Node]:
    key = ("settled",)
    count = len(state.settled)
    if not count and not mark_of(key):
        return
    label = (Styled("settled", "name"), Styled(f"   {counted(count, 'call', 'calls')}, the newest first", "quiet"))

    def children() -> Iterator[Node]:
        for settled in islice(state.settled, _NEWEST):
            yield _settled_call(settled, log, mark_of)
        if count > _NEWEST:
            yield line(
                (*key, "more"),
                Styled(f"{count - _NEWEST:,} more before: go back in time, or to the pane Calls", "quiet"),
            )

    yield Node(key, label, children, mark_of(key), is_open=True)


def _settled_call(settled: Settled, log: OpenLog, mark_of: MarkOf) -> Node:
    start, outcome = settled
    key = ("settled", str(start.sequence))

    def children() -> Iterator[Node]:
        yield value_node((*key, "start", "payload"), "asked", payload_json(start.payload), mark_of=mark_of)
        if outcome is not start:
            came = (*key, "outcome", "payload")
            yield value_node(came, f"{outcome.type} {outcome.sequence}", payload_json(outcome.payload), mark_of=mark_of)

    def label() -> tuple[Styled, ...]:
        said = event_line(outcome, lambda number: str(getattr(start.payload, "id", number)))
        told = f"  {brief(as_read(said.value))}" if said.value is not None else ""
        begin = (Styled(f"{start.sequence} ", "quiet"), Styled(str(getattr(start.payload, "id", "")), "name"))
        says = Styled(f"  {said.says}" if said.says else "", "bad" if said.is_failure else "quiet")
        return (*begin, says, Styled(told, "quiet"))

    return Node(key, label, children, mark_of(key))


def _cuts(state: ExecutionState, log: OpenLog, mark_of: MarkOf) -> Iterator[Node]:
    key = ("cuts",)
    if not state.cuts and not mark_of(key):
        return
    label = (
        Styled("cuts", "name"),
        Styled(f"      {counted(len(state.cuts), 'scope', 'scopes')} that ended early", "quiet"),
    )
    children = [
        value_node(
            (*key, str(start)), f"{start} {cut.start.payload.id}", payload_json(cut.outcome.payload), mark_of=mark_of
        )
        for start, cut in sorted(state.cuts.items())
    ]
    yield Node(key, label, lambda: children, mark_of(key))


def _changes(log: OpenLog, model: Model) -> list[Change] | None:
    against = model.mark if model.mark is not None and model.mark != model.at else None
    if against is not None and abs(against - model.at) > LARGE:
        against = None  # what is so far apart is compared in the pane of changes alone
    return log.changes(model.at, against)
