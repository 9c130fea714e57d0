"""The files of the page, read once from the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def page_files() -> Mapping[str, str]:
    """Return the files by name: what is not among them cannot be asked for, whatever its name looks like."""
    folder = files("loom_cli.web").joinpath("page")
    return {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.is_file()}
