"""What a retention policy says: a frozen value, and an error that names what is wrong with it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration


@pytest.mark.proves("LIF-09")
def test_a_policy_is_a_frozen_value() -> None:
    policy = loom.retention_policy(terminal_ttl=timedelta(days=30))

    assert policy == loom.retention_policy(terminal_ttl=timedelta(days=30))
    assert policy.terminal_ttl == timedelta(days=30)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.terminal_ttl = timedelta(0)  # type: ignore[misc]


@pytest.mark.proves("LIF-09")
@pytest.mark.parametrize(
    ("keys", "named", "hint"),
    [
        ({"terminal_tll": timedelta(days=1)}, "'terminal_tll'", "Did you mean terminal_ttl"),
        ({"terminal_ttl": timedelta(days=1), "keep": timedelta(days=1)}, "'keep'", "There is terminal_ttl"),
        ({}, "needs terminal_ttl", "timedelta"),
        ({"terminal_ttl": 30}, "terminal_ttl=30", "a minute at least"),
        ({"terminal_ttl": timedelta(seconds=59)}, "seconds=59", "a minute at least"),
        ({"terminal_ttl": timedelta(days=-1)}, "days=-1", "a minute at least"),
        ({"terminal_ttl": timedelta(days=1), "snapshots": 0}, "snapshots=0", "one is kept at least"),
        ({"terminal_ttl": timedelta(days=1), "snapshots": True}, "snapshots=True", "one is kept at least"),
        ({"terminal_ttl": timedelta(days=1), "snapshots": {"keep_latest": 3}}, "keep_latest", "snapshots=3"),
        ({"terminal_ttl": timedelta(days=1), "content": 30}, "content=30", "a minute at least"),
        (
            {"terminal_ttl": timedelta(days=9), "content": timedelta(days=8)},
            "is shorter than terminal_ttl",
            "as long as",
        ),
        ({"terminal_ttl": timedelta(days=9), "pins": ["r1"]}, "names no pins", "loom.PinPredicate"),
    ],
)
def test_what_is_wrong_is_named(keys: dict[str, Any], named: str, hint: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        loom.retention_policy(**keys)

    assert named in str(refused.value)
    assert hint in refused.value.hint


@pytest.mark.proves("LIF-09")
def test_a_typo_fails_when_the_module_is_imported(tmp_path: Path) -> None:
    (tmp_path / "retention.py").write_text(
        "from datetime import timedelta\nimport loom\nPOLICY = loom.retention_policy(terminal_tl=timedelta(days=1))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", "import retention"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "retention_policy() has no key 'terminal_tl'" in done.stderr


@pytest.mark.proves("LIF-10")
def test_it_is_no_slot_of_an_app() -> None:
    with pytest.raises(TypeError, match="retention"):
        loom.define_config(retention=loom.retention_policy(terminal_ttl=timedelta(days=1)))  # type: ignore[call-arg]
