"""A small app for the tests of the commands that drive, and its log as the runtime reads it afterwards."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, empty_state
from loom.driving.reading import read_log
from loom.kernel.fold import fold
from loom.plugins.sqlite import SqliteStorage
from tests.loom_cli.projects import Ended

APP = """
import asyncio
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import loom


class Claim(BaseModel):
    order: str
    amount: float


class Approval(BaseModel):
    approved: bool
    reason: str | None = None


def note(line):
    with Path("effects.txt").open("a") as effects:
        effects.write(line + "\\n")


@loom.step
async def assess(claim: Claim) -> float:
    note("assess")
    print("a word of the author's")
    return 0.7


@loom.step(idempotent=False)
async def pay(claim: Claim) -> str:
    note("pay")
    return "R-1"


@loom.step
async def fail(n: int) -> int:
    note("fail")
    if Path("mended").exists():
        return n
    raise ValueError("no such customer")


def until_let_go(seconds):
    # Where the test has made the pipe `held`, reading it ends when the test lets go; an environment may be let go at once.
    if "LET_GO" in os.environ:
        return
    if Path("held").exists():
        Path("held").read_text()
    else:
        time.sleep(seconds)


@loom.step
def hold(seconds: float) -> float:
    note("hold")
    until_let_go(seconds)
    note("held")
    return seconds


@loom.step
async def hold_in_an_executor(seconds: float) -> float:
    note("executor")
    await asyncio.to_thread(time.sleep, seconds)
    return seconds


@loom.step(idempotent=False, timeout=timedelta(seconds=90))
async def hold_once(seconds: float) -> float:
    note("once")
    if Path("held").exists():
        await asyncio.to_thread(until_let_go, seconds)
    else:
        await asyncio.sleep(seconds)
    note("done once")
    return seconds


@loom.step
async def hold_stubbornly() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            note("no")


@loom.step(idempotent=False, timeout=timedelta(milliseconds=1))
async def stall() -> str:
    await asyncio.Event().wait()
    return "R-1"


@loom.step
def hold_a_child(seconds: float) -> int:
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"])
    Path("child.pid").write_text(str(child.pid))
    print("the child is there")
    return child.wait()


@loom.step
async def open_socket() -> object:
    with socket.socket() as plugged:
        return plugged


@loom.flow
async def refund(ctx: loom.Context, claim: Claim) -> dict:
    risk = await ctx.run(assess, claim)
    answer = await ctx.suspend("approval", show={"claim": claim, "risk": risk}, expects=Approval)
    if not answer.approved:
        return {"paid": None, "why": answer.reason}
    return {"paid": await ctx.run(pay, claim)}


@loom.flow
async def hello(ctx: loom.Context, name: str = "world") -> str:
    return f"hello {name}"


@loom.flow
async def echo(ctx: loom.Context, x: Any) -> Any:
    return x


@loom.flow
async def nap(ctx: loom.Context, seconds: float) -> str:
    await ctx.sleep(timedelta(seconds=seconds))
    return "awake"


@loom.flow
async def failing(ctx: loom.Context) -> int:
    await ctx.run(assess, Claim(order="x", amount=1))
    return await ctx.run(fail, 1)


@loom.flow
async def holding(ctx: loom.Context, seconds: float) -> float:
    return await ctx.run(hold, seconds)


@loom.flow
async def executing(ctx: loom.Context, seconds: float) -> float:
    return await ctx.run(hold_in_an_executor, seconds)


@loom.flow
async def once(ctx: loom.Context, seconds: float) -> float:
    return await ctx.run(hold_once, seconds)


@loom.flow
async def stubborn(ctx: loom.Context) -> None:
    await ctx.run(hold_stubbornly)


@loom.flow
async def swallowing(ctx: loom.Context) -> None:
    while True:
        try:
            await ctx.run(hold_once, 60)
        except BaseException:
            pass


@loom.flow
async def doubtful(ctx: loom.Context, times: int = 1) -> str:
    if times == 1:
        return await ctx.run(stall)
    return ",".join(await ctx.map(lambda ctx, _: ctx.run(stall), range(times)))


@loom.flow
async def parent(ctx: loom.Context, seconds: float) -> int:
    return await ctx.run(hold_a_child, seconds)


