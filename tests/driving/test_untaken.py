"""Which requests of a lane wait for a driver, and which gates they settle."""

from __future__ import annotations

import orjson

from loom.core.ids import ExecutionId
from loom.driving.untaken import settled_meanwhile, untaken
from loom.spi.event_store import Request, RequestKind

RUN, SECOND = ExecutionId("run"), ExecutionId("run~2")


def request(number: int, kind: RequestKind, key: str, **body: object) -> Request:
    return Request(number, kind, key, 0, orjson.dumps(body))


LANE = [
    request(1, "message", "", topic="news", message=1),
    request(2, "answer", "gate:7", start=7, answer=True),
    request(3, "verdict", "doubt:9:12", start=9, verdict="done"),
    request(4, "answer", "2:gate:3", start=3, answer=True),
    request(5, "cancel", "cancel", reason=None),
]


def test_messages_wait_for_the_flow_and_all_else_for_a_driver() -> None:
    assert [each.number for each in untaken(LANE)] == [2, 3, 4, 5]


def test_an_answer_is_for_the_link_whose_gate_it_names() -> None:
    assert settled_meanwhile(RUN, LANE) == {7, 9}
    assert settled_meanwhile(SECOND, LANE) == {3}
    assert settled_meanwhile(ExecutionId("run~3"), LANE) == frozenset()
