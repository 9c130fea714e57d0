"""The alarms of the month on record end as they did."""

from pathlib import Path

from evals.month import expected, lived


async def test_every_alarm_ends_as_recorded(tmp_path: Path) -> None:
    assert await lived(tmp_path) == expected()
