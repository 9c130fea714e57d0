"""What the static check finds, and by which rules."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


class Rule(NamedTuple):
    """A rule: its stable id, how grave a breach is, what it finds, and what to write instead."""

    id: str
    severity: Severity
    finds: str
    instead: str


_TABLE: Final[tuple[tuple[str, Severity, str, str], ...]] = (
    (
        "clock",
        "error",
        "a clock read in a flow: every replay reads another time",
        "`ctx.now()`, or read it in a step",
    ),
    (
        "random",
        "error",
        "a random draw in a flow: every replay draws anew",
        "`ctx.random()`, `ctx.uuid()`, `random.Random(ctx.random())`, or `ctx.decide`",
    ),
    (
        "environment",
        "error",
        "an environment variable, or what differs from machine to machine, asked in a flow",
        "ask it in a step, or hand it in with the input",
    ),
    (
        "identity",
        "error",
        "`id()` or `hash()`: another number in every process",
        "a field of the value, or `hashlib` over its text",
    ),
    (
        "import-time",
        "warning",
        "a value of the module that a clock, chance, the environment or a file gave when it was imported",
        "ask for it in a step, or hand it in with the input",
    ),
    ("io", "error", "a file, a folder, a database or the terminal touched by a flow", "do it in a step"),
    ("network", "error", "a network reached by a flow", "do it in a step"),
    ("process", "error", "a process started or signalled by a flow", "do it in a step"),
    (
        "threads",
        "error",
        "threads or processes that do the work of a flow",
        "a plain `def` step: Loom runs it in a thread of its own",
    ),
    (
        "sleep",
        "error",
        "a sleep that is not recorded: it is slept again at every replay",
        "`await ctx.sleep(...)`, which outlives the process",
    ),
    (
        "bare-concurrency",
        "error",
        "asyncio's own concurrency or time limits: who comes first is not recorded, and `ctx` is refused there",
        "`ctx.parallel`, `ctx.map`, `ctx.select`, `ctx.scope(timeout=...)`, or the `timeout` of the step",
    ),
    (
        "foreign-await",
        "error",
        "an await that is no syscall of `ctx` and no coroutine of your own: its outcome is not recorded",
        "await it in a step",
    ),
    (
        "not-async",
        "error",
        "a flow that is no `async def`: it is refused when it is imported",
        "`async def`, and `await` before what is asked of `ctx`",
    ),
    (
        "foreign-context",
        "error",
        "`ctx` used in, or handed to, a step or a chooser",
        "use `ctx` in the flow, and hand the step the value; about its attempt a step asks a `loom.StepContext`",
    ),
    (
        "bare-step",
        "error",
        "a step called as a plain function: nothing is recorded, and it runs again at every replay",
        "`await ctx.run(step, ...)`",
    ),
    (
        "not-a-step",
        "error",
        "`ctx.run` of a plain function without a label: it is refused when it runs",
        '`await ctx.run("label", function, ...)`, or declare it with `@loom.step`',
    ),
    (
        "not-awaited",
        "error",
        "a syscall or a coroutine that is called and not awaited: it never runs",
        "put `await` before it",
    ),
    (
        "set-order",
        "error",
        "the order of a set: it differs from process to process",
        "`sorted(...)`, or a list or dict, which keep their order",
    ),
    (
        "global-mutation",
        "error",
        "state outside the flow that the flow changes: it is changed again at every replay, for all runs at once",
        "a local variable, or the result of a step",
    ),
    (
        "shared-state",
        "warning",
        "state of a module that other code changes, read by a flow",
        "read it in a step, or hand it in with the input",
    ),
    (
        "mutable-default",
        "error",
        "a default value that grows from call to call, and so from run to run",
        "`None`, and make a new one inside",
    ),
    (
        "loop-id",
        "error",
        "a durable call in a loop whose explicit id cannot vary: each turn is served the first outcome",
        'put what varies into the id, as in `step.named(f"fetch#{i}")` or `step.keyed(item.id)`, or leave it off',
    ),
    (
        "broad-except",
        "error",
        "a handler that swallows the signal by which Loom puts a flow away, or cancels it",
        "`except Exception`, or `raise` at its end",
    ),
    (
        "effect-class",
        "error",
        "an effect of a greater class than is declared, or a declaration that contradicts itself",
        "declare what it does: `reads=True` changes nothing anywhere; `idempotent=False` is started once",
    ),
    (
        "no-key",
        "warning",
        "a step that is tried again and posts without an idempotency key: the other side may count it twice",
        "hand over `step.idempotency_key`, or declare `idempotent=False`",
    ),
    (
        "log",
        "warning",
        "output that appears again at every replay",
        "`ctx.log`, which is silent while the flow replays",
    ),
    ("syntax", "error", "a file that is not Python", "mend it"),
    (
        "allow",
        "error",
        "an allow comment without a reason, for no such rule, or for something that is not there",
        "`# loom: allow[rule] reason` on the line, or alone on the line above; remove it when it is not needed",
    ),
)

RULES: Final = {row[0]: Rule(*row) for row in _TABLE}
"""All rules by id, in the order of the guide."""


class Change(NamedTuple):
    """What `--fix-hints` prints: the lines from *line* on, *before* and *after*."""

    line: int
    before: str
    after: str


class Way(NamedTuple):
    """A function on the way from a flow to what is found, the flow first."""

    name: str
    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.path}:{self.line})"


class Finding(NamedTuple):
    """A breach of *rule*, where it stands (lines and columns from 1), and how a flow comes to it (*via*)."""

    path: str
    line: int
    column: int
    rule: str
    message: str
    end_line: int = 0
    end_column: int = 0
    via: tuple[Way, ...] = ()
    change: Change | None = None

    @property
    def key(self) -> tuple[str, int, int, str]:
        """Where it stands, and what it is: there is one finding a rule and place."""
        return self.path, self.line, self.column, self.rule

    @property
    def severity(self) -> Severity:
        """How grave it is."""
        return RULES[self.rule].severity

    @property
    def fix(self) -> str:
        """What to write instead."""
        return RULES[self.rule].instead
