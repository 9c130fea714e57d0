"""Runs that were found by chance, with a race in them whose end a served fork once had another way."""

from __future__ import annotations

from typing import Any

from tests.kernel.lives import Way

HELD_WHILE_CLOSING = (
    [
        [
            "both",
            0,
            [
                ["select", [[["stream", 1]], [], [["catch", [["fail", "plain"]]], ["first", 2, 0]]]],
                ["both", 1, [["scope", 54, [], []], ["task", 3, []], ["shield", []]]],
                ["both", 2, [["catch", []], ["task", 2, []]]],
            ],
        ],
    ],
    Way(seed=489, linger_s=0.0, early_answers=True, early_messages=True, interruptions=True),
    3,
)
"""An arm that was cut off asked nothing any more, since the other one had won by then."""

CLOSED_FIRST = (
    [
        ["loop", 1, [["catch", []], ["select", [[]]], ["task", 3, []]]],
        ["scope", 16, [[]], [["select", [[], [["fail", "declined"], ["emit"]]]]]],
        [
            "scope",
            26,
            [
                [
                    [
                        "any",
                        [
                            [["gate", 36], ["keyed", 3], ["inline", 0]],
                            [["named", 3], ["inline", 3], ["receive", "a", None]],
                        ],
                    ],
                    ["receive", "b", 16],
                ],
                [],
            ],
            [["any", [[]]]],
        ],
        ["told", 15, [[["receive", "own", 51], ["decide", False], ["yield", 2]], []]],
    ],
    Way(seed=4547, early_answers=True),
    0,
)
"""A scope was closed before the outcome of a step beside it came."""

_CHOOSING: list[Any] = [
    "any",
    [
        [["loop", 1, []], ["swallow", [["fail", "refused"]]]],
        [["scope", 40, [[], [["decide", False], ["yield", 2]]], [["fail", "declined"]]], ["select", [[]]]],
        [["map", 0, 2, [["decide", True], ["first", 3, 2]]]],
    ],
]
DECIDED_WHILE_CLOSING = (
    [_CHOOSING, ["swallow", []], ["both", 0, []], _CHOOSING],
    Way(seed=8859, interruptions=True),
    5,
)
"""What was decided in a scope that was to close was decided all the same."""

LATE_WHILE_FAILING = (
    [
        [
            "task",
            0,
            [
                [
                    "scope",
                    None,
                    [[["loop", 2, []]], []],
                    [
                        [
                            "scope",
                            25,
                            [[["first", 1, 3], ["keyed", 3], ["inline", 2]], [["keyed", 3], ["raise"]]],
                            [],
                        ],
                        ["parallel", [[["first", 1, 0]]]],
                        ["named", 1],
                    ],
                ]
            ],
        ],
        ["loop", 1, [["run", 1]]],
    ],
    Way(seed=0, linger_s=0.0, write_behind=True, interruptions=True),
    2,
)
"""The time of a scope that had failed was over before that was written."""

OPENED_IN_TURN = (
    [
        ["told", None, [[["both", 2, [["now"], ["emit"], ["peek"]]]], [["both", 0, []], ["any", [[]]]]]],
        ["told", 20, [[]]],
    ],
    Way(seed=2668, interruptions=True),
    5,
)
"""Scopes were opened, and events of the flow's own made, in an order that another branch saw."""

RACES: dict[str, tuple[list[Any], Way, int]] = {
    "held while closing": HELD_WHILE_CLOSING,
    "closed first": CLOSED_FIRST,
    "decided while closing": DECIDED_WHILE_CLOSING,
    "late while failing": LATE_WHILE_FAILING,
    "opened in turn": OPENED_IN_TURN,
}
"""Each: the program, the way it was driven, and the event it is forked at."""
