"""`loom debug` on a run of 100,000 events that holds a value of 5 MB, on a terminal of its own, as a person has it.

How long it takes from a cold start to the first screen, how long an event takes under a key once all is read (of twenty moves, the
slowest but one), each by the clock and as time of the processor, and what the process holds then.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fcntl import ioctl
from pathlib import Path
from typing import Final

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, first
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Append, Appended, EventRecord
from tests.benchmarks.report import Line, Target, plain
from tests.benchmarks.scale import Scale, Unavailable, folder

EVENTS: Final = 100_000
VALUE_BYTES: Final = 5_000_000
BRANCHES: Final = 8
MOVES: Final = 40
BEGAN_MS: Final = 1_700_000_000_000
RUN: Final = ExecutionId("long-1")
_BATCH: Final = 5_000
_PATIENCE_S: Final = 60.0


def debugging(scale: Scale) -> Iterator[Line]:
    """The first screen, a move at the end and in the middle, and the memory, each the median of the repetitions."""
    count = scale.of(EVENTS)
    with folder() as at:
        asyncio.run(filled(at / "runs.db", count, VALUE_BYTES // (EVENTS // count)))
        with _terminal(at, at / "runs.db"):
            pass  # the first run writes compiled modules
        moved: list[float] = []
        opened, busy, carried, held = [], [], [], []
        for _ in range(scale.repeats):
            with _terminal(at, at / "runs.db") as terminal:
                opened.append(terminal.first_screen_s)
                busy.append(terminal.cpu_s)
                terminal.until(f"{count - 1} of {count - 1}")
                before, moves = terminal.cpu_s, len(moved)
                moved += terminal.moves_ms(b"k", count - 1, -1, MOVES)
                terminal.type(f":{count // 2}\r".encode(), f"{count // 2} of {count - 1}")
                moved += terminal.moves_ms(b"j", count // 2, 1, MOVES)
                carried.append((terminal.cpu_s - before) * 1000 / (len(moved) - moves))
                held.append(terminal.memory_mb)
    yield plain("debug-open", opened, unit="s", target=Target(bound="at most", limit=1.5))
    yield plain(
        "debug-move", [sorted(moved)[len(moved) * 95 // 100]], unit="ms", target=Target(bound="at most", limit=50)
    )
    yield plain("debug-open-cpu", busy, unit="s")
    yield plain("debug-move-cpu", carried, unit="ms")
    yield plain("debug-memory", held, unit="MB")


class Terminal:
    """A process with a terminal of 120 cells by 40 lines, and what it has drawn there."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int, begun: float) -> None:
        self._process, self._descriptor, self._begun = process, descriptor, begun
        self._drawn = b""
        self.first_screen_s = 0.0

    @property
    def memory_mb(self) -> float:
        """What the process holds in memory now, where the system tells."""
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
        except OSError as error:
            raise Unavailable(f"no /proc: {error}") from error
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def cpu_s(self) -> float:
        """How long the process was carried out so far; on a busy machine it tells more than what a clock does."""
        try:
            told = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError as error:
            raise Unavailable(f"no /proc: {error}") from error
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

    def until(self, text: str) -> float:
        """Wait until *text* has been drawn since it was last waited for, and return when that was.

        Raises:
            Unavailable: it was not, or the process has ended.
        """
        wanted, until = text.encode(), time.monotonic() + _PATIENCE_S
        while wanted not in drawn_text(self._drawn):
            ready, _, _ = select.select([self._descriptor], [], [], max(until - time.monotonic(), 0))
            try:
                some = os.read(self._descriptor, 1 << 16) if ready else b""
            except OSError:  # Linux says so when the other end is closed
                some = b""
            if not some:
                raise Unavailable(f"{text!r} was not drawn: {drawn_text(self._drawn)[-300:]!r}")
            self._drawn += some
        self._drawn = b""
        return time.monotonic()

    def type(self, keys: bytes, shown: str) -> float:
        """Type *keys*, wait until *shown* was drawn, and return how long that took, in milliseconds."""
        begun = time.monotonic()
        os.write(self._descriptor, keys)
        return (self.until(shown) - begun) * 1000

    def moves_ms(self, key: bytes, begin: int, step: int, count: int) -> list[float]:
        """Move *count* times from event *begin* on, and return how long each move took."""
        return [self.type(key, f"event {begin + step * at} of") for at in range(1, count + 1)]


