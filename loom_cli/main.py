"""`loom`: from the arguments of the process to its exit status. Everything is imported when it is needed.

`main` alone owns errors: whatever a command raises becomes `error[code]: what happened`, `try: what to do`, and a status.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from loom_cli.cli import Cli


def main(argv: Sequence[str] | None = None, *, cli: Cli | None = None) -> int:
    """Run the command line *argv* (None: that of the process) and return its exit status; a test brings its *cli*."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        from loom_cli.version import version

        arguments = []
        print(f"loom {version()}")  # noqa: T201  # before anything that could draw is imported
        return 0
    from loom_cli.running import run

    return run(arguments, cli)
