"""Files that a command makes for its user: inside one folder, through no link, each whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from loom_cli.errors import CommandRefused
from loom_cli.exits import ExitCode

if TYPE_CHECKING:
    from loom.devtools.scaffold import FileMap


class FolderTaken(CommandRefused):
    """What is to be made is there already; it was left as it is."""

    code = "folder-taken"

    def __init__(self, *, path: str, found: str, hint: str = "") -> None:
        self.path, self.found = path, found
        self.hint = hint or "Choose another name, or another folder with --in DIR; nothing was written."
        super().__init__(f"{path} is {found}")


class LinkInTheWay(CommandRefused):
    """Writing there would change a file somewhere else."""

    code = "link-in-the-way"
    hint = "Put a plain file or folder in its place; nothing was written."

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path} is a link, and what it leads to is not ours to write")


class FileNotUsable(CommandRefused):
    """The system refused to read or write a file."""

    code = "file-not-usable"
    exit_code = ExitCode.FAILED
    hint = "Look at its permissions and at the space on the disk."

    def __init__(self, *, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


def template_files(name: str) -> dict[str, str]:
    """Return the templates in the folder *name*, by path. An editable install reads those of the repository."""
    import importlib.resources

    shipped = importlib.resources.files("loom_cli") / "_templates" / name
    folder = Path(str(shipped)) if shipped.is_dir() else Path(__file__).resolve().parent.parent / "templates" / name
    with told(folder):
        return {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(folder.rglob("*.jinja"))
        }


def existing_texts(folder: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the text of those *paths* below *folder* that are there, with their line ends.

    Raises:
        LinkInTheWay: one of them is a link, or lies behind one.
        FolderTaken: something that is no file has its name.
    """
    found: dict[str, str] = {}
    for path in paths:
        _refuse_links(folder, path)
        file = folder / path
        if file.is_dir():
            raise FolderTaken(path=path, found="a folder", hint="A file is to have this name; nothing was written.")
        if file.exists():
            with told(file):
                found[path] = file.read_bytes().decode("utf-8", "replace")
    return found


def write_texts(folder: Path, files: FileMap) -> None:
    """Write *files* below *folder*, their line ends as they are; each is replaced in one move.

    Raises:
        LinkInTheWay: one of them is a link, or lies behind one; nothing was written.
    """
    for path in files:
        _refuse_links(folder, path)
    for path, text in files.items():
        with told(folder / path):
            _replace(folder / path, text)


def make_folder(folder: Path, files: FileMap) -> None:
    """Make *folder* with *files* in it, all of them or nothing. An empty folder may be there already.

    Raises:
        FolderTaken: there is a link, a file, or a folder with something in it.
    """
    if folder.is_symlink():
        raise FolderTaken(path=str(folder), found="a link")
    with told(folder):
        if folder.exists() and not folder.is_dir():
            raise FolderTaken(path=str(folder), found="a file")
        if folder.is_dir() and any(folder.iterdir()):
            raise FolderTaken(path=str(folder), found="a folder that is not empty")
        making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            made = making / folder.name
            made.mkdir()  # with the permissions that folders have here; those of mkdtemp are for one user alone
            write_texts(made, files)
            if folder.is_dir():
                folder.rmdir()
            made.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)


def _refuse_links(folder: Path, path: str) -> None:
    parts = PurePosixPath(path).parts
    assert ".." not in parts, "paths lead downward"
    assert not PurePosixPath(path).is_absolute(), "paths are relative"
    for count in range(1, len(parts) + 1):
        if folder.joinpath(*parts[:count]).is_symlink():
            raise LinkInTheWay(path="/".join(parts[:count]))


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        written.write_bytes(text.encode("utf-8"))
        if file.exists():
            shutil.copymode(file, written)
        written.replace(file)
    finally:
        written.unlink(missing_ok=True)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what the system refuses about *path* into `FileNotUsable`."""
    try:
        yield
    except OSError as error:
        raise FileNotUsable(path=str(path), problem=error.strerror or str(error)) from error
