from __future__ import annotations

import pytest

from loom.devtools.conformance.event_fork import EventForkConformance


@pytest.mark.proves("BRN-02")
class TestPostgresForks(EventForkConformance):
    """The kit, against a server that is started for it."""
