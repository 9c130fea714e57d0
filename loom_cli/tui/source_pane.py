"""The line of the flow that asked the call at the cursor, in its file, with what the flow held there. Pure but for the file read.

A log does not hold its source. It is found by replaying the flow as it is now (`loom debug --step`), with effects off; where the code
has changed so that it does not fit the log any more, or cannot be imported, that is said.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom_cli.screen import Styled
from loom_cli.tui.acting import Act, Done, Wired, act
from loom_cli.tui.model import Model
from loom_cli.tui.nodes import Node, line
from loom_cli.tui.open_log import OpenLog

STEP_MAX: Final = 1_000
"""Of a run with more events, one call is looked for at a time: at each stop of a replay, the state is named."""
_PLACE: Final = re.compile(r"(?P<file>.*):(?P<line>\d+) in (?P<function>.*)", re.DOTALL)
_BEFORE: Final = 6
_AFTER: Final = 10
_END: Final = "end"
_HERE: Final = "\u25b6"
IT: Final = ("source", "it")
"""The key of the line that asked."""


class Stop(NamedTuple):
    """Where the flow stood: *places*, the outermost first, and what the innermost held."""

    places: tuple[str, ...]
    locals: Mapping[str, str]


class Sources(NamedTuple):
    """What a replay found: stops by the call that is about to be asked ("end": where the log ends), and what is to be said of it."""

    stops: Mapping[str, Stop] = {}
    says: str = ""


def wanted(log: OpenLog, model: Model) -> str:
    """Return the call whose place is wanted at the cursor, "end" after the last one of a run that has ended or waits."""
    row = log.rows[model.at]
    if row.call is not None:
        return log.timeline.calls[row.call].id
    for index in range(model.at + 1, min(model.at + 50, len(log.rows))):
        if (start := log.rows[index].call) is not None:
            return log.timeline.calls[start].id
    return _END


def found_under(log: OpenLog, wanted: str) -> str:
    """Return under what the sources of *wanted* are kept: all together, where one replay finds all."""
    return "" if len(log.rows) <= STEP_MAX else wanted


def source_act(log: OpenLog, wanted: str, wired: Wired) -> Act:
    """Return the command that finds the place of *wanted*, and of all others where there are not too many."""
    outermost = wanted.partition("/")[0] if wanted != _END else _END
    asked = dict.fromkeys([_where(wanted), _where(outermost)])
    some = [word for where in asked for word in ("--break", where)]
    stops = ["--step", "--break", _END] if len(log.rows) <= STEP_MAX else some
    return act("debug", log.run_id, wired, *stops, title="find the source", acts=False)


def _where(wanted: str) -> str:
    return wanted if wanted == _END else f"before:{wanted}"


def sources_of(done: Done) -> Sources:
    """Return what the command found."""
    if not isinstance(done.json, dict):
        return Sources(says=done.error or "nothing was found")
    stops: dict[str, Stop] = {}
    for stop in done.json.get("stops", ()):
        if stop["places"]:
            key = _END if stop["when"] == _END else str(stop["id"])
            stops.setdefault(key, Stop(tuple(stop["places"]), stop["locals"]))
    return Sources(stops, _verdict_words(done.json.get("verdict") or {}))


def _verdict_words(verdict: Mapping[str, Any]) -> str:
    kind, why = verdict.get("verdict"), verdict.get("why")
    if kind in (None, "same"):
        return ""
    return f"the code is another than that of this run ({str(kind).replace('_', ' ')})" + (f": {why}" if why else "")


def source_nodes(found: Sources | None, wanted: str, folder: Path) -> list[Node]:
    """Return the source round the place of *wanted*; *found* is None while it is looked for. Places are from *folder* on."""
    if found is None:
        return [line(("looking",), Styled("the flow is replayed to find the line, with effects off ...", "quiet"))]
    nodes = [line(("says",), Styled(found.says, "waits"))] if found.says else []
    stop = _stop_of(found, wanted)
    if stop is None:
        if not found.says:
            nodes.append(line(("none",), Styled(f"the replay did not come to {wanted}", "quiet")))
        return nodes
    nodes += [line(("place", place), Styled(place, "quiet")) for place in stop.places[:-1]]
    nodes += _file_nodes(stop.places[-1], folder)
    if stop.locals:
        nodes.append(line(("gap",), Styled("")))
        held = [line(("local", name), Styled(f"{name}  ", "name"), Styled(text)) for name, text in stop.locals.items()]
        nodes.append(Node(("locals",), (Styled("the flow holds", "strong"),), lambda: held, is_open=True))
    return nodes


def _stop_of(found: Sources, wanted: str) -> Stop | None:
    """Return where *wanted* was asked; of a call that stands in no line of the author's, as in `ctx.map`, that of its scope."""
    while wanted not in found.stops and "/" in wanted:
        wanted = wanted.rpartition("/")[0].rpartition("/")[0]
    return found.stops.get(wanted)


def _file_nodes(place: str, folder: Path) -> Iterator[Node]:
    yield line(("place", place), Styled(place, "accent"))
    found = _PLACE.fullmatch(place)
    if found is None:
        return
    file, number = folder / found["file"], int(found["line"])
    linecache.checkcache(str(file))
    lines = linecache.getlines(str(file))
    if not lines:
        yield line(("unread",), Styled("the file cannot be read", "quiet"))
    for at in range(max(number - _BEFORE, 1), min(number + _AFTER, len(lines)) + 1):
        text = lines[at - 1].rstrip("\n").replace("\t", "    ")
        is_it = at == number
        begin = Styled(f"{at:>5} {_HERE if is_it else ' '} ", "mark" if is_it else "quiet")
        yield line(IT if is_it else ("source", str(at)), begin, Styled(text, "strong" if is_it else ""))
