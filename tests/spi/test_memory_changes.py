from __future__ import annotations

import pytest

from loom.devtools.conformance.change_feed import ChangeFeedConformance, ChangingStorage
from loom.spi.memory import MemoryStorage


class TestMemoryChanges(ChangeFeedConformance):
    @pytest.fixture
    def store(self) -> ChangingStorage:
        return MemoryStorage()
