"""What a flow may not call itself, by the rules of the static check.

A function in C is known by itself (two bound methods of one object are equal), one in Python by its code. What is neither
called from Python nor written in it, such as a file that a library in C opens, tells Python's audit hooks.
"""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import datetime
import http.client
import io
import logging
import multiprocessing.process
import os
import platform
import random
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from loom.core.step import Step

_CLOCKS: Final = (
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
    *("process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
)
_FILES: Final = (
    *("access", "chdir", "chmod", "getcwd", "link", "listdir", "lstat", "mkdir", "mkfifo", "open", "read", "readlink"),
    *("remove", "rename", "replace", "rmdir", "scandir", "stat", "statvfs", "symlink", "truncate", "unlink", "utime"),
    "write",
)
_MACHINE: Final = ("cpu_count", "getlogin", "getpid", "getppid", "getuid", "getloadavg", "times", "uname")
_PROCESSES: Final = (
    *("_exit", "abort", "execv", "execve", "fork", "forkpty", "kill", "killpg", "posix_spawn", "posix_spawnp"),
    *("system", "waitpid"),
)


def _of(module: Any, names: Iterable[str], rule: str) -> dict[Any, str]:
    return {getattr(module, name): rule for name in names if hasattr(module, name)}


IN_C: Final[Mapping[Any, str]] = {
    **_of(time, _CLOCKS, "clock"),
    datetime.datetime.now: "clock",
    datetime.datetime.utcnow: "clock",
    datetime.datetime.today: "clock",
    datetime.date.today: "clock",
    time.sleep: "sleep",
    **_of(getattr(random, "_inst"), ("random", "getrandbits"), "random"),  # noqa: B009  # no public name has it
    os.urandom: "random",
    **_of(os, _MACHINE, "environment"),
    socket.gethostname: "environment",
    builtins.id: "identity",
    builtins.hash: "identity",
    io.open: "io",
    builtins.input: "io",
    **_of(os, _FILES, "io"),
    **_of(os, _PROCESSES, "process"),
    builtins.print: "log",
}
"""The rule that a function in C breaks."""

ON_CLOCK_WITH: Final[Mapping[Any, int]] = {time.localtime: 0, time.gmtime: 0, time.ctime: 0, time.strftime: 1}
"""What reads the clock when it is called with so many arguments."""


def _codes(rule: str, *functions: Callable[..., Any] | None) -> dict[int, tuple[str, CodeType]]:
    found = [getattr(function, "__func__", function) for function in functions]
    return {id(each.__code__): (rule, each.__code__) for each in found if isinstance(each, FunctionType)}


_LOOP: Final = asyncio.base_events.BaseEventLoop

IN_PYTHON: Final[Mapping[int, tuple[str, CodeType]]] = {
    **_codes("clock", _LOOP.time),
    **_codes("sleep", asyncio.sleep),
    **_codes("random", uuid.uuid1, uuid.uuid4, uuid.getnode),
    **_codes("environment", platform.uname, platform.platform, platform.node, socket.getfqdn),
    **_codes(
        "environment",
        *(getattr(type(os.environ), name) for name in ("__getitem__", "__setitem__", "__delitem__", "__iter__")),
    ),
    **_codes("bare-concurrency", asyncio.create_task, asyncio.ensure_future, asyncio.gather, asyncio.wait),
    **_codes("bare-concurrency", asyncio.wait_for, asyncio.as_completed, asyncio.shield, asyncio.run),
    **_codes("bare-concurrency", asyncio.timeout, asyncio.timeout_at, asyncio.TaskGroup.create_task),
    **_codes("bare-concurrency", _LOOP.create_task, _LOOP.call_later, _LOOP.call_at, _LOOP.run_until_complete),
    **_codes("threads", asyncio.to_thread, _LOOP.run_in_executor, threading.Thread.start),
    **_codes("threads", concurrent.futures.ThreadPoolExecutor.__init__, concurrent.futures.ThreadPoolExecutor.submit),
    **_codes("threads", concurrent.futures.ProcessPoolExecutor.__init__, multiprocessing.process.BaseProcess.start),
    **_codes("process", subprocess.Popen.__init__, asyncio.create_subprocess_exec, asyncio.create_subprocess_shell),
    **_codes("network", asyncio.open_connection, asyncio.start_server, _LOOP.create_connection, _LOOP.getaddrinfo),
    **_codes("network", urllib.request.urlopen, http.client.HTTPConnection.__init__),  # noqa: S310  # only named
    **_codes("network", _LOOP.create_server, _LOOP.create_datagram_endpoint, socket.create_connection),
    **_codes("bare-step", Step.__call__),
    **_codes("log", getattr(logging.Logger, "_log")),  # noqa: B009  # the one way that all of them go
}
"""The rule that a function in Python breaks, by the address of its code, which stands beside it and so stays."""

_ENSURED_INSIDE: Final = getattr(asyncio.tasks, "_ensure_future", asyncio.ensure_future)
"""What `gather` calls, in Python 3.11."""

TAKES_SYSCALLS: Final[Mapping[int, str]] = {
    id(asyncio.gather.__code__): "coros_or_futures",
    id(asyncio.create_task.__code__): "coro",
    id(asyncio.ensure_future.__code__): "coro_or_future",
    id(_ENSURED_INSIDE.__code__): "coro_or_future",
    id(asyncio.TaskGroup.create_task.__code__): "coro",
    id(_LOOP.create_task.__code__): "coro",
}
"""What may be called with syscalls of `ctx`, which have their place from when they were called: by the name of that argument."""

_AUDITED: Final[Mapping[str, str]] = {
    "open": "io",
    "builtins.input": "io",
    "sqlite3.connect": "io",
    "mmap.__new__": "io",
    "time.sleep": "sleep",
    "_thread.start_new_thread": "threads",
    "os.putenv": "environment",
    "os.unsetenv": "environment",
    "socket.gethostname": "environment",
    "urllib.Request": "network",
    "pty.spawn": "process",
    **{f"os.{name}": "process" for name in (*_PROCESSES, "exec", "spawn", "startfile")},
}
_AUDITED_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("os", "shutil", "tempfile", "glob", "pathlib", "fcntl"), "io"),
    **dict.fromkeys(("socket", "http", "smtplib", "ftplib", "imaplib", "poplib", "ssl"), "network"),
    "subprocess": "process",
}


def audited(event: str, args: Sequence[Any]) -> str | None:
    """Return the rule that an event of Python's audit breaks, None: none."""
    if event == "open" and _is_table_of_zone(args[0]):
        return None
    return _AUDITED.get(event) or _AUDITED_OF.get(event.partition(".")[0])


def _is_table_of_zone(path: object) -> bool:
    """Whether `ZoneInfo` opens *path* for itself, which it does in C: a flow's own opening is known by its call."""
    return isinstance(path, str) and path.startswith(tuple(f"{folder}{os.sep}" for folder in zoneinfo.TZPATH))
