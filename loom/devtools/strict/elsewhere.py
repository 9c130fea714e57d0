"""Replaying a run in another process, in which texts hash otherwise: what hangs on the order of a set comes out otherwise there.

The other process imports the modules that this one has its flows and steps from, gets the log on its standard input and answers with
the verdict. It reads no store and drives nothing.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import fields
from types import ModuleType
from typing import Any, Final

from loom.core.flow import Flow
from loom.core.step import Step
from loom.driving.rehearsal import rehearsed
from loom.driving.verdicts import Verdict
from loom.spi.event_store import EventRecord
from loom.spi.guarding import Rehearsal

TIMEOUT_S: Final = 60.0


class NotReplayedElsewhere(RuntimeWarning):
    """Another process could not replay a run, so nothing is known of what it would have come to there."""


class NoAnswer(Exception):  # it says what happened
    """The other process gave no verdict."""


async def verdict_elsewhere(rehearsal: Rehearsal, seed: int) -> Verdict | None:
    """Return the verdict of a process whose hashes are those of *seed*, None where nothing differs.

    Raises:
        NoAnswer: it could not be replayed there.
    """
    question = {**_question(rehearsal, await rehearsal.log()), "base": _text(await rehearsal.base())}
    asked = json.dumps(question).encode()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-m", __name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(asked), TIMEOUT_S)
    except TimeoutError:
        raise NoAnswer(f"it gave no answer in {TIMEOUT_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = (err.decode("utf-8", "replace").strip().splitlines() or ["it ended without a word"])[-1]
        raise NoAnswer(last)
    answer = json.loads(out)
    return None if answer is None else Verdict(**answer)


def _question(rehearsal: Rehearsal, log: Sequence[EventRecord]) -> dict[str, Any]:
    names = [flow.fn.__module__ for flow in rehearsal.flows.values()]
    names += [step.fn.__module__ for step in rehearsal.tools.values()]
    return {
        "id": rehearsal.execution_id,
        "modules": _modules(dict.fromkeys(names)),
        "log": [[each.sequence, each.type, each.at, _text(each.payload), _text(each.metadata)] for each in log],
    }


def _modules(names: Iterable[str]) -> dict[str, str]:
    """Return the file of each module that cannot be imported by its name, "" for the others."""
    files = {name: getattr(sys.modules.get(name), "__file__", None) or "" for name in names}
    return {name: file if name == "__main__" else "" for name, file in files.items()}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# -- in the other process --------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # what modules and flows print is not the answer
        modules = [_imported(name, file) for name, file in asked["modules"].items()]
        flows = {each.id: each for each in _held(modules, Flow)}
        tools = {each.id: each for each in _held(modules, Step)}
        log = [EventRecord(at, type_, when, *map(base64.b64decode, data)) for at, type_, when, *data in asked["log"]]
        verdict = asyncio.run(rehearsed(flows, tools, asked["id"], log, base=base64.b64decode(asked["base"])))
    sys.stdout.write(json.dumps(None if verdict is None else _json(verdict), default=str))


def _json(verdict: Verdict) -> Mapping[str, Any]:
    return {each.name: getattr(verdict, each.name) for each in fields(verdict)}


def _imported(name: str, file: str) -> ModuleType:
    if not file:
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location("__loom_main__", file)  # its guard must not run it
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["__loom_main__"] = module
    spec.loader.exec_module(module)
    return module


def _held(modules: Iterable[ModuleType], kind: type[Any]) -> list[Any]:
    return [value for module in modules for value in vars(module).values() if isinstance(value, kind)]


if __name__ == "__main__":
    main()
