"""Where the store is when nobody says so in code: one rule for `sqlite_storage()` and for the `loom` command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.core.errors import InvalidDeclaration

DEFAULT_PATH: Final = Path(".loom/loom.db")
VARIABLE: Final = "LOOM_STORE"
ARCHIVE_VARIABLE: Final = "LOOM_ARCHIVE"
BUNDLE_SCHEME: Final = "bundle"
BUNDLE_SUFFIX: Final = ".loombundle"


class StoreName(NamedTuple):
    """What names the store: *text* as it was written (empty: nobody says), seen from *base*, and who said it."""

    text: str
    base: Path
    named_by: str


class StoreLocation(NamedTuple):
    """A database file, and who named it: `--store`, `LOOM_STORE`, the pyproject.toml, or nobody."""

    path: Path
    named_by: str


def store_location(
    given: str | None = None, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> StoreLocation:
    """Return where the store is, seen from *folder* (None: the working directory).

    The first of these that is there: *given* (a path or `sqlite:` URL), the variable `LOOM_STORE`, `[tool.loom] store`
    in the nearest pyproject.toml (relative to it), `.loom/loom.db` beside that file when it has a `[tool.loom]`, else here.

    Raises:
        InvalidDeclaration: it is no path and no SQLite URL, or the pyproject.toml cannot be read.
    """
    text, base, named_by = store_name(given, folder=folder, environ=environ)
    return StoreLocation(base / (path_of(text) if text else DEFAULT_PATH), named_by)


def store_name(
    given: str | None = None, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> StoreName:
    """Return what names the store, of whatever kind it is; see `store_location`.

    Raises:
        InvalidDeclaration: the pyproject.toml cannot be read.
    """
    folder = folder or Path.cwd()
    if (name := _named("store", VARIABLE, given, folder=folder, environ=environ)) is not None:
        return name
    # A project's store is one, from whichever of its folders it is looked for.
    project = nearest_project(folder)
    home = project.parent if project is not None and loom_table(project) else folder
    return StoreName("", home, "the default")


def archive_name(
    given: str | None = None, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> StoreName | None:
    """Return what names the archive, None where nobody does: it is never implied by the store.

    The first of these that is there: *given*, the variable `LOOM_ARCHIVE`, `[tool.loom] archive` in the nearest pyproject.toml.

    Raises:
        InvalidDeclaration: the pyproject.toml cannot be read.
    """
    return _named("archive", ARCHIVE_VARIABLE, given, folder=folder or Path.cwd(), environ=environ)


def _named(
    key: str, variable: str, given: str | None, *, folder: Path, environ: Mapping[str, str] | None
) -> StoreName | None:
    """Return what names the store that is set as *key*, None where nobody does."""
    if given:
        return StoreName(given, folder, f"--{key}")
    named = (os.environ if environ is None else environ).get(variable)
    if named:
        return StoreName(named, folder, variable)
    project = nearest_project(folder)
    if project is not None and (written := loom_table(project).get(key)) is not None:
        return StoreName(_text(key, written, project), project.parent, f"[tool.loom] {key} in {project}")
    return None


def path_of(store: str) -> Path:
    """Return the path that a store's name is: a path, `sqlite:path`, `sqlite:///relative` or `sqlite:////absolute`.

    Raises:
        InvalidDeclaration: it is the URL of something else.
    """
    scheme, colon, rest = store.partition(":")
    if scheme == "sqlite" and colon:
        if rest.startswith("//") and not rest.startswith("///"):
            raise InvalidDeclaration(f"{store!r} names a host", hint="Write sqlite:///relative or sqlite:////absolute.")
        store = rest.removeprefix("///")
    elif "://" in store:
        # Not the whole of it: such a URL may hold a password.
        hint = "Give a path, or sqlite:///path."
        if is_postgres(store):
            hint = "A Postgres database is used with loom.postgres_storage()."
        raise InvalidDeclaration(f"{scheme + '://'!r} begins no store that is known here", hint=hint)
    if not store:
        raise InvalidDeclaration("the name of the store is empty", hint="Give a path, or sqlite:///path.")
    must_name_a_file(store)
    try:
        return Path(store).expanduser()
    except RuntimeError as error:
        raise InvalidDeclaration(f"{store!r} names a home that is not known", hint="Write the path out.") from error


def must_name_a_file(path: str | os.PathLike[str]) -> None:
    """Refuse what SQLite takes for something else than a file of that name.

    Raises:
        InvalidDeclaration: it is empty, or begins like a URI or a database in memory.
    """
    if not os.fspath(path) or os.fspath(path).startswith((":", "file:")):
        raise InvalidDeclaration(f"{path!r} names no file", hint="Give a path, or use MemoryStorage for memory.")


def is_postgres(store: str) -> bool:
    """Whether the name of a store is that of a Postgres database."""
    scheme, separator, _ = store.partition("://")
    return bool(separator) and scheme.lower() in {"postgresql", "postgres"}


def is_bundle(store: str) -> bool:
    """Whether the name of a store is that of a run bundle: `bundle:path`, or a path with the ending of one."""
    return store.startswith(f"{BUNDLE_SCHEME}:") or (store.endswith(BUNDLE_SUFFIX) and "://" not in store)


def bundle_path(store: str) -> Path:
    """Return the file that the name of a bundle stands for.

    Raises:
        InvalidDeclaration: it is empty, or names a home that is not known.
    """
    return path_of(store.removeprefix(f"{BUNDLE_SCHEME}:"))


def nearest_project(folder: Path) -> Path | None:
    """Return the pyproject.toml of *folder* or of the nearest folder above it."""
    for each in (folder, *folder.parents):
        if (file := each / "pyproject.toml").is_file():
            return file
    return None


def loom_table(project: Path) -> dict[str, Any]:
    """Return `[tool.loom]` of a pyproject.toml, empty when there is none.

    Raises:
        InvalidDeclaration: the file is no TOML, or the table is none.
    """
    import tomllib

    try:
        table = tomllib.loads(project.read_text("utf-8")).get("tool", {}).get("loom", {})
    except (OSError, ValueError, AttributeError) as error:
        raise InvalidDeclaration(f"{project} cannot be read: {error}", hint="Mend the file.") from error
    if not isinstance(table, dict):
        raise InvalidDeclaration(f"[tool.loom] in {project} is no table", hint="Write [tool.loom] and keys below it.")
    return table


def _text(key: str, value: object, project: Path) -> str:
    if not isinstance(value, str):
        raise InvalidDeclaration(f"[tool.loom] {key} in {project} is {value!r}, no text", hint="Give a path.")
    return value
