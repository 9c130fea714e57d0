"""A process is gone when that is proved, and never because it is likely."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loom.spi.host import ProcessName, SystemHost, VirtualHost

LINUX = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="this system does not tell when a process began"
)


def mine() -> ProcessName:
    name = ProcessName.parse(SystemHost().name())
    assert name is not None
    return name


@LINUX
@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_was_killed_is_gone_before_anybody_has_waited_for_it(signalled: signal.Signals) -> None:
    told = "import loom.spi.host as h, time; print(h.SystemHost().name(), flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", told], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        lived = SystemHost().is_gone(name)
        process.send_signal(signalled)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        as_zombie = SystemHost().is_gone(name)
        process.wait()

    assert (lived, as_zombie, SystemHost().is_gone(name)) == (False, True, True)


@LINUX
def test_a_process_that_has_got_the_number_of_another_is_not_taken_for_it() -> None:
    me = mine()

    assert not SystemHost().is_gone(str(me))
    assert SystemHost().is_gone(str(me._replace(start="1")))


@LINUX
@pytest.mark.parametrize(
    ("unknown", "value"),
    [("space", "pid:[1]"), ("start", ""), ("boot", ""), ("machine", "another:machine")],
)
def test_what_is_not_known_proves_nothing(unknown: str, value: str) -> None:
    me = ProcessName(**{**mine()._asdict(), unknown: value})
    lost = me if unknown == "start" else me._replace(pid=4_194_303 + 1)
    lost = lost._replace(boot="another") if unknown == "machine" else lost

    assert not SystemHost().is_gone(str(lost))


@pytest.mark.parametrize("text", ["", "worker-1", "a/b/c/d/e", "a/b/c/-1/e", "a/b/c/²/e", "a/b/c/1"])
def test_a_name_of_another_kind_is_of_nobody_that_is_gone(text: str) -> None:
    assert not SystemHost().is_gone(text)


@LINUX
def test_another_boot_of_this_machine_took_all_its_processes_with_it() -> None:
    assert SystemHost().is_gone(str(mine()._replace(boot="the one before")))
    assert not SystemHost().is_gone(str(mine()._replace(boot="the one before", machine="")))


def test_a_child_is_another_process() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        theirs = ProcessName.parse(pool.apply(SystemHost().name))

    assert theirs is not None
    assert theirs.boot == mine().boot
    assert theirs.pid != mine().pid


def test_no_two_names_are_the_same() -> None:
    names = [SystemHost().name() for _ in range(100)]

    assert len(set(names)) == 100
    assert {ProcessName.parse(name) for name in names} == {mine()}


def test_a_name_is_parsed_back_whatever_its_parts_hold() -> None:
    name = ProcessName("a/b%2F é", "", "pid:[1] time:[2]", 17, "")

    assert ProcessName.parse(f"{name}/more/of it") == name


def test_its_clock_goes_on_and_is_not_that_of_the_wall() -> None:
    before = SystemHost().boottime_s()

    assert before <= SystemHost().boottime_s() < time.time()


def test_a_virtual_host_is_as_the_test_says() -> None:
    host = VirtualHost("here")
    host.gone.add("there/1")
    host.advance(2.5)

    assert ([host.name(), host.name()], host.boottime_s()) == (["here/1", "here/2"], 2.5)
    assert [host.is_gone(name) for name in ("there/1", "there/2", "here/1")] == [True, False, False]
