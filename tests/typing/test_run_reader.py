"""What only looks has no way to write: the checker refuses it, on the handle of a store and on the inspector's."""

from __future__ import annotations

from typing import Any, assert_type

import pytest

from loom.driving.run_reader import RunReader
from loom.spi.event_store import Storage
from loom.spi.memory import MemoryStorage
from loom_cli.web.inspector import Inspector


def refused(reader: RunReader, inspector: Inspector, asked: Any) -> None:
    assert_type(inspector.store, RunReader)
    reader.append(asked)  # type: ignore[attr-defined]
    reader.insert(asked)  # type: ignore[attr-defined]
    reader.claim(asked)  # type: ignore[attr-defined]
    inspector.store.append(asked)  # type: ignore[attr-defined]


def every_store_is_one(storage: Storage) -> RunReader:
    return storage


@pytest.mark.proves("GOV-05")
def test_a_handle_that_reads_has_no_way_to_write() -> None:
    promised = {name for name in dir(RunReader) if not name.startswith("_")}

    assert promised == {"close", "find", "head", "ids", "pending", "read", "row", "subscribe", "url"}
    assert every_store_is_one(MemoryStorage()) is not None
