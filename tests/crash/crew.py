"""A process of a crew that works on one store: a worker, a starter of runs, or one that resumes when it is told to.

As a script it is given its role, the name of the store, and a lease in seconds; the folder of its ledger is in CREW_FOLDER. What its steps do to the world is a line in
a ledger that is only ever appended to, with the number of the process that did it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import loom
from loom.driving.errors import ExecutionAlreadyExists
from loom.services.worker import Report
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import ExecutionQuery
from tests.crash.places import Place

POLL_S = 0.02
FOLDER = Path(os.environ.get("CREW_FOLDER", "."))


class Entry(NamedTuple):
    """A line of the ledger: what was done in which step of which run, by which process."""

    did: str
    run: str
    step: str
    process: int


def enter(did: str, run: str, step: str) -> None:
    line = json.dumps(Entry(did, run, step, os.getpid())).encode() + b"\n"
    file = os.open(FOLDER / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def entries(folder: Path) -> list[Entry]:
    """Return the ledger, without a line that is just being written."""
    text = (folder / "ledger").read_text(encoding="utf-8") if (folder / "ledger").exists() else ""
    return [Entry(*json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]


async def _stall(run: str, step: str) -> None:
    """Who comes first stays until it is let go; who comes after it does not."""
    mark = FOLDER / f"{run}-{step}"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    while not (FOLDER / f"{run}-go").exists():
        await asyncio.sleep(0.005)


@loom.step
async def look(step: loom.StepContext, stalls: str) -> str:
    enter("begun", step.execution_id, "look")
    if stalls == "look":
        await _stall(step.execution_id, "look")
    return stalls


@loom.step(idempotent=False)
async def charge(step: loom.StepContext, stalls: str) -> str:
    enter("begun", step.execution_id, "charge")
    if stalls == "charge":
        await _stall(step.execution_id, "charge")
    else:
        await asyncio.sleep(0.01)
    enter("done", step.execution_id, "charge")
    return "paid"


@loom.step
async def mail(step: loom.StepContext) -> str:
    enter("done", step.execution_id, "mail")
    return "sent"


@loom.flow
async def pays(ctx: loom.Context, stalls: str) -> list[str]:
    """Look, charge once, and mail; the process that drives it may be stopped in one of them."""
    return [await ctx.run(look, stalls), await ctx.run(charge, stalls), await ctx.run(mail)]


@loom.flow
async def rests(ctx: loom.Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return await ctx.run(mail)


@loom.flow
async def asks(ctx: loom.Context) -> str:
    answer = await ctx.suspend("who", expects=str)
    await ctx.run(mail)
    return answer


def app(place: Place, lease_s: float = 15.0, **options: Any) -> loom.LoomApp:
    storage = place.storage()
    return loom.define_config(flows=[pays, rests, asks], storage=storage, lease_s=lease_s, grace_s=0.2, **options)


async def work(place: Place, lease_s: float) -> None:
    """Be a worker until SIGTERM; note what it lost to another."""

    def told(report: Report) -> None:
        if report.did == "lost" and report.error is not None:
            enter(report.error.code, report.execution_id, "")

    crew = app(place, lease_s)
    async with crew:
        worker = crew.worker(poll_s=POLL_S, told=told)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        enter("ready", "", "")
        await worker.run()


async def start(place: Place, lease_s: float) -> None:
    """Start the runs named on standard input and drive each until it ends or parks, or the store is away."""
    async with app(place, lease_s) as crew:
        for line in sys.stdin:
            order = json.loads(line)
            while not await _started(crew, order):
                await asyncio.sleep(POLL_S)


async def _started(crew: loom.LoomApp, order: dict[str, Any]) -> bool:
    """Start a run; return False when it is not known to have begun."""
    try:
        await crew.runtime.start(order["flow"], order["input"], id=order["id"], linger_s=0)
    except ExecutionAlreadyExists:
        pass
    except loom.LoomError as error:
        enter(error.code, order["id"], "")
        return error.code != StoreUnavailable.code
    return True


async def resume(place: Place, lease_s: float) -> None:
    """Answer the runs named on standard input, each at once, and tell on standard output what came of it."""
    async with app(place, lease_s) as crew:
        await crew.runtime.find(ExecutionQuery(limit=1))
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            try:
                outcome = await crew.runtime.resume(order["id"], answer=order["answer"])
                told = {"status": outcome.status, "value": outcome.value}
            except loom.LoomError as error:
                told = {"status": error.code, "value": None}
            say(json.dumps(told))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


ROLES: dict[str, Callable[[Place, float], Any]] = {"work": work, "start": start, "resume": resume}

if __name__ == "__main__":
    asyncio.run(ROLES[sys.argv[1]](Place(FOLDER, sys.argv[2]), float(sys.argv[3])))
