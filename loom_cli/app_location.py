"""Finding the app and importing it: by `--app`, `[tool.loom] app`, or `app.py` in the folder at hand."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from loom.app.config import LoomApp
from loom.plugins.sqlite.location import (
    VARIABLE,
    bundle_path,
    is_bundle,
    is_postgres,
    loom_table,
    nearest_project,
    path_of,
    store_name,
)
from loom.spi.event_store import Storage
from loom_cli.errors import AppNotFound, AppNotImportable, StoreNotTheApps
from loom_cli.flow_names import flow_names

GENERATED: Final = "loom_gen.py"


class AppReference(NamedTuple):
    """A module and the name of the app in it; *named_by* says who said so."""

    module: str
    attribute: str
    named_by: str


def app_reference(given: str | None, *, folder: Path) -> AppReference:
    """Return which app is meant, importing nothing.

    Raises:
        AppNotFound: nobody names one and there is no app.py, or the name is none.
    """
    if given is not None:
        return _parsed(given, "--app")
    project = nearest_project(folder)
    if project is not None and (written := loom_table(project).get("app")) is not None:
        return _parsed(str(written), f"[tool.loom] app in {project}")
    if (folder / "app.py").is_file():
        return AppReference("app", "app", "app.py")
    raise AppNotFound(f"there is no app.py in {folder}")


def load_app(given: str | None, *, store: str | None, folder: Path) -> LoomApp:
    """Import the app and return it; see `Cli.app`."""
    reference = app_reference(given, folder=folder)
    name = store_name(store, folder=folder)
    if is_bundle(name.text):
        return _on_bundle(reference, name.base / bundle_path(name.text), folder)
    wanted = _wanted(store, folder) if store is not None else None
    _importable(folder)
    with _store_named(wanted):
        app = _attribute(_imported(reference), reference)
    if wanted is not None and store_place(app.storage.url) != store_place(wanted.url):
        raise StoreNotTheApps(asked=wanted.url, app=app.storage.url)
    return app


def _on_bundle(reference: AppReference, bundle: Path, folder: Path) -> LoomApp:
    """Return the app with its code as it is, and the runs of a bundle, whatever store it is wired with."""
    from loom.plugins.bundle import BundleStorage

    _importable(folder)
    return _attribute(_imported(reference), reference).on(BundleStorage(bundle))


def named_object(text: str, named_by: str, *, folder: Path) -> Any:
    """Return what `module:attribute` stands for, imported as an app of this folder would be.

    Raises:
        AppNotFound: *text* names nothing that is there.
        AppNotImportable: its module cannot be imported.
    """
    reference = _parsed(text, named_by)
    if ":" not in text:
        raise AppNotFound(f"{named_by} is {text!r}, not module:attribute", hint="Write it as in my_package.store:make.")
    _importable(folder)
    module = _imported(reference)
    if not hasattr(module, reference.attribute):
        raise AppNotFound(f"the module {reference.module} has no {reference.attribute!r}, which {named_by} names")
    return getattr(module, reference.attribute)


def _importable(folder: Path) -> None:
    """Let the modules of the project at hand, and of *folder*, be imported."""
    project = nearest_project(folder)
    for place in (project.parent if project else folder, folder):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))


def where_declared(flow: str, *, folder: Path) -> str:
    """Return the file of the project that declares *flow*, as a path from the project's folder; empty when none does."""
    project = nearest_project(folder)
    root = project.parent if project else folder
    for file in [*sorted((root / "flows").rglob("*.py")), root / "app.py"]:
        with suppress(OSError, ValueError, SyntaxError):
            if flow in flow_names(file.read_text("utf-8")):
                return file.relative_to(root).as_posix()
    return ""


def store_file(url: str) -> Path | None:
    """Return the file behind the URL of a store, whatever way leads to it; None when it is no file."""
    scheme, _, path = url.partition(":")
    return Path(path).resolve() if scheme == "sqlite" else None


def store_place(url: str) -> Path | str | None:
    """Return where the store with that URL is: a file, a database by its URL, or None when it is neither."""
    return url if is_postgres(url) else store_file(url)


