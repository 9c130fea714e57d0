"""Keeping the collector away while a log is read."""

from __future__ import annotations

import contextlib
import gc

from loom.core.collecting import collected_later


def test_the_collector_rests_in_the_block_and_goes_on_after_it_even_after_an_error() -> None:
    with contextlib.suppress(ValueError), collected_later():
        rested = not gc.isenabled()
        raise ValueError

    assert rested
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collected_later():
            pass

        assert not gc.isenabled()
    finally:
        gc.enable()
