"""An adapter that was written against another interface is refused before anything is opened, with both versions told."""

from __future__ import annotations

from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import EVENT_STORE_SPI_VERSION
from loom.spi.memory import MemoryStorage
from loom.spi.versions import SpiMismatch, require


class Adapter:
    """An adapter, of whatever interface."""

    def __init__(self, spi_version: Any) -> None:
        self.spi_version = spi_version


@pytest.mark.parametrize("written", ["1.2.0", "1.2.9", "1.0.0", "1.1.7"])
def test_what_was_written_against_this_version_or_an_older_minor_fits(written: str) -> None:
    require(Adapter(written), "event store", "1.2.3")


@pytest.mark.proves("RNG-01")
@pytest.mark.parametrize("written", ["2.0.0", "0.9.0", "1.3.0"])
def test_another_major_or_a_newer_minor_is_refused_with_both_versions(written: str) -> None:
    with pytest.raises(SpiMismatch) as refused:
        require(Adapter(written), "event store", "1.2.3")

    assert f"Adapter was written against version {written} of the event store interface" in str(refused.value)
    assert "this Loom has 1.2.3" in str(refused.value)


@pytest.mark.parametrize("written", ["1", "1.x.0", "", 1, "1.2.3.4"])
def test_what_is_no_version_is_refused(written: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="is no version"):
        require(Adapter(written), "event store", "1.2.3")


def test_an_adapter_that_says_nothing_is_taken() -> None:
    require(object(), "event store", "1.2.3")


@pytest.mark.proves("RNG-01")
def test_an_app_refuses_a_store_of_another_version() -> None:
    class Tomorrow(MemoryStorage):
        spi_version = "2.0.0"

    with pytest.raises(SpiMismatch, match=r"Tomorrow was written against version 2\.0\.0 of the event store interface"):
        loom.define_config(storage=Tomorrow())


def test_our_own_store_says_what_it_was_written_against() -> None:
    require(SqliteStorage("unused.db"), "event store", EVENT_STORE_SPI_VERSION)

    assert SqliteStorage.spi_version == EVENT_STORE_SPI_VERSION