def read_only(storage: Storage) -> Storage:
    """Return the store, to read only where that can be told: one that is not there is not made."""
    if (file := store_file(storage.url)) is not None:
        from loom.plugins.sqlite import SqliteStorage

        return SqliteStorage(file, readonly=True)
    if is_postgres(storage.url):
        from loom.plugins.postgres import PostgresStorage

        return storage.reader() if isinstance(storage, PostgresStorage) else storage
    return storage


class _Wanted(NamedTuple):
    """The store that `--store` names: as the environment is to say it, and as it may be shown."""

    name: str
    url: str


def _wanted(store: str, folder: Path) -> _Wanted:
    text, base, _ = store_name(store, folder=folder)
    if is_postgres(text):
        from loom.plugins.postgres.dsn import address

        return _Wanted(text, address(text).url)
    path = base / path_of(text)
    return _Wanted(str(path), f"sqlite:{path.absolute()}")


@contextmanager
def _store_named(wanted: _Wanted | None) -> Iterator[None]:
    """Let a store without a name mean the one that is *wanted*: it asks the environment when the app is imported."""
    before = os.environ.get(VARIABLE)
    if wanted is not None:
        os.environ[VARIABLE] = wanted.name
    try:
        yield
    finally:
        if wanted is not None:
            os.environ.pop(VARIABLE)
            os.environ.update({VARIABLE: before} if before is not None else {})


def _parsed(text: str, named_by: str) -> AppReference:
    module, colon, attribute = text.partition(":")
    parts = [*module.split("."), attribute if colon else "app"]
    if not all(part.isidentifier() for part in parts):
        raise AppNotFound(f"{named_by} is {text!r}, not module:attribute", hint="Write it as in --app app:app.")
    return AppReference(module, parts[-1], named_by)


def _imported(reference: AppReference) -> ModuleType:
    try:
        return importlib.import_module(reference.module)
    except ModuleNotFoundError as error:
        if error.name and (reference.module == error.name or reference.module.startswith(f"{error.name}.")):
            raise AppNotFound(f"there is no module {reference.module!r}, which {reference.named_by} names") from error
        raise _broken(reference, error) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the author's module is arbitrary code, and may raise what is no Exception
        raise _broken(reference, error) from error


def _broken(reference: AppReference, error: BaseException) -> AppNotImportable:
    file, line = _place(reference, error)
    told = error.msg if isinstance(error, SyntaxError) else str(error)
    kind = type(error).__name__
    told = f"{kind}: {told}" if told else kind
    is_generated = Path(file).name == GENERATED and isinstance(error, ImportError)
    hint = f"{GENERATED} lists what is there no more: loom gen" if is_generated else getattr(error, "hint", "")
    return AppNotImportable(module=reference.module, file=file, line=line, error=told, hint=hint)


def _place(reference: AppReference, error: BaseException) -> tuple[str, int]:
    """Return the author's own line that failed: the last one before libraries took over."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 0
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    ours = [f for f in frames if f.filename != __file__ and not is_installed(f.filename)]
    if not ours:
        return reference.module, 0
    return ours[-1].filename, ours[-1].lineno or 0


def is_installed(filename: str) -> bool:
    """Whether a file belongs to Python, to Loom or to an installed package, and not to the author."""
    inside = (sys.prefix, sys.base_prefix, str(Path(__file__).parent.parent / "loom"), str(Path(os.__file__).parent))
    return "site-packages" in filename or filename.startswith(tuple(f"{folder}{os.sep}" for folder in inside))


def _attribute(module: ModuleType, reference: AppReference) -> LoomApp:
    found: Any = getattr(module, reference.attribute, None)
    if isinstance(found, LoomApp):
        return found
    apps = sorted(name for name, value in vars(module).items() if isinstance(value, LoomApp))
    hint = f"--app {reference.module}:{apps[0]}" if apps else "app = loom.define_config(flows=[...])"
    what = f"has no {reference.attribute!r}" if found is None else f"has no app in {reference.attribute!r}"
    raise AppNotFound(f"the module {reference.module} {what}", hint=hint)
