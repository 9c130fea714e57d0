"""What every `GateHook` must do: inherit the class and give the fixture *gate_hook*, one whose other side is there."""

from __future__ import annotations

from loom.core.ids import ExecutionId, Incarnation
from loom.core.views import OpenGate
from loom.spi.gate_hook import GateHook, GateNotice

_GATE = OpenGate("approval", 3, 1_000, "approval", show={"amount": 7}, shown="d", schema={"type": "boolean"})
_DOUBT = OpenGate("pay", 5, 2_000, "pay", in_doubt=True, show={"to": "ada"}, reason="the driver was lost")


class GateHookConformance:
    """News that arrives, of whatever waits, as often as it is told."""

    async def test_it_says_which_flows_it_wants_and_stays_with_it(self, gate_hook: GateHook) -> None:
        said: list[object] = [gate_hook.wants("refund") for _ in range(2)]
        assert said in ([True, True], [False, False])

    async def test_a_gate_an_effect_in_doubt_and_one_that_was_told_already_are_told(self, gate_hook: GateHook) -> None:
        for key, gate in (("a", _GATE), ("b", _DOUBT), ("a", _GATE)):
            notice = GateNotice(key, 3_000, ExecutionId("refund-42"), Incarnation(1), "refund", gate)
            await gate_hook.tell(notice)
