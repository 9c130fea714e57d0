"""What is done from within the debugger: each is a command of `loom`, shown before it is run, in a process of its own.

So it does just what it does when it is typed: it imports the app, asks the authorizer, and drives; the debugger sees its events as
they come. What the author prints cannot spoil the screen, and an app that is broken is said by the command itself.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from loom.core.state import ExecutionState
from loom.core.views import OpenGate, open_gates
from loom_cli.screen import Styled
from loom_cli.tui.nodes import as_read, brief

Json = Any


class Wired(NamedTuple):
    """How commands are told which app, which store and who acts: the options that `loom debug` was given."""

    app: str | None = None
    store: str | None = None
    principal: str | None = None


class Act(NamedTuple):
    """A command to run, as words after `loom`, and what it does, in words."""

    words: tuple[str, ...]
    title: str

    @property
    def shown(self) -> str:
        """The command as somebody would type it."""
        return shlex.join(["loom", *(word for word in self.words if word != "--json")])


class Done(NamedTuple):
    """How a command ended: its status, what it printed as JSON, and what its error says ("" where there is none)."""

    status: int
    json: Json
    error: str


def act(verb: str, id: str, wired: Wired, *options: str, title: str, acts: bool = True, as_json: bool = True) -> Act:
    """Return `loom VERB` for a run; *acts* says that it is told who acts, *as_json* that a program reads what it prints."""
    given = (("--app", wired.app), ("--store", wired.store), ("--as", wired.principal if acts else None))
    named = [word for option, value in given if value for word in (option, value)]
    return Act((verb, *options, *named, *(("--json",) if as_json else ()), "--", id), title)


def fork_act(id: str, n: int, wired: Wired) -> Act:
    """Return how a fork is begun that shares the events up to number *n*."""
    return act("fork", id, wired, "--at", str(n), title=f"begin a fork of {id} after event {n}")


def edit_act(id: str, call: str, value: str, wired: Wired) -> Act:
    """Return how a fork is begun in which *call* came out otherwise; *value* is JSON."""
    return act("fork", id, wired, "--output", call, "--value", value, title=f"begin a fork of {id} with another {call}")


def going_on(state: ExecutionState, wired: Wired) -> Act | None:
    """Return how the run goes on from where it stands now: by a retry where it failed; None: it has ended, or waits for a person."""
    id = state.execution_id
    if state.status == "failed":
        return act("retry", id, wired, title=f"try {id} again from its failure")
    if state.is_terminal or state.status == "paused" or (state.status == "suspended" and gates_of(state)):
        return None
    return act("resume", id, wired, title=f"go on with {id}")


def answer_act(state: ExecutionState, gate: OpenGate, answer: Json, wired: Wired) -> Act:
    """Return how *gate* is answered, bound to what it shows."""
    given = ["--gate", gate.gate, "--answer", json.dumps(answer, ensure_ascii=False)]
    bound = [f"--shown={gate.shown}"] if gate.shown is not None else ["--yes"]
    return act("resume", state.execution_id, wired, *given, *bound, title=f"answer {gate.gate} of {state.execution_id}")


def gates_of(state: ExecutionState) -> list[OpenGate]:
    """Return what can be answered now."""
    return [] if state.is_terminal else [gate for gate in open_gates(state) if not gate.in_doubt]


def about(act: Act, *, shows: Json = None, given: Json = None) -> Iterator[list[Styled]]:
    """Yield what is told before *act* is carried out: what it shows, what is given, and the command."""
    if shows is not None:
        yield [Styled("it shows  ", "quiet"), Styled(brief(as_read(shows)))]
    if given is not None:
        yield [Styled("answer    ", "quiet"), Styled(json.dumps(given, ensure_ascii=False), "strong")]
    yield [Styled("")]
    words = act.shown
    for at in range(0, len(words), 70):
        yield [Styled(words[at : at + 70], "accent")]
    yield [Styled("")]


class Actings:
    """The commands that are carried out just now, each in a process of its own."""

    def __init__(self) -> None:
        self._running: dict[asyncio.subprocess.Process, asyncio.Event] = {}

    @property
    def are_running(self) -> bool:
        """Whether any is carried out just now."""
        return bool(self._running)

    async def run(self, act: Act) -> Done:
        """Carry *act* out, and return how it ended. A task that is cancelled meanwhile stops it as Ctrl-C does, and waits for it."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "loom_cli", *act.words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        )
        ended = self._running[process] = asyncio.Event()
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            await process.communicate()
            raise
        finally:
            del self._running[process]
            ended.set()
        return done_of(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    async def end(self) -> None:
        """Stop what is carried out, as Ctrl-C does, and wait for it."""
        for process, ended in list(self._running.items()):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            await ended.wait()


def done_of(status: int, out: str, err: str) -> Done:
    """Return how a command with `--json` ended, by what it printed."""
    printed = _json(out) or _json(out.strip().rpartition("\n")[2])
    told = _json(err.strip().rpartition("\n")[2])
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        error = told["error"]
        words = " ".join(str(error.get(part, "")) for part in ("message", "hint"))
        return Done(status, printed, words.strip() or str(error.get("code")))
    if printed is None and status:
        return Done(status, None, err.strip().rpartition("\n")[2] or f"it ended with status {status}")
    return Done(status, printed, "")


def _json(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return None
