"""The claim check: a result that is too large for the log is kept elsewhere, and the log has what it can be fetched with.

ADR 0054 of the specification. A flow sees the envelope and its digest alone, live and replayed alike; a step that needs the content resolves it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, get_args

from loom.core.errors import InvalidDeclaration, LoomError

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose type variables have a default; it is not imported to run

    R_co = TypeVar("R_co", covariant=True)
    D_co = TypeVar("D_co", covariant=True, default=None)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)
    D_co = TypeVar("D_co", covariant=True)
R = TypeVar("R")
D = TypeVar("D")

OVER_BYTES: Final = 1_024
DIGEST_BYTES_MAX: Final = 16 << 10
"""A digest is on the log, and is to be small."""

Form: TypeAlias = Literal["bytes", "json"]
"""How the bytes of a content are read: as they are, or as the JSON that a value crosses the log as."""
FORMS: Final = get_args(Form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(Generic[R_co, D_co]):
    """The envelope of a result: where it is, how large it is in bytes, and its *digest*, on which a flow may branch.

    *ref* is the address of the content, the SHA-256 of its bytes. A result that is small enough has none, and stands here itself,
    as *inline*. A step gets it, wherever it is, with `await step.content.get(claimed)`.
    """

    ref: str | None
    size: int
    form: Form
    digest: D_co
    inline: R_co | None = None

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: Any) -> Any:
            """Return the type with *parameters*; a digest that is not named is None."""
            both = parameters if isinstance(parameters, tuple) else (parameters, None)
            return super(Claimed, cls).__class_getitem__(both)  # by name: slots make another class of this one

    def with_digest(self, digest: D) -> Claimed[R_co, D]:
        """Return the same result with *digest* as its digest: for a step that has streamed it."""
        return replace(self, digest=digest)  # type: ignore[return-value,arg-type]  # of another type than it had


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCheck(Generic[D_co]):
    """Says at a step that its result is claimed: `ctx.run` returns `Claimed`, and keeps what is larger than *over_bytes* as a content.

    *digest* is a pure function of the result: what it returns is on the log, at most 16 KiB, and the flow may branch on it.
    """

    over_bytes: int = OVER_BYTES
    digest: Callable[[Any], D_co] | None = None

    def __post_init__(self) -> None:
        if self.over_bytes < 0:
            raise InvalidDeclaration(f"over_bytes={self.over_bytes}: a number of bytes, zero or more")
        if self.digest is not None and not callable(self.digest):
            raise InvalidDeclaration(f"digest={self.digest!r} is no function of the result")


class DigestTooLarge(LoomError):
    """The digest of a claimed result is no small one."""

    code = "digest-too-large"
    hint = "The digest is what the flow needs to branch on; the whole result is in the content."

    def __init__(self, *, size: int) -> None:
        self.size = size
        super().__init__(f"the digest takes {size:,} bytes, more than {DIGEST_BYTES_MAX:,}")


class ContentNotWired(LoomError):
    """A step claims its result, or asks for a content, and the app has no place for contents."""

    code = "content-not-wired"
    hint = "Name one: define_config(content=loom.file_content(PATH))."

    def __init__(self, *, what: str) -> None:
        self.what = what
        super().__init__(f"{what} needs a content store, and the app has none. {self.hint}")


class StepContent(Protocol):
    """Contents for a step, as `step.content`. What a step reads so is no part of the log.

    Raises (every method that reads):
        ContentMissing: the content was swept, or belongs to another store.
        StoreError: the store cannot be read, or what it holds is not what was put.
    """

    async def get(self, claimed: Claimed[R, Any], /) -> R:
        """Return the result that *claimed* is the envelope of."""
        ...

    async def get_many(self, claimed: Iterable[Claimed[R, Any]], /) -> list[R]:
        """Return the results of many envelopes, in their order, with one call of the store."""
        ...

    def stream(self, claimed: Claimed[Any, Any], /, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a content from *start* up to *stop* in small pieces: for one that is larger than memory.

        That they are what was put is known at the end of the whole only: what differs is `StoreCorrupt`.
        """
        ...

    async def stream_result(self, pieces: AsyncIterable[bytes], /) -> Claimed[bytes]:
        """Keep what *pieces* yields, of any length, while the step runs, and return the envelope for the step to return."""
        ...


class NoContent:
    """The contents of an app that has no store for them: only what stands in an envelope itself can be read."""

    async def get(self, claimed: Claimed[R, Any], /) -> R:
        """Return the result that stands in the envelope."""
        return _inline(claimed)

    async def get_many(self, claimed: Iterable[Claimed[R, Any]], /) -> list[R]:
        """Return the results that stand in the envelopes."""
        return [_inline(each) for each in claimed]

    def stream(self, claimed: Claimed[Any, Any], /, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Refuse: there is nowhere to read from."""
        raise ContentNotWired(what="step.content.stream")

    async def stream_result(self, pieces: AsyncIterable[bytes], /) -> Claimed[bytes]:
        """Refuse: there is nowhere to write to."""
        raise ContentNotWired(what="step.content.stream_result")


def _inline(claimed: Claimed[R, Any]) -> R:
    if claimed.ref is not None:
        raise ContentNotWired(what=f"the content {claimed.ref}")
    return claimed.inline  # type: ignore[return-value]  # it is None only where the result is


NO_CONTENT: Final = NoContent()


def digest_of(check: ClaimCheck[Any], result: Any) -> Any:
    """Return the declared digest of *result*, None where none is declared."""
    return None if check.digest is None else check.digest(result)
