from __future__ import annotations

import pytest

from loom.devtools.conformance.event_trim import EventTrimConformance, TrimmedLinesConformance
from loom.plugins.postgres.trimming import BY_ID, BY_LIFE
from tests.plugins.postgres.server import Server


@pytest.mark.proves("KER-15", "STO-04")
class TestPostgresTrim(EventTrimConformance, TrimmedLinesConformance):
    """The kit, against a server that is started for it."""


STAYS = {"schedule_entries", "archived_lives"}
"""What tells of a run and is kept by something else: the record of a schedule, which lives as long as the schedule; an archive."""


async def test_all_that_belongs_to_a_run_goes_with_it(server: Server, dsn: str) -> None:
    columns = "FROM information_schema.columns WHERE table_schema = 'loom'"
    named = f"SELECT DISTINCT table_name {columns} AND column_name IN ('run', 'execution', 'execution_id')"

    of_a_run = {row[0] for row in await server.execute(named, dsn=dsn)}

    assert of_a_run == {*BY_LIFE, *BY_ID, *STAYS, "executions"}, "add what is new to the lists in trimming.py"
