"""The exact command to type next, as it would have to be typed here: for this app, in this store."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from loom.core.state import ExecutionState
from loom.core.views import OpenGate, open_gates
from loom_cli.schemas import example
from loom_cli.wording import child_of

_DRIVING: Final = (
    *("run", "worker", "resume", "resolve", "retry", "cancel", "pause", "unpause", "migrate", "fork", "promote"),
    *("send", "inbox hold", "inbox release", "outcome add"),
)
_WAYS_ON: Final = {
    "failed": ("retry", "tries it again from the failure"),
    "paused": ("unpause", "lets it go on"),
}


class Hints(NamedTuple):
    """Makes commands for the execution *id*.

    *app* and *store* are options that this command was given; *reads* is what a command that reads has to be given as
    its store, where that is another.
    """

    id: str
    app: str | None = None
    store: str | None = None
    reads: str | None = None

    def command(self, verb: str, *arguments: str, after: Sequence[str] = ()) -> str:
        """Return `loom VERB ID AFTER ARGUMENTS`: *arguments* are options as they stand, *after* follows the id."""
        named = [shlex.quote(word) for word in (self.id, *after)]
        options = [*arguments, *self.options(verb)]
        if any(word.startswith("-") for word in (self.id, *after)):
            return " ".join(["loom", verb, *options, "--", *named])
        return " ".join(["loom", verb, *named, *options])

    def delivering(self, topic: str) -> str:
        """Return how to bring what is awaited on *topic*: by a message, or from a child, which has waits of its own."""
        child = child_of(topic)
        return self.command("send", after=[topic, "JSON"]) if child is None else self.of(child).command("show")

    def of(self, id: str) -> Hints:
        """Return how to make commands for another execution."""
        return self._replace(id=id)

    def listing(self, verb: str) -> str:
        """Return the command that lists all executions in the way of *verb*."""
        return " ".join(["loom", verb, *self.options(verb)])

    def going_on(self, state: ExecutionState) -> str:
        """Return what can be done with a run that stands so, as a command and what it does."""
        if state.status == "completed":
            return f"{self.command('show')} prints its result"
        if state.status not in ("cancelled", "continued") and (bundle := self._bundle()) is not None:
            return f"loom import {shlex.quote(bundle)} brings it into a store, and what is to be done is done there"
        if state.status in ("cancelled", "continued"):
            return f"{self.command('show')} tells how it ended"
        if (way := _WAYS_ON.get(state.status)) is not None:
            return f"{self.command(way[0])} {way[1]}"
        doubts = [gate for gate in open_gates(state) if gate.in_doubt]
        if doubts:
            return f"{self.command('resolve', '--as VERDICT', after=[doubts[0].gate])} says what came of an effect in doubt"
        return f"{self.command('resume')} goes on with it"

    def _bundle(self) -> str | None:
        """Return the bundle that the run is read from, which nothing is written to; None: it is in a store."""
        from loom.plugins.sqlite.location import bundle_path, is_bundle

        store = self.store or self.reads
        return str(bundle_path(store)) if store and is_bundle(store) else None

    def answer(self, gate: OpenGate, *, alone: bool) -> str:
        """Return how to answer *gate*, bound to what it shows; its address is left off where it is *alone*."""
        words = [] if alone else [f"--gate {shlex.quote(gate.gate)}"]
        words.append(example(gate.schema))
        if gate.shown:
            words.append(f"--shown={gate.shown}")
        return self.command("resume", *words)

    def verdicts(self, doubt: OpenGate) -> list[str]:
        """Return how to say what came of an effect in doubt."""
        verdicts = ("done --value JSON", "failed", "retry")
        return [self.command("resolve", f"--as {verdict}", after=[doubt.gate]) for verdict in verdicts]

    def options(self, verb: str) -> list[str]:
        """Return the options that *verb* needs here; of a password in the name of a store only its place is shown."""
        is_driving = verb in _DRIVING
        store = self.store if is_driving or self.reads is None else self.reads
        given = {"--app": self.app if is_driving else None, "--store": _shown(store)}
        return [f"{option} {shlex.quote(value)}" for option, value in given.items() if value]


def _shown(store: str | None) -> str | None:
    from loom.plugins.postgres.dsn import address
    from loom.plugins.sqlite.location import is_postgres

    return address(store).url if store and is_postgres(store) else store
