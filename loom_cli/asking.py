"""Asking a person the questions of a form, on a terminal."""

from __future__ import annotations

import contextlib
import getpass
import json
from collections.abc import Mapping
from typing import Any

from loom.core.missing import MISSING
from loom_cli.forms import Asking, Question, ask
from loom_cli.safe_text import safe
from loom_cli.schemas import Schema
from loom_cli.screen import Screen, Styled


def ask_person(
    screen: Screen, schema: Schema, *, known: Any = MISSING, problems: Mapping[str, str] | None = None
) -> Any:
    """Ask for a value of *schema* field by field and return it; see `forms.ask`.

    Raises:
        KeyboardInterrupt, EOFError: the person left.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # arrow keys while typing
    asking = ask(schema, known=known, problems=problems)
    screen.note()
    screen.note(Styled("  Enter takes what stands in [brackets]; Ctrl-C leaves it unanswered", "dim"))
    return _asked(screen, asking)


def confirmed(screen: Screen, answer: Any) -> bool:
    """Show *answer* and return whether it is to be sent."""
    screen.note("  ", Styled("answer  ", "dim"), json.dumps(answer, ensure_ascii=False))
    return input("  send it? [yes] ").strip().lower() in ("", "y", "yes")


def _asked(screen: Screen, asking: Asking) -> Any:
    try:
        question = next(asking)
        while True:
            question = asking.send(_line(screen, question))
    except StopIteration as ended:
        return ended.value


def _line(screen: Screen, question: Question) -> str:
    if question.problem:
        screen.note("  ", Styled(question.problem, "red"))
    if question.title:
        screen.note("  ", Styled(question.title, "dim"))
    if question.choices:
        screen.note(f"  {question.label}")
        for number, choice in enumerate(question.choices, start=1):
            screen.note("    ", Styled(f"{number}  ", "dim"), choice)
    screen.err.flush()
    prompt = _prompt(question)
    return getpass.getpass(prompt) if question.secret else input(prompt)


def _prompt(question: Question) -> str:
    default = f" [{safe(question.default)}]" if question.default else ""
    if question.choices:
        return f"    1 to {len(question.choices)}{default} > "
    words = f" ({safe(question.words)})" if question.words else ""
    return f"  {safe(question.label)}{words}{default} > "
