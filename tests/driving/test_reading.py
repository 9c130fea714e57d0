"""Reading a log: page by page, and no page more than its length calls for."""

from __future__ import annotations

from collections.abc import Sequence

import loom
from loom.core.ids import ExecutionId
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, runtime


class SmallPages(MemoryStorage):
    """A store whose pages hold two events; it notes where each began."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[int] = []

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]:
        self.starts.append(start)
        return (await super().read(execution_id, start=start, stop=stop, limit_bytes=limit_bytes))[:2]


@loom.step
async def work(name: str) -> str:
    return name


@loom.flow
async def waits(ctx: loom.Context) -> str:
    await ctx.run(work, "a")
    answer: str = await ctx.suspend("go", expects=str)
    return answer


async def test_a_log_of_known_length_is_read_to_its_end_and_no_further() -> None:
    over = runtime(waits, storage=SmallPages())
    parked = await over.start(waits, id=RUN)
    assert isinstance(over.storage, SmallPages)

    outcome = await over.resume(RUN, answer="yes")

    assert outcome.status == "completed"
    assert over.storage.starts == list(range(0, parked.length, 2))


async def test_a_log_of_unknown_length_is_read_until_a_page_is_empty() -> None:
    over = runtime(waits, storage=SmallPages())
    parked = await over.start(waits, id=RUN)
    assert isinstance(over.storage, SmallPages)

    events = await over.events(RUN)

    assert [event.sequence for event in events] == list(range(parked.length))
    assert over.storage.starts[-1] == parked.length
