"""The branches of a run whose logs are several: as a tree, with the names that stand for them."""

from __future__ import annotations

import pytest

from loom_cli.branches import branches_of
from tests.driving.test_promoting import rolling
from tests.kernel.running import RUN


@pytest.mark.parametrize("named", [RUN, f"{RUN}~2", "late", "real~2"])
async def test_forks_of_every_log_are_listed_and_names_are_told_where_chains_begin(named: str) -> None:
    over = await rolling()
    await over.fork(RUN, at=1, id="real")
    await over.fork(f"{RUN}~2", at=1, id="late")
    for _ in range(2):
        await over.resume("real", answer=None)
    await over.promote("real~2", name="canary")

    found = await branches_of(over.storage, named)

    assert [(view.row.execution_id, view.depth, view.source, view.through, view.names) for view in found] == [
        (RUN, 0, None, None, ("main",)),
        ("real", 1, RUN, 1, ("canary",)),
        ("late", 1, f"{RUN}~2", 1, ()),
    ]
    assert [view.row.index.status for view in found] == ["suspended", "suspended", "forked"]
