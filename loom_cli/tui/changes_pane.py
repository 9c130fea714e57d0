"""What is different at the cursor from the marked event, or from the one before: by calls, in the words of the timeline. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from loom.core.missing import MISSING
from loom.lenses.differing import Change
from loom_cli.event_lines import event_line
from loom_cli.screen import Styled
from loom_cli.tui.model import Model
from loom_cli.tui.nodes import Key, Mark, Node, as_read, brief, line, value_node
from loom_cli.tui.open_log import OpenLog

Side: TypeAlias = Literal["before", "after"]

_SIDES: Final[tuple[Side, Side]] = ("before", "after")
_MARKS: Final[Mapping[Side, Mark]] = {"before": "gone", "after": "new"}
_BY_NAME: Final = frozenset({"open", "settled", "outcomes", "attempts", "cuts", "facts"})
"""The parts of a state that hold others by their names, or by the numbers of events."""
_OF_CALLS: Final = _BY_NAME - {"facts"}


def change_nodes(log: OpenLog, model: Model) -> list[Node]:
    """Return what is different at the cursor from the marked event, or from the one before."""
    against = model.mark if model.mark is not None and model.mark != model.at else None
    found = log.changes(model.at, against)
    before = f"event {log.rows[against].sequence}" if against is not None else _before(log, model)
    title = line(("title",), Styled(f"from {before} to event {log.rows[model.at].sequence}", "quiet"))
    if found is None:
        return [line(("gone",), Styled("the state before is not known: its events were moved to an archive", "quiet"))]
    return [title, *changed_nodes(log, found)]


def changed_nodes(log: OpenLog, found: Iterable[Change]) -> list[Node]:
    """Return *found*, what is different between two states of a log, by the calls that it is of."""
    told = [each for each in _one_by_one(found) if each.path not in (("sequence",), ("at",), ("execution_id",))]
    of_calls: dict[int, list[Change]] = {}
    others: list[Change] = []
    for change in told:
        start = _call_of(change.path, log)
        if start is None:
            others.append(change)
        else:
            of_calls.setdefault(start, []).append(change)
    nodes = [node for start in sorted(of_calls) for node in _call_nodes(start, of_calls[start], log)]
    nodes = [*(n for c in others if c.path == ("status",) for n in _nodes_of(c)), *nodes]
    nodes += [node for change in others if change.path != ("status",) for node in _other_nodes(change, log)]
    if not nodes:
        nodes = [line(("none",), Styled("nothing is different but the number and the time", "quiet"))]
    return nodes


def _before(log: OpenLog, model: Model) -> str:
    return f"event {log.rows[model.at - 1].sequence}" if model.at else "nothing"


def _one_by_one(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield *changes*, those of a whole part of the state by what it holds."""
    for change in changes:
        if len(change.path) > 1 or change.path[0] not in _BY_NAME:
            yield change
            continue
        before, after = ({} if side is MISSING else side for side in (change.before, change.after))
        for name in {**before, **after}:
            if before.get(name, MISSING) != after.get(name, MISSING):
                yield Change((*change.path, name), before.get(name, MISSING), after.get(name, MISSING))


def _call_of(path: Key, log: OpenLog) -> int | None:
    """Return which call a change is of, by the number of the event that asked it; None: of none."""
    if path[0] not in _OF_CALLS or len(path) < 2 or not path[1].isdecimal():
        return None
    call = log.call(log.index(int(path[1])))
    return call.start if call is not None else None


def _call_nodes(start: int, changes: Sequence[Change], log: OpenLog) -> Iterator[Node]:
    key: Key = ("change", "call", str(start))
    call = log.call(log.index(start))
    yield line(key, Styled(f"{start} {call.id if call is not None else ''}".rstrip(), "name"))
    sides = {side: {int(event["sequence"]): event for event in _events(changes, side)} for side in _SIDES}
    in_both = sides["before"].keys() & sides["after"].keys()
    for side in _SIDES:
        for sequence in sorted(sides[side].keys() - in_both):
            yield _event_node((*key, side, str(sequence)), sides[side][sequence], log, _MARKS[side])
    for change in changes:
        if change.path[0] == "attempts" or len(change.path) > 2:  # deeper than the call itself
            yield from _nodes_of(change, indent="  ", path=(change.path[0], *change.path[2:]))


def _events(changes: Sequence[Change], side: Side) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a call that stand in the state on one *side*: it is asked, whether it is open or settled, and came to something."""
    for change in changes:
        value = getattr(change, side)
        if value is MISSING or len(change.path) > 2:  # of a part of it
            continue
        match change.path[0]:
            case "settled":
                yield value["start"]
            case "open" | "outcomes" | "cuts":
                yield value
            case _:
                pass


def _event_node(key: Key, event: Mapping[str, Any], log: OpenLog, mark: Mark) -> Node:
    """Return an event of a state as the timeline says it, with all of it below."""

    def label() -> tuple[Styled, ...]:
        said = event_line(log.event(log.index(event["sequence"])), str)
        told = f"  {brief(as_read(said.value))}" if said.value is not None else ""
        says = Styled(f"  {said.says}" if said.says else "", "bad" if said.is_failure else "quiet")
        return Styled("  "), Styled(event["type"]), says, Styled(told, "quiet")

    return Node(key, label, lambda: [value_node((*key, name), name, value) for name, value in event.items()], mark)


def _other_nodes(change: Change, log: OpenLog) -> Iterator[Node]:
    if change.path != ("gates",):
        yield from _nodes_of(change)
        return
    yield line(("change", "gates"), Styled("waits for a person", "name"))
    for side in _SIDES:
        numbers = getattr(change, side)
        for number in () if numbers is MISSING else numbers:
            call = log.call(log.index(number))
            name = call.id if call is not None else f"event {number}"
            yield line(("change", "gates", side, str(number)), Styled("  "), Styled(name))._replace(mark=_MARKS[side])


def _nodes_of(change: Change, *, indent: str = "", path: Key | None = None) -> Iterator[Node]:
    key = ("change", *change.path)
    yield line(key, Styled(indent), Styled(" \u203a ".join(change.path if path is None else path), "name"))
    for side in _SIDES:
        if (value := getattr(change, side)) is not MISSING:
            node = value_node((*key, side), change.path[-1], value)  # its name says whether it is a time
            yield node._replace(label=(Styled(f"{indent}  "), *node.pieces[2:]), mark=_MARKS[side])
