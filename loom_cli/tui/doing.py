"""What the app asks and does with more than one key: search, go to, fork, answer, retry, open, export."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from loom.core.errors import LoomError
from loom.core.views import OpenGate
from loom.kernel.codec import payload_json
from loom.lenses.sifting import SiftInvalid, sift_of
from loom_cli.exits import ExitCode
from loom_cli.forms import Question, ask
from loom_cli.screen import Styled
from loom_cli.times import time_meant
from loom_cli.tui import model as moves
from loom_cli.tui.acting import Act, Done, about, act, answer_act, edit_act, fork_act, gates_of, going_on
from loom_cli.tui.exporting import view_json, view_text
from loom_cli.tui.prompts import Confirm, Help, Prompt

if TYPE_CHECKING:
    from loom_cli.tui.app import Debugger

GIVEN_MAX = 2_000
"""A value of more characters is not put into a line to be edited there."""
FORMATS = (".svg", ".txt", ".json")


class Doing:
    """Carries out for *app* what takes a conversation. Each method is run as a worker of the app."""

    def __init__(self, app: Debugger) -> None:
        self._app = app
        self._searched = ""
        self.by_name: dict[str, Callable[[], Awaitable[None]]] = {
            "help": self.help,
            "search": self.search,
            "go_to": self.go_to,
            "fork": self.fork,
            "edit": self.edit,
            "answer": self.answer,
            "go_on": self.go_on,
            "pdb": self.pdb,
            "open": self.open,
            "export": self.export,
        }

    async def _asked(self, title: str, **given: Any) -> str | None:
        return await self._app.push_screen_wait(Prompt(title, **given))

    async def help(self) -> None:
        await self._app.push_screen_wait(Help())

    async def search(self) -> None:
        text = await self._asked("search", given=self._searched, refuse=_no_search)
        if text is not None:
            self._searched = text
            self._app.look_for(sift_of(text))

    async def go_to(self) -> None:
        text = await self._asked("go to: 42, +2.5s, 14:03:20, or the name of a call")
        if text:
            log = self._app.log_
            begun = log.rows[0].at if log.rows else 0
            self._app.move(moves.going_to(text, lambda typed: time_meant(typed, begun)))

    # -- what drives ---------------------------------------------------------------------------------------------

    async def fork(self) -> None:
        log, model = self._app.log_, self._app.model
        done = await self._do(fork_act(log.run_id, log.rows[model.at].sequence, self._app.wired))
        await self._look_at_fork(done)

    async def edit(self) -> None:
        log, model = self._app.log_, self._app.model
        call = log.call(model.at)
        if call is None or (outcome := call.outcome_at(log.moments.last)) is None:
            self._app.say(
                "nothing came of this event that could be another: stand on an event of a call that has ended"
            )
            return
        came = payload_json(log.event(log.index(outcome.end)).payload)
        given = _present(came) if isinstance(came, dict) else ""
        value = await self._asked(f"what {call.id} is to come to in the fork, as JSON", given=given, refuse=_no_json)
        if value is not None:
            await self._look_at_fork(await self._do(edit_act(log.run_id, call.id, value, self._app.wired)))

    async def _look_at_fork(self, done: Done | None) -> None:
        if done is None or not isinstance(done.json, dict):
            return
        fork = str(done.json["id"])
        lines = [
            [Styled(f"{fork} is begun, and nobody drives it yet. Go and look at it? There, R goes on with it.")],
            [],
        ]
        if await self._app.push_screen_wait(Confirm(f"open {fork}", lines)):
            await self._app.open_run(fork)

    async def answer(self) -> None:
        state = self._app.log_.moments.now
        gate = await self._gate()
        if gate is None:
            return
        filled = await self._filled(gate)
        if filled is not None:
            answering = answer_act(state, gate, filled[0], self._app.wired)
            await self._do(answering, shows=gate.show, given=filled[0])

    async def _gate(self) -> OpenGate | None:
        """Return the gate that is meant, of those that are open now."""
        gates = gates_of(self._app.log_.moments.now)
        if not gates:
            self._app.say("no gate of the run is open now")
            return None
        if len(gates) == 1:
            return gates[0]
        lines = [[Styled(f" {at}  ", "key"), Styled(gate.gate)] for at, gate in enumerate(gates, start=1)]
        numbers = [str(at) for at in range(1, len(gates) + 1)]
        title = f"which gate? 1 to {len(gates)}"
        chosen = await self._asked(title, about=lines, refuse=lambda text: "" if text in numbers else title)
        return None if chosen is None else gates[int(chosen) - 1]

    async def _filled(self, gate: OpenGate) -> tuple[Any] | None:
        """Ask what *gate* expects, field by field, and return it; None: somebody left."""
        asking = ask(gate.schema or {})
        try:
            question = next(asking)
            while True:
                typed = await self._asked(*_question_title(question), **_question_about(question))
                if typed is None:
                    return None
                question = asking.send(typed)
        except StopIteration as ended:
            return (ended.value,)

    async def go_on(self) -> None:
        going = going_on(self._app.log_.moments.now, self._app.wired)
        if going is None:
            self._app.say("the run does not go on by itself: it has ended, is paused, or waits for an answer (A)")
        else:
            await self._do(going)

    async def pdb(self) -> None:
        """Give the terminal to pdb, in the body of the flow where it stood at the cursor, until that is left."""
        log, wired = self._app.log_, self._app.wired
        here = ("--break", f"at:{log.rows[self._app.model.at].sequence}", "--pdb")
        stop = act("debug", log.run_id, wired, *here, title="stop in the flow", acts=False, as_json=False)
        try:
            with self._app.suspend():
                subprocess.run([sys.executable, "-m", "loom_cli", *stop.words], check=False)  # noqa: S603, ASYNC221  # nothing else is to go on
                input("Enter goes back to the debugger ")  # noqa: ASYNC250
        except SuspendNotSupported:
            self._app.say(f"this terminal cannot be lent: {stop.shown}")
        except (EOFError, KeyboardInterrupt):
            self._app.say("")
        self._app.refresh()

    async def _do(self, asked: Act, **told: Any) -> Done | None:
        """Carry out what is *asked* once it is agreed to; say how it ended, and return that, None: it was not done, or failed."""
        if not await self._app.push_screen_wait(Confirm(asked.title, list(about(asked, **told)))):
            self._app.say("left as it is")
            return None
        self._app.say(f"{asked.words[0]} ...")
        self._app.is_talking = False  # it may take long: meanwhile keys move through time
        self._app.call_later(self._app.take_typed)
        done = await self._app.actings.run(asked)
        status = done.json.get("status") if isinstance(done.json, dict) else None
        self._app.say(done.error or f"{asked.title}: {status or ExitCode(done.status).name.lower()}")
        return None if done.error else done

    # -- elsewhere -----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        now = self._app.log_.moments.now
        given = now.facts.next or (now.facts.forked.payload.source["execution_id"] if now.facts.forked else "")
        text = await self._asked("which run? its id, or a beginning of it that is unique", given=given)
        if text:
            await self._app.open_run(text)

    async def export(self) -> None:
        log, model = self._app.log_, self._app.model
        given = f"{_file_name(log.run_id)}-{log.rows[model.at].sequence}.svg"
        name = await self._asked("export to a file: .svg, .txt or .json", given=given, refuse=self._no_file)
        if name is None:
            return
        path = self._app.folder / name
        try:
            path.write_text(self._exported(path.suffix), encoding="utf-8")
        except OSError as error:
            self._app.say(f"{path}: {error.strerror or error}")
        else:
            self._app.say(f"written to {brief_path(str(path), self._app.drawing.room_to_say - len('written to '))}")

    def _no_file(self, name: str) -> str:
        path = self._app.folder / name
        if path.suffix not in FORMATS:
            return f"the name ends with {' or '.join(FORMATS)}"
        return "there is such a file: choose another name" if path.exists() else ""

    def _exported(self, suffix: str) -> str:
        log, model = self._app.log_, self._app.model
        if suffix == ".json":
            return json.dumps(view_json(log, model), ensure_ascii=True, indent=2) + "\n"
        if suffix == ".txt":
            return view_text(log, model, self._app.events_in_sight(), self._app.pane_lines())
        return self._app.export_screenshot(title=f"loom debug {_file_name(log.run_id)}")


def _file_name(id: str) -> str:
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_~.") else "_" for sign in id).lstrip(".")


def _present(came: dict[str, Any]) -> str:
    """Return what an event says that its call came to, as JSON to be edited; "" where it is too long, or is no value."""
    value = next((json.dumps(came[name], ensure_ascii=False) for name in ("result", "answer") if name in came), "")
    return value if len(value) < GIVEN_MAX else ""


def brief_path(path: str, room: int) -> str:
    """Return *path* in *room* cells: where it is longer, without its middle, and with the whole name of the file at least."""
    name = path.rpartition("/")[2]
    begin = room - len(name) - 2
    return path if len(path) <= room else f"{path[:begin]}\u2026/{name}" if begin > 0 else name


def _no_search(text: str) -> str:
    try:
        sift_of(text)
    except SiftInvalid as refused:
        return str(refused)
    return ""


def _no_json(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    return ""


def _question_title(question: Question) -> tuple[str]:
    words = f" ({question.words})" if question.words else ""
    default = f" [{question.default}]" if question.default else ""
    choices = f" 1 to {len(question.choices)}" if question.choices else ""
    return (f"{question.label}{words}{choices}{default}",)


def _question_about(question: Question) -> dict[str, Any]:
    lines = [[Styled(f" {question.title}", "quiet")]] if question.title else []
    lines += [[Styled(f" {at}  ", "key"), Styled(choice)] for at, choice in enumerate(question.choices, start=1)]
    if question.problem:
        lines.append([Styled(f" {question.problem}", "bad")])
    return {"about": lines, "secret": question.secret}


async def refused(doing: Awaitable[None], say: Callable[[str], None]) -> None:
    """Carry out *doing*; what refuses it is said."""
    try:
        await doing
    except LoomError as error:
        say(f"{error} {error.hint or ''}".strip())
