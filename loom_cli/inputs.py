"""The input of a flow: what it takes, in words and as a command to type, and what was given for it, checked."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loom import values
from loom.core.errors import LoomError
from loom.core.flow import Flow
from loom.core.missing import MISSING
from loom_cli.payloads import NotJson, payload_given
from loom_cli.schemas import Schema, example, kind_of, resolved, words
from loom_cli.unknown_fields import refuse_unknown_fields


class Taking(NamedTuple):
    """What *flow* takes, as JSON Schema; None when it takes no input."""

    flow: Flow[Any, Any]
    schema: Schema | None

    @classmethod
    def of(cls, flow: Flow[Any, Any]) -> Taking:
        """Return what *flow* takes; a type that cannot be described is any."""
        if not flow.takes_input:
            return cls(flow, None)
        try:
            return cls(flow, values.schema(flow.hints()[0]))
        except LoomError:
            return cls(flow, {})

    @property
    def words(self) -> str:
        """What it takes, in a few words."""
        if self.schema is None:
            return "no input"
        told = words(self.schema, self.schema)
        return told if self.flow.input_required or told.endswith("or nothing") else f"{told}, or nothing"

    def command(self, options: Sequence[str] = (), *, text: str | None = None) -> str:
        """Return a command that starts the flow; *text* is its input where it takes one."""
        given = []
        if self.schema is not None:
            is_text = text is not None and kind_of(resolved(self.schema, self.schema)) == "string"
            written = f"--input {shlex.quote(json.dumps(text, ensure_ascii=False))}" if is_text else ""
            given = [written or example(self.schema, "--input")]
        return " ".join(["loom", "run", self.flow.id, *given, *options])

    def hint(self, refused: LoomError, options: Sequence[str]) -> str:
        """Return what to do about an input that was *refused*."""
        text = refused.text if isinstance(refused, NotJson) else None
        return f"{self.flow.id} takes {self.words}: {self.command(options, text=text)}"


def input_given(taking: Taking, text: str | None, assignments: Sequence[str], *, folder: Path) -> Any:
    """Return what `--input` and `--set` give as the input that the flow takes; MISSING when that is nothing.

    Raises:
        Usage, NotJson: it cannot be read.
        UnknownField, InvalidPayload: it does not fit; every field that fails is told.
    """
    given = payload_given(text, assignments, flag="--input", folder=folder)
    if given is MISSING or taking.schema is None:
        return given
    refuse_unknown_fields(given, taking.schema)
    return values.parse(given, taking.flow.hints()[0])
