"""What each rule finds, and what to write instead."""

from __future__ import annotations

from typing import Final

RULES: Final[dict[str, tuple[str, str]]] = {
    "clock": ("a clock read in a flow: every replay reads another time", "`ctx.now()`, or read it in a step"),
    "random": (
        "a random draw in a flow: every replay draws anew",
        "`ctx.random()`, `ctx.uuid()`, `random.Random(ctx.random())`, or `ctx.decide`",
    ),
    "environment": (
        "what differs from machine to machine, asked in a flow",
        "ask it in a step, or hand it in with the input",
    ),
    "identity": (
        "`id()` or `hash()`: another number in every process",
        "a field of the value, or `hashlib` over its text",
    ),
    "io": ("a file, a folder, a database or the terminal touched by a flow", "do it in a step"),
    "network": ("a network reached by a flow", "do it in a step"),
    "process": ("a process started or signalled by a flow", "do it in a step"),
    "threads": ("threads that do the work of a flow", "a plain `def` step: Loom runs it in a thread of its own"),
    "sleep": ("a sleep that is not recorded", "`await ctx.sleep(...)`, which outlives the process"),
    "bare-concurrency": ("asyncio's own concurrency", "`ctx.parallel`, `ctx.map`, `ctx.select`, or `ctx.scope`"),
    "foreign-await": ("an await whose outcome is not recorded", "await it in a step"),
    "bare-step": ("a step called as a plain function", "`await ctx.run(step, ...)`"),
    "set-order": ("the order of a set: it differs from process to process", "`sorted(...)`, or a list or dict"),
    "global-mutation": ("state outside the flow that the flow changes", "a local variable, or the result of a step"),
    "log": ("output that appears again at every replay", "`ctx.log`, which is silent while the flow replays"),
}
