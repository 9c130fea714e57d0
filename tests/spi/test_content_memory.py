"""Contents in memory pass the kit."""

from __future__ import annotations

import pytest

from loom.devtools.conformance.content_store import ContentStoreConformance
from loom.spi.clock import VirtualClock
from loom.spi.content_memory import MemoryContent


@pytest.mark.proves("DAT-09")
class TestMemoryContent(ContentStoreConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def store(self, clock: VirtualClock) -> MemoryContent:
        return MemoryContent(clock=clock)