def drawn_text(drawn: bytes) -> bytes:
    """Return what was drawn without its colours and places."""
    parts = drawn.split(b"\x1b[")
    return parts[0] + b"".join(part.lstrip(b"0123456789;?")[1:] for part in parts[1:])


@contextmanager
def _terminal(at: Path, store: Path) -> Iterator[Terminal]:
    here, there = pty.openpty()
    ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPYCACHEPREFIX": str(at / "compiled"), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    script = Path(sys.executable).with_name("loom")
    loom = [str(script)] if script.exists() else [sys.executable, "-m", "loom_cli"]
    begun = time.monotonic()
    process = subprocess.Popen(
        [*loom, "debug", RUN, "--store", str(store)], cwd=at, env=env, stdin=there, stdout=there, stderr=there
    )
    os.close(there)
    terminal = Terminal(process, here, begun)
    try:
        terminal.first_screen_s = terminal.until("EXECUTION_STARTED") - begun
        yield terminal
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(here)


async def filled(database: Path, count: int, value_bytes: int) -> None:
    """Write a run of *count* events: steps in branches side by side, attempts that fail, and one value of *value_bytes*."""
    store = SqliteStorage(database)
    begin = EventRecord(0, "EXECUTION_STARTED", BEGAN_MS, _json(_BEGIN), b"")
    first_of_all = replace(first(RUN, index=replace(INDEX, flow="long", chain=RUN)), events=[begin])
    [done] = await store.append([first_of_all])
    assert isinstance(done, Appended)
    events = list(_events(count, value_bytes))
    for at in range(0, len(events), _BATCH):
        batch = events[at : at + _BATCH]
        append = Append(
            execution_id=RUN,
            incarnation=done.incarnation,
            expected=batch[0].sequence,
            append_id=f"batch-{at}",
            events=batch,
            index=first_of_all.index,
        )
        [result] = await store.append([append])
        assert isinstance(result, Appended), result
    await store.close()


_BEGIN: Final = {
    "flow": "long",
    "fingerprint": "f",
    "seed": "s",
    "rules": {"identity": 1, "delivery": 1, "derivation": 1},
    "input": {"orders": 100},
}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _events(count: int, value_bytes: int) -> Iterator[EventRecord]:
    sequence, scope = 1, 0
    failure = {"type": "TimeoutError", "message": "no answer", "traceback": 'File "a.py", line 3, in work\n    raise'}
    while sequence < count:
        name = f"map#{scope}" if scope else "map"
        asked = {"ordinal": scope, "digest": "d"}
        yield _event(sequence, "SCOPE_OPENED", {"id": name, **asked, "kind": "map", "branches": BRANCHES})
        sequence, scope = sequence + 1, scope + 1
        starts = list(range(sequence, min(sequence + BRANCHES, count)))
        for branch, start in enumerate(starts):
            step = {"id": f"{name}/{branch}/work", **asked, "args": {"order": scope * BRANCHES + branch}}
            yield _event(start, "STEP_STARTED", step)
        sequence += len(starts)
        if sequence < count:
            tried = {"start": starts[0], "attempt": 1, "failure": failure, "due_at": BEGAN_MS + sequence + 5}
            yield _event(sequence, "STEP_ATTEMPT_FAILED", tried)
            sequence += 1
        for start in starts[: count - sequence]:
            large = (
                {"lines": ["x" * 1000] * (value_bytes // 1000)} if scope == 1 and start == starts[0] else {"ok": start}
            )
            yield _event(sequence, "STEP_COMPLETED", {"start": start, "result": large})
            sequence += 1


def _event(sequence: int, type_: str, payload: dict[str, object]) -> EventRecord:
    return EventRecord(sequence, type_, BEGAN_MS + sequence, _json(payload), b"")
