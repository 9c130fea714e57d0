from __future__ import annotations

import pytest

from loom.devtools.conformance.read_model_store import ReadModelStoreConformance
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage


class TestMemoryModels(ReadModelStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStorage:
        return MemoryStorage(clock=VirtualClock())
