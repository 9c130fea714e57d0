from __future__ import annotations

import pytest

from tests.driving.reused import ReusedIds


@pytest.mark.proves("KER-15")
class TestReusedIds(ReusedIds):
    """The same, against a server that is started for it."""
