"""The decisions on all open claims are those on record."""

from pathlib import Path

from evals.decide import decided, expected


async def test_every_open_claim_ends_as_recorded(tmp_path: Path) -> None:
    assert await decided(tmp_path) == expected()
