"""What every `ExecutionAuthorizer` must do, whatever it allows: inherit the class and give the fixture *authorizer*."""

from __future__ import annotations

import typing

from loom.core.ids import ExecutionId
from loom.spi.authorizer import Action, ExecutionAuthorizer

_RUN = ExecutionId("refund-42")


class AuthorizerConformance:
    """An answer to every question: allowed, or a reason in words."""

    async def test_every_action_has_an_answer_for_somebody_and_for_nobody(
        self, authorizer: ExecutionAuthorizer
    ) -> None:
        for action in typing.get_args(Action):
            for principal in ("ada", None):
                told: object = await authorizer.authorize(principal, action, _RUN, "refund")
                assert told is None or (isinstance(told, str) and told), f"{action} by {principal}: {told!r}"

    async def test_who_asks_twice_is_told_the_same(self, authorizer: ExecutionAuthorizer) -> None:
        for action in typing.get_args(Action):
            told = [await authorizer.authorize("ada", action, _RUN, "refund") for _ in range(2)]
            assert told[0] == told[1]
