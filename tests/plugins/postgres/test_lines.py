from __future__ import annotations

import pytest

from loom.devtools.conformance.admission_store import AdmissionStoreConformance


@pytest.mark.proves("BEY-15")
class TestPostgresLines(AdmissionStoreConformance):
    """The kit, against a server that is started for it."""
