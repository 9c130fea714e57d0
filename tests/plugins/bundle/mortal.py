"""The command, killed with SIGKILL when it writes or reads its Nth part: `python -m tests.plugins.bundle.mortal N COMMAND ...`."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import Any

from loom.plugins.bundle.file import BundleFile
from loom.plugins.bundle.writing import Pen
from loom_cli.main import main


def dies_at(kind: type[Any], name: str, place: int) -> None:
    """Have the process die when the method *name* is called for the *place*th time."""
    kept, calls = getattr(kind, name), itertools.count(1)

    def mortal(*given: Any) -> Any:
        if next(calls) == place:
            os.kill(os.getpid(), signal.SIGKILL)
        return kept(*given)

    setattr(kind, name, mortal)


if __name__ == "__main__":
    place = int(sys.argv[1])
    dies_at(BundleFile, "records", place)
    dies_at(Pen, "member", place)
    sys.exit(main(sys.argv[2:]))
