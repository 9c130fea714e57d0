"""A double charge, a lost message and a lost wake-up in users' flows are found, made small, and had again by what is printed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

PLANTED: Final = Path(__file__).parent / "planted"
SEEDS: Final = "2000"


def loom(command: list[str], *, hash_seed: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in the folder of the planted flows, in a process that hashes texts its own way."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
    arguments = [sys.executable, "-m", "loom_cli", *command]
    return subprocess.run(arguments, cwd=PLANTED, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.proves("TST-07", "BEY-23")
@pytest.mark.parametrize(
    ("flow", "world", "broken"),
    [
        ("sell", "app:bank", "nobody is charged twice: charged 2 times"),
        ("basket", "app:shoppers", "a message of item to run was taken in, and never received"),
        ("ship", "app:till", "the run does not end, as it does when nothing goes wrong: it is suspended"),
    ],
)
def test_a_planted_fault_is_found_made_small_and_had_again(flow: str, world: str, broken: str) -> None:
    found = loom(["torture", flow, "--world", world, "--seeds", SEEDS, "--json"], hash_seed="1")

    assert found.returncode == 1, found.stderr
    finding: dict[str, Any] = json.loads(found.stdout)["finding"]
    assert broken in {each["what"] for each in finding["broken"]}
    assert 1 <= len(finding["faults"]) < 10

    program, *command = shlex.split(finding["command"])
    again = [loom([*command, "--json"], hash_seed=hash_seed) for hash_seed in ("2", "3")]

    assert (program, [each.returncode for each in again]) == ("loom", [1, 1])
    assert again[0].stdout == again[1].stdout
    assert json.loads(again[0].stdout)["broken"] == finding["broken"]


@pytest.mark.proves("BEY-23")
def test_a_flow_that_is_right_survives() -> None:
    done = loom(["torture", "sell_well", "--world", "app:bank", "--seeds", "150"], hash_seed="1")

    assert done.returncode == 0
    assert all(line.startswith("simulated ") for line in done.stderr.splitlines())
    assert "150 seeds in" in done.stdout


def test_a_parent_and_its_children_are_simulated_without_a_stand_in() -> None:
    survives = loom(["torture", "parcels", "--seeds", "50"], hash_seed="1")
    told = loom(["torture", "parcels", "--seed", "1", "--schedule", ""], hash_seed="1")

    assert (survives.returncode, survives.stderr) == (0, "")
    assert "MESSAGE_RECEIVED" in told.stdout


def test_a_step_for_which_nothing_can_be_made_up_is_refused_with_what_to_write() -> None:
    refused = loom(["torture", "weighing"], hash_seed="1")

    assert refused.returncode == 2
    assert "the step weigh: it does not say what it returns" in refused.stderr
    assert "try: Say it, as in `-> int`. Or: Give it a stand-in, World(steps={'weigh': ...})" in refused.stderr


def test_one_simulation_is_told_moment_by_moment() -> None:
    command = ["torture", "sell", "--world", "app:bank", "--seed", "5", "--schedule", "step.1:crash-after"]

    done = loom(command, hash_seed="1")

    assert done.returncode == 1
    told = [line.split(maxsplit=2)[-1] for line in done.stdout.splitlines()]
    assert told.index("charge has happened") < told.index("step.1:crash-after (charge)")
    assert told.count("charge begins, attempt 1") == 2
    assert "the process dies right after step 1, before anybody is told" in done.stdout
