from __future__ import annotations

import pytest

from loom.devtools.conformance.event_fork import EventForkConformance
from loom.devtools.conformance.ref_store import RefStoreConformance


@pytest.mark.proves("BRN-02")
class TestPostgresForks(EventForkConformance):
    """The kit, against a server that is started for it."""


@pytest.mark.proves("BRN-06")
class TestPostgresRefs(RefStoreConformance):
    """The kit, against a server that is started for it."""
