"""Which commands there are. A line here is all that `loom --help` needs of a command; its module is imported when it runs.

A name of two words is a command of its own.
To add one: write `loom_cli/commands/NAME.py` with `app = command_app()` and a function under `@app.command()` whose
docstring begins with the summary of its row, and a full stop, and has a line `Example: loom NAME ...` that runs; then add the row.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """A command: its name, the module that has it, and the first line of its help."""

    name: str
    module: str
    summary: str


COMMANDS: Final[dict[str, tuple[Row, ...]]] = {
    "Make": (
        Row("new", "loom_cli.commands.new", "Make a project: a flow that waits for a person, and its tests"),
        Row("gen", "loom_cli.commands.gen", "Write loom_gen.py from what the folders declare"),
        Row("check", "loom_cli.commands.check", "Find what a flow must not do, without running it"),
        Row("check replay", "loom_cli.commands.check_replay", "Replay stored runs by the code as it is"),
        Row("deploy check", "loom_cli.commands.deploy_check", "Say what would become of stored runs under this code"),
        Row("torture", "loom_cli.commands.torture", "Simulate a flow where all goes wrong, and tell what breaks"),
    ),
    "Drive": (
        Row("run", "loom_cli.commands.run", "Start a flow and drive it until it ends or waits"),
        Row("worker", "loom_cli.commands.worker", "Drive what can go on, until stopped"),
        Row("resume", "loom_cli.commands.resume", "Answer a run that waits, or go on with one that was cut off"),
        Row("send", "loom_cli.commands.send", "Send a message to a run, whether it waits for it yet or not"),
        Row(
            "inbox",
            "loom_cli.commands.inbox",
            "List the unread messages of a run; hold or release a topic",
        ),
        Row("outcome", "loom_cli.commands.outcome", "Attach what came of a decision of a run, learned later"),
        Row("retry", "loom_cli.commands.retry", "Try a failed run again from its failure"),
        Row("migrate", "loom_cli.commands.migrate", "Move a run to the code as it is, and leave it where it stands"),
        Row("cancel", "loom_cli.commands.cancel", "End a run, after its clean-up"),
        Row("pause", "loom_cli.commands.pause", "Keep a run from going on, until it is unpaused"),
        Row("unpause", "loom_cli.commands.unpause", "Let a paused run go on"),
        Row("resolve", "loom_cli.commands.resolve", "Say what came of an effect in doubt"),
    ),
    "Branch": (
        Row("fork", "loom_cli.commands.fork", "Begin a run as a copy of another, to try another way"),
        Row("branch list", "loom_cli.commands.branch_list", "List a run and its forks, as a tree, with their names"),
        Row(
            "branch compare", "loom_cli.commands.diff", "Set runs side by side, by what they asked and what came of it"
        ),
        Row("branch log", "loom_cli.commands.branch_log", "Tell what a name stood for, move by move"),
        Row("promote", "loom_cli.commands.promote", "Let a branch be the one that counts"),
        Row("diff", "loom_cli.commands.diff", "Set runs side by side, by what they asked and what came of it"),
    ),
    "Keep": (
        Row("backup", "loom_cli.commands.backup", "Copy a store that is in use, all of one moment"),
        Row("bundle", "loom_cli.commands.bundle", "Write runs to one file, which opens as a store"),
        Row("import", "loom_cli.commands.import_", "Bring the runs of a bundle into a store"),
        Row("compact", "loom_cli.commands.compact", "Move the first part of logs to an archive"),
        Row(
            "rows update",
            "loom_cli.commands.rows_update",
            "Bring the rows of read models up to date, now",
        ),
        Row(
            "rows erase",
            "loom_cli.commands.rows_erase",
            "Take runs out of every read model, for good",
        ),
        Row("repair index", "loom_cli.commands.repair_index", "Rebuild what listings show of runs from their logs"),
        Row("retention run", "loom_cli.commands.retention_run", "Delete runs that ended long enough ago, by a policy"),
        Row(
            "sweep content",
            "loom_cli.commands.sweep_content",
            "Remove large results that no run needs, by a policy",
        ),
    ),
    "Look": (
        Row("ps", "loom_cli.commands.ps", "List executions, the newest first"),
        Row("show", "loom_cli.commands.show", "Say where an execution stands and what it waits for"),
        Row("why", "loom_cli.commands.why", "Say what led to a call of a run, or to its failure"),
        Row("logs", "loom_cli.commands.logs", "Print the events of an execution, or follow them"),
        Row("tail", "loom_cli.commands.tail", "Follow the events of all runs, whoever drives them"),
        Row("watch", "loom_cli.commands.watch", "Watch a run go on until it has ended"),
        Row("debug", "loom_cli.commands.debug", "Look at a run at any time of it, and inside its flow"),
        Row("inspect", "loom_cli.commands.inspect", "Look at runs in the browser: timeline, slider, state, live"),
        Row("graph", "loom_cli.commands.graph", "Draw a flow, with what a run visited of it"),
        Row(
            "content get",
            "loom_cli.commands.content_get",
            "Print a large result, or write it to a file",
        ),
        Row("gates", "loom_cli.commands.gates", "List what waits for a person, and how to answer it"),
        Row("link", "loom_cli.commands.link", "Make a link with which one gate can be answered"),
        Row("schedules", "loom_cli.commands.schedules", "List schedules and their next ticks, or the record of one"),
        Row(
            "conformance",
            "loom_cli.commands.conformance",
            "Hold an adapter to its interface",
        ),
        Row(
            "snapshot show",
            "loom_cli.commands.snapshot_show",
            "Say what a snapshot of a run is, and the state it holds",
        ),
        Row("snapshot take", "loom_cli.commands.snapshot_take", "Keep the state of a run after an event"),
        Row("snapshot list", "loom_cli.commands.snapshot_list", "List the snapshots of a run, the newest first"),
        Row("rows list", "loom_cli.commands.rows_list", "List the read models that a store has rows of"),
        Row(
            "rows show",
            "loom_cli.commands.rows_show",
            "Print the rows of a read model, by the ids of their runs",
        ),
        Row("replay", "loom_cli.commands.replay", "Replay a run by its log, and prove that nothing differs"),
        Row("doctor", "loom_cli.commands.doctor", "Say what this installation, its store and its app are"),
    ),
}
"""By what they are for, in the order of the help."""

REFUSED: Final = {
    "branch merge": (
        "there is no merge: two histories of one run cannot be made one",
        "`loom branch compare A B` sets them side by side, and `loom promote ID` lets one be the one that counts.",
    )
}
"""What is asked for and will not be there: why, and what to do instead."""

ROWS: Final = {row.name: row for rows in COMMANDS.values() for row in rows}


def family_of(word: str) -> list[Row]:
    """Return the commands of two words of which *word* is the first."""
    return [row for row in ROWS.values() if row.name.startswith(f"{word} ")]