@loom.flow
async def plug(ctx: loom.Context) -> object:
    return await ctx.run(open_socket)


@loom.flow
async def two(ctx: loom.Context) -> dict:
    async def sign(ctx):
        return await ctx.suspend("sign", expects=bool)

    return await ctx.parallel({"legal": sign, "money": sign})


@loom.flow
async def changing(ctx: loom.Context) -> str:
    label = Path("label").read_text() if Path("label").exists() else "first"
    return await ctx.suspend(label, expects=str)


@loom.flow
async def mail(ctx: loom.Context) -> list:
    return [await ctx.receive("news", expects=str), await ctx.receive("news", expects=str)]


@loom.flow
async def mail_and_gate(ctx: loom.Context) -> list:
    async def news(ctx):
        return await ctx.receive("news", timeout=timedelta(days=3))

    async def sign(ctx):
        return await ctx.suspend("sign", expects=bool)

    return list(await ctx.parallel(news, sign))


@loom.flow
async def choosing(ctx: loom.Context) -> str:
    return await ctx.decide("pick", lambda options: options[0], ["a", "b"])


@loom.step
async def tidy(ok: bool) -> None:
    note("tidy")
    if not ok:
        raise ValueError("cannot tidy up")


@loom.flow
async def tidying(ctx: loom.Context, ok: bool = True) -> bool:
    try:
        return await ctx.suspend("sign", expects=bool)
    finally:
        await ctx.run(tidy, ok)


@loom.flow
async def guarded(ctx: loom.Context) -> bool:
    async with ctx.shield():
        return await ctx.suspend("sign", expects=bool)


class NoEve:
    async def authorize(self, principal, action, execution_id, flow):
        return "eve may do nothing" if principal == "eve" else None


app = loom.define_config(
    flows=[refund, hello, echo, nap, failing, holding, executing, once, stubborn, swallowing, doubtful, parent, plug, two, changing, mail, mail_and_gate, choosing, tidying, guarded],
    authorizer=NoEve(),
    storage=loom.sqlite_storage(),
    grace_s=float(os.environ.get("GRACE_S", "10")),
)
"""


def events(folder: Path, run_id: str) -> list[EventEnvelope[Any]]:
    """Return the log of *run_id*, read by the runtime's own code."""

    async def read() -> list[EventEnvelope[Any]]:
        storage = SqliteStorage(folder / ".loom" / "loom.db", readonly=True)
        try:
            return await read_log(storage, ExecutionId(run_id))
        finally:
            await storage.close()

    return asyncio.run(read())


def state(folder: Path, run_id: str) -> ExecutionState:
    return fold(events(folder, run_id), empty_state(ExecutionId(run_id)))


def types(folder: Path, run_id: str) -> list[str]:
    return [event.type for event in events(folder, run_id)]


def effects(folder: Path) -> list[str]:
    """Return what the steps have done to the world, in order."""
    file = folder / "effects.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


class Running:
    """A command in a process of its own; what it says can be read while it runs."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._said = folder / f"said-{uuid4().hex}.txt"
        with self._said.open("w", encoding="utf-8") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "loom_cli", *arguments],
                cwd=folder,
                env={**os.environ, "LOOM_PRINCIPAL": "ada", **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_said(self, words: str) -> None:
        """Return once *words* were said; fail when the process ends first, or after half a minute."""
        self.wait_until(lambda: words in self._said.read_text(encoding="utf-8"), f"{words!r} was never said")

    def wait_until(self, holds: Callable[[], bool], never: str = "it never came to that") -> None:
        """Return once that *holds*; fail when the process ends first, or after half a minute."""
        deadline = time.monotonic() + 30
        while not holds():
            assert self._process.poll() is None, self.ended()
            assert time.monotonic() < deadline, never
            select.select([], [], [], 0.02)

    def next_line(self) -> str:
        """Return the next line of its results, once there is one."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def stop_reading(self) -> None:
        """Close the pipe of its results."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> Ended:
        """Return how the process ended, once it has."""
        if self._process.stdout is not None and self._process.stdout.closed:
            self._process.wait(timeout=60)
            out = ""
        else:
            out, _ = self._process.communicate(timeout=60)
        return Ended(self._process.returncode, out, self._said.read_text(encoding="utf-8"))
