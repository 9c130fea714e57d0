"""The version of the installed package, in a millisecond."""

from __future__ import annotations

import os
import sys


def version() -> str:
    """Return the version that pyproject.toml gives the package."""
    # The folder's name says it: importlib.metadata would take longer than all of `loom --version`.
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208  # pathlib takes longer to import than all this
        except OSError:
            continue
        for name in names:
            if name.startswith("loom_runtime-") and name.endswith(".dist-info"):
                return name.removeprefix("loom_runtime-").removesuffix(".dist-info")
    import importlib.metadata

    return importlib.metadata.version("loom-runtime")
