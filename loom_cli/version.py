"""The version of the installed package, in a millisecond."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing would take longer than the rest
    from typing import TextIO


def print_version(out: TextIO | None) -> int:
    """Print the version and return the exit status; a closed pipe, or no output at all, is no fault."""
    if out is None:  # the shell closed it, as in >&-
        return 0
    try:
        out.write(f"loom {version()}\n")
        out.flush()
    except OSError as refused:
        abandon(out)
        if not isinstance(refused, BrokenPipeError):
            from loom_cli.running import refused_output

            return refused_output(refused)
    return 0


def abandon(stream: TextIO) -> None:
    """Let nothing be written to *stream* at exit, where Python would complain that nobody reads."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
    except (AttributeError, OSError, ValueError):  # a stream that is no file
        return
    os.close(nowhere)


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
