"""The exact command to type next, as it would have to be typed here: for this app, in this store."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from loom.core.views import OpenGate
from loom_cli.schemas import example


class Hints(NamedTuple):
    """Makes commands for the execution *id*; *app* and *store* are options that this command was given."""

    id: str
    app: str | None = None
    store: str | None = None

    def command(self, verb: str, *arguments: str) -> str:
        """Return `loom VERB ID ARGUMENTS`, each of *arguments* as it stands."""
        words = ["loom", verb, shlex.quote(self.id), *arguments]
        for option, value in (("--app", self.app), ("--store", self.store)):
            words += [option, shlex.quote(value)] if value else []
        return " ".join(words)

    def answer(self, gate: OpenGate, *, alone: bool) -> str:
        """Return how to answer *gate*, bound to what it shows; its address is left off where it is *alone*."""
        words = [] if alone else ["--gate", shlex.quote(gate.gate)]
        words.append(example(gate.schema))
        if gate.shown:
            words.append(f"--shown={gate.shown}")
        return self.command("resume", *words)

    def verdicts(self, doubt: OpenGate) -> list[str]:
        """Return how to say what came of an effect in doubt."""
        step = shlex.quote(doubt.gate)
        verdicts = ("done --value JSON", "failed", "retry")
        return [self.command("resolve", step, f"--as {verdict}") for verdict in verdicts]
