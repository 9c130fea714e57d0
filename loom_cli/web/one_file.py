"""The page with one run inside, as a file that needs no server: its styles, its script and the data stand in it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from loom.core.state import ExecutionState
from loom.driving.run_reader import RunReader
from loom.lenses.folding import event_json, state_digest
from loom_cli.cli import Cli
from loom_cli.errors import CommandRefused, Usage
from loom_cli.exits import ExitCode
from loom_cli.ids import meant_id
from loom_cli.safe_text import safe
from loom_cli.version import version
from loom_cli.web.inspector import Inspector
from loom_cli.web.kept_runs import KeptRun
from loom_cli.web.page_files import page_files
from loom_cli.web.shortening import compact, short
from loom_cli.web.views import call_short, cause_json, line_json, moment_json

Json: TypeAlias = Any

EVENTS_MAX: Final = 20_000
"""A file with more events than this would be too large to open."""
_DIGESTS_MAX: Final = 1_000
"""Of a longer run only the last state has its digest in the file: each costs as much as the state is large."""
_TEXT_MAX: Final = 64_000
_ITEMS_MAX: Final = 2_000
_NODES_MAX: Final = 20_000
_IMPORT: Final = re.compile(r'^import \{ ([\w, ]+) \} from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (async function|function|const|class) (\w+)", re.MULTILINE)


class TooLong(CommandRefused):
    """A run has more events than one file can hold."""

    code = "run-too-long"

    def __init__(self, *, execution_id: str, events: int) -> None:
        self.execution_id, self.events = execution_id, events
        self.hint = f"`loom inspect {execution_id}` serves it, whatever its length."
        super().__init__(f"{execution_id} has {events} events, and a file holds {EVENTS_MAX} at most")


def write_page(cli: Cli, text: str, file: Path, *, at: int | None, store: str | None) -> ExitCode:
    """Write the page about the run that *text* means to *file*, `-` for the results of the command.

    Raises:
        ExecutionNotFound, AmbiguousExecution: *text* means none, or several.
        TooLong: it has too many events.
        Usage: the file cannot be written.
    """
    page = cli.run(_page_of(cli.reader(store), text, at, cli))
    if str(file) == "-":
        cli.screen.out.write(page)
        return ExitCode.DONE
    try:
        (cli.folder / file).write_text(page, encoding="utf-8")
    except OSError as refused:
        raise Usage(f"{file} cannot be written: {refused.strerror or refused}") from None
    cli.screen.note(f"wrote {safe(str(file))}")
    return ExitCode.DONE


async def _page_of(store: RunReader, text: str, at: int | None, cli: Cli) -> str:
    inspector = Inspector(store, now_ms=cli.now_ms)
    run_id = await meant_id(store, text)
    kept = await inspector.kept.get(run_id)
    if len(kept.moments.events) > EVENTS_MAX:
        raise TooLong(execution_id=run_id, events=len(kept.moments.events))
    run = await inspector.run(run_id)
    if at is not None and not kept.moments.first <= at <= kept.moments.last:
        raise Usage(f"there is no event {at}", hint=f"--at {kept.moments.last} is the last one")
    if moved := kept.moments.last + 1 - len(kept.moments.events):
        are = "event is" if moved == 1 else "events are"
        cli.screen.note(f"{moved} {are} in an archive, and not on the page: `loom logs` prints them with --archived")
    branches = await inspector.branches(run_id)
    await store.close()
    return html_of(run_data(kept, run, branches, at=at), page_files())


def run_data(kept: KeptRun, run: Json, branches: Json, *, at: int | None = None) -> Json:
    """Return all that the page needs of a run, to be drawn without a server. Pure.

    It is opened *at* an event; None: where the run stands, or at what it failed by.
    """
    moments, timeline = kept.moments, kept.timeline
    sequences = [event.sequence for event in moments.events if event.sequence >= moments.first]
    about = {
        "store": "",
        "version": version(),
        "answers": False,
        "elsewhere": f"loom logs {kept.run_id} --json prints it",
    }
    return {
        "about": about,
        "at": _first_seen(kept.moments.now) if at is None else at,
        "run": run,
        "lines": [line_json(e, row, moments) for e, row in zip(moments.events, timeline.rows, strict=True)],
        "events": [_long(event_json(event)) for event in moments.events],
        "moments": [_moment(kept, n, digest=len(sequences) <= _DIGESTS_MAX or n == sequences[-1]) for n in sequences],
        "timeline": {
            "start": 0,
            "end": moments.last,
            "calls": [call_short(call) for call in timeline.calls.values()],
            "lanes": {str(at): lane.path for at, lane in enumerate(timeline.lanes)},
            "left_out": 0,
            "times": [moments.events[0].at, moments.now.at],
        },
        "branches": branches,
    }


def _first_seen(state: ExecutionState) -> int | None:
    cause = cause_json(state) if state.status == "failed" else None
    return None if cause is None else int(cause["end"])


def _moment(kept: KeptRun, n: int, *, digest: bool) -> Json:
    told = moment_json(kept.moments, kept.timeline, n)
    kept_parts = {name: told[name] for name in ("index", "status", "at", "open", "changes")}
    return {**kept_parts, **({"digest": state_digest(_state(kept, n))} if digest else {})}


def _state(kept: KeptRun, n: int) -> ExecutionState:
    return kept.moments.state_at(n)


def _long(value: Json) -> Json:
    return short(value, text_max=_TEXT_MAX, items_max=_ITEMS_MAX, nodes_max=_NODES_MAX).as_json()


def html_of(data: Json, files: Mapping[str, str]) -> str:
    """Return the page as one file. Pure.

    Nothing in it can end the element that holds the data, whatever the run holds: each `<` is written as an escape of JSON. Its
    own policy lets no script run but the one that came with it, and lets nothing be fetched.
    """
    style, script = files["page.css"], script_of(files)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    icon = base64.b64encode(files["icon.svg"].encode()).decode()
    head = files["index.html"]
    for tag, instead in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n    <meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('<link rel="icon" href="static/icon.svg">', f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">'),
        ('<link rel="stylesheet" href="static/page.css">', f"<style>{style}</style>"),
        ('<script type="module" src="static/main.js"></script>', ""),
        (
            "</body>",
            f'  <script type="application/json" id="run-data">{data_text(data)}</script>\n    <script type="module">{script}</script>\n  </body>',
        ),
    ):
        before, found, after = head.partition(tag)
        assert found, tag
        head = before + instead + after
    return head


def data_text(data: Json) -> str:
    """Return *data* as JSON that can stand in an element of a page."""
    return compact(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_of(files: Mapping[str, str]) -> str:
    """Return the modules of the page as one script: each in a function of its own, after those that it imports from."""
    parts: list[str] = []
    done: set[str] = set()

    def add(name: str) -> None:
        if name in done:
            return
        done.add(name)
        for _, other in _IMPORT.findall(files[name]):
            add(other)
        parts.append(_as_function(name, files[name]))

    add("main.js")
    return "const modules = {};\n" + "\n".join(parts)


def _as_function(name: str, source: str) -> str:
    exported = [found for _, found in _EXPORT.findall(source)]
    body = _IMPORT.sub(lambda found: f'const {{ {found[1]} }} = modules["{found[2]}"];', source)
    body = _EXPORT.sub(r"\1 \2", body)
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {", ".join(exported)} }};\n}})();'


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
