"""`loom`: from the arguments of the process to its exit status. Everything is imported when it is needed.

`main` alone owns errors: whatever a command raises becomes `error[code]: what happened`, `try: what to do`, and a status.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself takes as long as all of `loom --version`
    from collections.abc import Sequence

    from loom_cli.cli import Cli

_COLLECT_AFTER = 20_000
"""Objects made before garbage is looked for. Python's 700 means dozens of looks while modules are imported."""

_WHERE_APPS_COME_FROM = "loom_cli.app_location"
"""Where this was not imported, nothing of an author's is alive when the process ends, and no object has anything left to do.

Python would then look for garbage among all that was imported, which takes a short command a tenth of its time.
"""


def main(argv: Sequence[str] | None = None, *, cli: Cli | None = None) -> int:
    """Run the command line *argv* (None: that of the process) and return its exit status; a test brings its *cli*."""
    is_process = argv is None
    if argv is None:
        argv = sys.argv[1:]
        gc.set_threshold(_COLLECT_AFTER)
    if argv and argv[0] in ("--version", "-V"):
        from loom_cli.version import print_version

        return print_version(sys.stdout)
    from loom_cli.running import run

    status = run(list(argv), cli)
    if is_process and _WHERE_APPS_COME_FROM not in sys.modules:
        gc.freeze()
    return status
