"""Golden logs as files: `NAME.jsonl` has an event a line, as stored; `NAME.json` what they come to.

The payload and the metadata of a line are the very bytes of the store; an event without metadata has none in its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.kernel.codec import decode_events
from loom.spi.event_store import EventRecord

HERE: Final = Path(__file__).resolve().parent
VERSION: Final = "v1"
"""The folder that new logs go to: one a major version of the schema of events."""


class Golden(NamedTuple):
    """A golden log: the flow of `flows.py` that replays it, the digest of the state after each event, what its body saw."""

    name: str
    flow: str
    digests: list[str]
    saw: list[Any]
    log: list[EventRecord]

    @property
    def run(self) -> ExecutionId:
        return ExecutionId(f"golden-{self.name}")

    @property
    def events(self) -> list[EventEnvelope[Any]]:
        return decode_events(self.run, self.log)


def names(version: str = VERSION) -> list[str]:
    """Return the names of the golden logs of a version."""
    return sorted(file.stem for file in (HERE / version).glob("*.jsonl"))


def read(name: str, version: str = VERSION) -> Golden:
    """Return one golden log."""
    log = parsed((HERE / version / f"{name}.jsonl").read_bytes())
    about = json.loads((HERE / version / f"{name}.json").read_text(encoding="utf-8"))
    return Golden(name, about["flow"], about["digests"], about["saw"], log)


def write(golden: Golden, folder: Path) -> None:
    """Write a golden log, unless there is one of its name.

    Raises:
        FileExistsError: nothing was written.
    """
    about = {"flow": golden.flow, "digests": golden.digests, "saw": golden.saw}
    with (folder / f"{golden.name}.jsonl").open("xb") as file:
        file.write(text(golden.log))
    with (folder / f"{golden.name}.json").open("x", encoding="utf-8") as file:
        file.write(json.dumps(about, indent=1) + "\n")


def text(log: Iterable[EventRecord]) -> bytes:
    """Return *log* as the lines of a file."""
    return b"".join(_line(record) for record in log)


def parsed(lines: bytes) -> list[EventRecord]:
    """Return the events of a file; `parsed(text(log))` is *log*, byte for byte."""
    return [_record(line) for line in lines.decode("utf-8").split("\n") if line]


def _line(record: EventRecord) -> bytes:
    begin = json.dumps({"sequence": record.sequence, "type": record.type, "at": record.at}).removesuffix("}").encode()
    about = b', "metadata": ' + record.metadata if record.metadata else b""
    return begin + b', "payload": ' + record.payload + about + b"}\n"


def _record(line: str) -> EventRecord:
    whole = json.loads(line)
    payload, end = _value(line, '"payload": ')
    metadata = _value(line[end:], '"metadata": ')[0] if "metadata" in whole else ""
    return EventRecord(whole["sequence"], whole["type"], whole["at"], payload.encode(), metadata.encode())


def _value(line: str, key: str) -> tuple[str, int]:
    """Return the text of the JSON value that follows *key*, and where it ends."""
    begin = line.index(key) + len(key)
    _, end = json.JSONDecoder().raw_decode(line, begin)
    return line[begin:end], end


def before_the_end(log: Sequence[EventRecord]) -> list[EventRecord]:
    """Return *log* without its terminal event, if it has one."""
    terminal = log[-1].type in {
        "EXECUTION_COMPLETED",
        "EXECUTION_FAILED",
        "EXECUTION_CANCELLED",
        "EXECUTION_CONTINUED",
    }
    return list(log[:-1] if terminal else log)
