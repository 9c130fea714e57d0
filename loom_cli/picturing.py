"""Pictures of flows, as commands print them: the project's source read, a run's log laid over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.core.state import ExecutionState
from loom.devtools.codegen import manifest, scan
from loom.devtools.graphing.edges import Graph, graph_of
from loom.devtools.graphing.mermaid import mermaid
from loom.devtools.graphing.reading import shape_of, shapes
from loom.devtools.graphing.structure import Shape
from loom.devtools.graphing.svg import svg
from loom.devtools.graphing.telling import Line, lines
from loom.devtools.graphing.views import graph_json, resumability
from loom.devtools.graphing.visits import Visits, visits
from loom.lenses.folding import fold_at
from loom.plugins.sqlite.location import nearest_project
from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.linting import python_files, reader
from loom_cli.reading import log_meant
from loom_cli.screen import Screen, Styled, cell_len
from loom_cli.sources import read_sources
from loom_cli.times import date_time
from loom_cli.wording import counted

_SIGNS: Final = frozenset({"done", "failed", "waiting", "running"})
_STYLES: Final = {"done": "green", "failed": "red", "waiting": "yellow", "running": "cyan", "cut": "dim"}


class Picture(NamedTuple):
    """A flow as it is written, and what a run of it visited, if one is looked at."""

    shape: Shape
    graph: Graph
    state: ExecutionState | None = None
    visits: Visits | None = None

    def as_(self, format_: str) -> str:
        """Return it as the text of a file: `svg` or `mermaid`."""
        return svg(self.shape, self.visits) if format_ == "svg" else mermaid(self.graph, self.visits)

    def json(self) -> dict[str, Any]:
        """Return it as nodes and edges."""
        return graph_json(self.shape, self.graph, self.state, self.visits)


def pictured(cli: Cli, flow: str, run: str | None, *, store: str | None) -> Picture:
    """Return the flow that the source below the project's folder declares, with what *run* visited.

    Raises:
        FlowNotDeclared: no file declares it.
        Usage: *run* is a run of another flow.
    """
    project = nearest_project(cli.folder)
    root = (project.parent if project else cli.folder).resolve()
    shape = shape_of(flow, sources_of(root), reader(root))
    graph = graph_of(shape)
    if run is None:
        return Picture(shape, graph)
    log = cli.run(log_meant(cli.reader(store), run))
    state = fold_at(log.events, base=log.base)
    if state.facts.flow != shape.flow:
        raise Usage(
            f"{state.execution_id} is a run of {state.facts.flow}, not of {flow}",
            hint=f"loom graph {state.facts.flow} {run}",
        )
    return Picture(shape, graph, state, visits(graph, state))


def sources_of(root: Path) -> list[str]:
    """Return the Python files of a project, tests last: what they declare is rarely meant."""
    found = python_files(root, root, [])
    return sorted(found, key=lambda path: (any(part.startswith(("test_", "tests")) for part in path.split("/")), path))


def compiled(root: Path) -> dict[str, Any]:
    """Return what a build knows of the project at *root*: its manifest, and each flow with where it can be put away."""
    declared = scan(read_sources(root))
    found = shapes(sources_of(root), reader(root))
    named = {each.id for each in declared.declared if each.kind == "flow"}
    flows = [resumability(shape) for name, shape in sorted(found.items()) if not named or name in named]
    return {"manifest": manifest(declared.declared), "flows": flows}


def draw(screen: Screen, picture: Picture) -> None:
    """Print it for a terminal: what a run visited is marked at the left, the rest is dim."""
    if picture.state is not None and picture.visits is not None:
        state = picture.state
        screen.line(Styled(state.execution_id, "bold"), f" {state.status}", *_elsewhere(picture.visits))
    for each in lines(picture.shape, picture.visits):
        cells = [*_mark(screen, each, is_run=picture.visits is not None), *_said(each)]
        screen.line(*cells, *_visited(each, room=screen.width - _wide(cells) if screen.terminal else None))
    for line in picture.shape.unfollowed:
        screen.note(Styled("not followed:", "yellow"), f" {line}")


def _elsewhere(found: Visits) -> Iterator[Styled]:
    if found.elsewhere:
        yield Styled(
            f"  (and {counted(len(found.elsewhere), 'call', 'calls')} that the source does not show)", "yellow"
        )


def _mark(screen: Screen, line: Line, *, is_run: bool) -> Iterator[Styled | str]:
    if not is_run:
        return
    visit = line.visit
    if visit is None or line.depth == 0:
        yield " " * 6
        return
    name = visit.worst
    sign = screen.sign(name if name in _SIGNS else "none")
    times = f"{visit.count}x" if visit.count > 1 else ""
    yield Styled(f"{sign} {times:<4}", _STYLES[name])


def _said(line: Line) -> Iterator[Styled | str]:
    dim = "" if line.reached else "dim"
    yield "  " * line.depth
    if line.text:
        yield Styled(f"{line.word} ", "dim")
        yield Styled(line.text, dim or ("bold" if line.depth == 0 else ""))
    else:
        yield Styled(line.word, dim or "cyan")
    if line.notes:
        yield Styled(f"  {', '.join(line.notes)}", "dim")


def _visited(line: Line, *, room: int | None) -> Iterator[Styled]:
    """Yield the last event of a visit: in full, or as far as there is *room* for it, its number in any case."""
    visit = line.visit
    if visit is None or visit.last is None:
        return
    undone = f", undone {visit.undone}x" if visit.undone else ""
    number, type_ = f"  #{visit.last.sequence}", f" {visit.last.type}"
    told = (f"{number}{type_} {date_time(visit.last.at)}{undone}", f"{number}{type_}{undone}", f"{number}{undone}")
    yield Styled(next((each for each in told if room is None or cell_len(each) <= room), told[-1]), "dim")


def _wide(cells: Sequence[Styled | str]) -> int:
    return sum(cell_len(each if isinstance(each, str) else each.text) for each in cells)
