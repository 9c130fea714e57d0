"""Steps that the flows of the zoo share. Effects are at home here."""

import time
import uuid
from pathlib import Path

import loom


@loom.step
async def fetch(item: str) -> str:
    return item.upper()


@loom.step
def stamp() -> float:
    return time.time()


@loom.step
def token() -> str:
    return str(uuid.uuid4())


@loom.step
def note(text: str) -> int:
    return len(text)


@loom.step
def save(text: str) -> int:
    return Path("/dev/null").write_text(text, encoding="utf-8")


@loom.step(idempotent=False)
def pay(cents: int) -> str:
    return f"paid {cents}"


@loom.step(reads=True)
def look_up(name: str) -> str:
    return name.title()
