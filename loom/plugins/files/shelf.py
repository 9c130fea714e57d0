"""A folder of contents, as plain calls that block: what lies where, and in which order it gets there.

    ab/ab12...        a content; the time of its last change is its touch
    ab/ab12....cited  who cites it: one line of JSON a citation, only ever added to; the last one of a citer counts
    ab/lock           held by whoever puts, touches, cites or removes a content in this folder
    incoming/         what is still being written

A content gets its name when all of it is on disk. Removing takes the citations first: what a crash leaves between the two is a
content that nobody cites. Under the lock a touch is compared and changed by one process at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from loom.core.ids import ContentRef, ExecutionId, Incarnation
from loom.spi.content_store import LEFT_BEHIND_MS, Citation, Citer, Content, next_touch
from loom.spi.errors import StoreUnavailable

if sys.platform != "win32":
    import fcntl

CAN_LOCK: Final[bool] = sys.platform != "win32"
"""Without the lock nothing can be removed safely, so nothing is."""

LOCK_WAIT_S: Final = 10.0
_LOCK_PAUSE_S: Final = 0.002
_NAME_LENGTH: Final = 64
_INCOMING: Final = "incoming"
_CITED: Final = ".cited"


class Shelf:
    """The folder *root*; *now_ms* is the time by which touches are told.

    Raises (every method):
        OSError: what the file system says.
        StoreUnavailable: another process kept a lock for too long.
    """

    def __init__(self, root: Path, now_ms: Callable[[], int]) -> None:
        self.root, self._now_ms = root, now_ms
        self.url = f"files:{root}"

    # -- in ------------------------------------------------------------------------------------------------------

    def draft(self) -> Draft:
        """Return an empty file to be written to."""
        incoming = self.root / _INCOMING
        if not incoming.is_dir():
            _make_folder(incoming)
        return Draft(incoming / uuid.uuid4().hex, self._now_ms)

    def touched(self, ref: ContentRef, size: int) -> Content | None:
        """Touch a content; None when it is not there with all of its *size*, or other bytes are in its place."""
        if not self._is_whole(ref, size):
            return None
        with self._alone(ref):
            return self._touched(ref, size)

    def _is_whole(self, ref: ContentRef, size: int) -> bool:
        """Whether a content is there, and is what its name says: then it need not be written again."""
        path = self._folder(ref) / ref
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), path.open("rb") as file:
            return os.fstat(file.fileno()).st_size == size and hashlib.file_digest(file, "sha256").hexdigest() == ref
        return False

    def place(self, draft: Draft, ref: ContentRef) -> Content:
        """Make a finished draft the content at *ref*; where that is there already, it is touched and the draft goes.

        One whose bytes are not those that were put is replaced.
        """
        folder = self._folder(ref)
        if not folder.is_dir():
            _make_folder(folder)
        is_whole = self._is_whole(ref, draft.size)
        with self._alone(ref):
            if is_whole and (known := self._touched(ref, draft.size)) is not None:
                draft.discard()
                return known
            at = draft.stamp()
            draft.path.replace(folder / ref)
            _sync_folder(folder)
            return Content(ref, draft.size, at)

    def _touched(self, ref: ContentRef, size: int | None = None) -> Content | None:
        try:
            file = os.open(self._folder(ref) / ref, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(file)
            if size not in (None, found.st_size):
                return None
            at = next_touch(self._now_ms(), _ms(found))
            os.utime(file, ns=(at * 1_000_000, at * 1_000_000))
            os.fsync(file)
            return Content(ref, found.st_size, at)
        finally:
            os.close(file)

    def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        """Add citations of what is there."""
        by_ref: dict[ContentRef, list[Citer]] = {}
        for ref, citer in cited:
            by_ref.setdefault(ref, []).append(citer)
        for ref, citers in by_ref.items():
            if self._folder(ref).is_dir():
                with self._alone(ref):
                    if (content := self._touched(ref)) is not None:
                        self._add(ref, [Citation(ref, citer, content.touched_at) for citer in citers])

    def _add(self, ref: ContentRef, citations: Iterable[Citation]) -> None:
        path = self._folder(ref) / f"{ref}{_CITED}"
        is_new = not path.exists()
        with path.open("ab+", buffering=0) as file:
            if size := file.seek(0, os.SEEK_END):
                file.seek(size - 1)
            is_torn = size > 0 and file.read(1) != b"\n"
            _write(file.fileno(), (b"\n" if is_torn else b"") + b"".join(map(_line, citations)))
            os.fsync(file)
        if is_new:
            _sync_folder(path.parent)

    # -- out -----------------------------------------------------------------------------------------------------

    def read(self, refs: Iterable[ContentRef]) -> dict[ContentRef, bytes]:
        """Return the contents that are there."""
        found = {}
        for ref in refs:
            with contextlib.suppress(FileNotFoundError):
                found[ref] = (self._folder(ref) / ref).read_bytes()
        return found

    def opened(self, ref: ContentRef) -> BinaryIO:
        """Return a content, open to be read.

        Raises:
            FileNotFoundError: it is not there.
        """
        return (self._folder(ref) / ref).open("rb", buffering=0)

    def sizes(self, refs: Iterable[ContentRef]) -> dict[ContentRef, int]:
        """Return how large the contents are that are there."""
        return {ref: content.size for ref in refs if (content := self._found(ref)) is not None}

    def _found(self, ref: ContentRef) -> Content | None:
        try:
            found = (self._folder(ref) / ref).stat()
        except FileNotFoundError:
            return None
        return Content(ref, found.st_size, _ms(found))

    # -- sweeping ------------------------------------------------------------------------------------------------

    def contents(self, after: str, limit: int) -> list[Content]:
        """Return the contents behind *after*, folder by folder."""
        found: list[Content] = []
        for folder in sorted(name for name in _names(self.root) if len(name) == 2 and name >= after[:2]):
            refs = sorted(name for name in _names(self.root / folder) if len(name) == _NAME_LENGTH and name > after)
            found += [each for ref in refs[: limit - len(found)] if (each := self._found(ContentRef(ref))) is not None]
            if len(found) >= limit:
                break
        return found

    def citations(self, refs: Iterable[ContentRef]) -> list[Citation]:
        """Return who cites *refs*."""
        return [Citation(ref, citer, at) for ref in refs for citer, at in self._citers(ref).items()]

    def _citers(self, ref: ContentRef) -> dict[Citer, int]:
        try:
            text = (self._folder(ref) / f"{ref}{_CITED}").read_bytes()
        except FileNotFoundError:
            return {}
        return dict(found for line in text.split(b"\n") if (found := _parsed(line)) is not None)

    def remove(self, contents: Iterable[Content]) -> list[ContentRef]:
        """Remove each of *contents* that was not touched since."""
        if not CAN_LOCK:
            hint = "Sweep from a machine with POSIX locks, or keep contents in SQLite or Postgres."
            raise StoreUnavailable("contents in files cannot be removed safely here", store=self.url, hint=hint)
        return [each.ref for each in contents if self._folder(each.ref).is_dir() and self._removed(each)]

    def _removed(self, content: Content) -> bool:
        folder = self._folder(content.ref)
        with self._alone(content.ref):
            if self._found(content.ref) != content:
                return False
            (folder / f"{content.ref}{_CITED}").unlink(missing_ok=True)
            _sync_folder(folder)
            (folder / content.ref).unlink()
            _sync_folder(folder)
            return True

    def forget(self, citations: Iterable[Citation]) -> None:
        """Drop citations that were not made again since."""
        by_ref: dict[ContentRef, list[Citation]] = {}
        for each in citations:
            by_ref.setdefault(each.ref, []).append(each)
        for ref, dropped in by_ref.items():
            if self._folder(ref).is_dir():
                with self._alone(ref):
                    self._drop(ref, dropped)

    def _drop(self, ref: ContentRef, dropped: Iterable[Citation]) -> None:
        citers = self._citers(ref)
        gone = [each.by for each in dropped if citers.get(each.by) == each.at]
        if not gone:
            return
        kept = [Citation(ref, citer, at) for citer, at in citers.items() if citer not in gone]
        draft = self.draft()
        draft.write(b"".join(map(_line, kept)))
        draft.finish()
        draft.path.replace(self._folder(ref) / f"{ref}{_CITED}")
        _sync_folder(self._folder(ref))

    def tidy(self) -> int:
        """Remove drafts that nobody has written to for a day."""
        oldest = self._now_ms() - LEFT_BEHIND_MS
        left = [self.root / _INCOMING / name for name in _names(self.root / _INCOMING)]
        count = 0
        for file in left:
            with contextlib.suppress(FileNotFoundError):
                if _ms(file.stat()) < oldest:
                    file.unlink()
                    count += 1
        return count

    # -- places --------------------------------------------------------------------------------------------------

    def _folder(self, ref: ContentRef) -> Path:
        return self.root / ref[:2]

    @contextlib.contextmanager
    def _alone(self, ref: ContentRef) -> Iterator[None]:
        """Hold the lock of the folder of *ref*, which is there."""
        if not CAN_LOCK:
            yield
            return
        lock = os.open(self._folder(ref) / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _acquire(lock, url=self.url)
            yield
        finally:
            os.close(lock)  # which lets go of it


class Draft:
    """A file that has no name as a content yet."""

    def __init__(self, path: Path, now_ms: Callable[[], int]) -> None:
        self.path, self._now_ms, self.size = path, now_ms, 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._is_open = True

    def write(self, data: bytes) -> None:
        _write(self._file, data)
        self.size += len(data)
        self._stamp(self._now_ms())

    def stamp(self) -> int:
        """Say that it was changed now, and return when that is, ms since the epoch."""
        at = self._now_ms()
        os.utime(self.path, ns=(at * 1_000_000, at * 1_000_000))
        return at

    def _stamp(self, at: int) -> None:
        os.utime(self._file if os.utime in os.supports_fd else self.path, ns=(at * 1_000_000, at * 1_000_000))

    def finish(self) -> None:
        """Have all of it on disk, and close it."""
        os.fsync(self._file)
        self.close()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._file)

    def discard(self) -> None:
        """Close and remove it."""
        self.close()
        self.path.unlink(missing_ok=True)


def _acquire(lock: int, *, url: str) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                hint = "End what holds it (fuser or lsof name it), then try again. Nothing was written."
                raise StoreUnavailable(
                    f"another process kept contents locked for {LOCK_WAIT_S:g} s", store=url, hint=hint
                ) from None
        time.sleep(_LOCK_PAUSE_S)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _make_folder(folder: Path) -> None:
    """Make *folder* and what it lies in, on disk as well."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    if not CAN_LOCK:
        return  # folders cannot be opened there
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except FileNotFoundError:
        return []


def _ms(found: os.stat_result) -> int:
    return found.st_mtime_ns // 1_000_000


def _line(citation: Citation) -> bytes:
    about: Mapping[str, Any] = {"id": citation.by.execution_id, "life": citation.by.incarnation, "at": citation.at}
    return orjson.dumps(about) + b"\n"


def _parsed(line: bytes) -> tuple[Citer, int] | None:
    """Return the citation that a line is; None for one that a crash has torn, which was never acknowledged."""
    try:
        about = orjson.loads(line)
        life = about["life"]
        return Citer(ExecutionId(about["id"]), None if life is None else Incarnation(life)), about["at"]
    except (ValueError, LookupError, TypeError):
        return None
