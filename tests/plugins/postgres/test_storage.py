from __future__ import annotations

import pytest

from loom.devtools.conformance.storage import StorageConformance


@pytest.mark.proves("STO-03", "KER-19")
class TestPostgresStorage(StorageConformance):
    """The kit, against a server that is started for it."""
