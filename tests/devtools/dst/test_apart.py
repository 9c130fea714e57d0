"""The simulation is for developing: nothing that runs in production can import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house import ROOT, sources

OUTSIDE = ("loom/devtools/",)


@pytest.mark.proves("TST-09")
def test_no_module_outside_devtools_names_the_simulation() -> None:
    named = [s.path for s in sources("loom") if not s.path.startswith(OUTSIDE) and "devtools.dst" in s.text]

    assert named == []


@pytest.mark.proves("TST-09")
def test_an_app_that_runs_loads_nothing_of_it() -> None:
    code = (
        "import asyncio, sys, loom\n"
        "@loom.flow\n"
        "async def hello(ctx: loom.Context) -> int:\n"
        "    return await ctx.run('one', lambda: 1)\n"
        "app = loom.define_config(flows=[hello])\n"
        "asyncio.run(app.runtime.start(hello))\n"
        "print([name for name in sys.modules if name.startswith('loom.devtools')])\n"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
