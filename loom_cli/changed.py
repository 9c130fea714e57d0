"""What is different between two states of a run, in the words of the changes pane of `loom debug`, for `loom show --against`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from loom.driving.stored_log import StoredLog
from loom.lenses.differing import Change
from loom_cli.screen import Pieces, Styled
from loom_cli.tui.changes_pane import changed_nodes
from loom_cli.tui.nodes import Mark, shown
from loom_cli.tui.open_log import OpenLog

_SIGNS: Final[Mapping[Mark, Styled]] = {"new": Styled("+ ", "green"), "gone": Styled("- ", "red")}
_STYLES: Final[Mapping[str, str]] = {"name": "bold", "quiet": "dim", "bad": "red"}
"""How what the pane says looks here."""


def changed_lines(log: StoredLog, found: Iterable[Change]) -> Iterator[Pieces]:
    """Yield *found*, the changes between two states of *log*, a line each: what is gone, and what has come, under its call."""
    opened = OpenLog(log.run_id, base=log.base)
    opened.add(log.events)
    for at in shown(changed_nodes(opened, found), frozenset()):
        said = (Styled(piece.text, _STYLES.get(piece.style, "")) for piece in at.node.pieces)
        yield (_SIGNS.get(at.node.mark, Styled("  ")), Styled("  " * at.depth), *said)
