"""What all tests share: how hypothesis searches, where other randomness comes from, and where files lie."""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.forked import Forks
from tests.memory import keep_files_in_memory

# Every run looks somewhere new; a failure prints the blob that repeats it. Speed is no property of an example.
settings.register_profile("local", deadline=None, print_blob=True, max_examples=50)
settings.register_profile(
    "ci", deadline=None, print_blob=True, max_examples=300, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "local"))

keep_files_in_memory()

# Who starts the suite in the background has it ignore Ctrl-C, and so would each command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have no look for garbage go through all tests and what they import: neither while these become more nor afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed for all randomness of a test that is not hypothesis's; a failure says how to have it again."""
    chosen = int(os.environ.get("LOOM_TEST_SEED") or secrets.randbits(32))
    request.node.add_report_section("call", "seed", f"LOOM_TEST_SEED={chosen} repeats this run")
    return chosen


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Programs that a shell may run in place of `loom` and `python`, and that cost no start of Python each time."""
    surroundings = {"LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with Forks({**surroundings, "PATH": os.environ["PATH"]}) as forks:
        yield forks
