from __future__ import annotations

import pytest

from loom.devtools.conformance.schedule_store import ScheduleStoreConformance


@pytest.mark.proves("RNG-21")
class TestPostgresSchedules(ScheduleStoreConformance):
    """The kit, against a server that is started for it."""
