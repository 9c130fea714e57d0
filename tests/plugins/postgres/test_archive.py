from __future__ import annotations

import pytest

from loom.devtools.conformance.archive_store import ArchiveStoreConformance


@pytest.mark.proves("STO-13")
class TestPostgresArchive(ArchiveStoreConformance):
    """The kit, against a server that is started for it."""
