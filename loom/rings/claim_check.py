"""The claim check: results of steps go to a content store, and steps get them back from there.

ADR 0054, 0059 and 0062 of the specification. A content is put before the outcome that names it is recorded: one that never got recorded is cited by nobody and ages from when
it was put. Which log names which content is noted when the log is written (loom/rings/citing.py).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

from loom import values
from loom.core.claims import DIGEST_BYTES_MAX, ClaimCheck, Claimed, DigestTooLarge, digest_of
from loom.core.ids import ContentRef, content_ref
from loom.core.inside import EffectInterrupted
from loom.spi.content_store import ContentMissing, ContentStore, address_of
from loom.spi.errors import StoreCorrupt, StoreError, StoreUnavailable
from loom.values import results

R = TypeVar("R")
T = TypeVar("T")

TRIES_MAX: Final = 3
_REST_S: Final = 0.05


class ClaimChecking:
    """Keeps the results that steps claim in *store*, and is `step.content`."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store

    @property
    def content(self) -> ClaimChecking:
        """What a step gets as `step.content`."""
        return self

    async def claimed(self, check: ClaimCheck[Any], result: Any) -> Claimed[Any, Any]:
        """Keep *result* if it is large, and return its envelope; see `ClaimsResults.claimed`."""
        if type(result) is Claimed:
            return result
        form, data = results.written(result)
        digest = digest_of(check, result)
        if (size := len(values.dumps(values.encode(digest)))) > DIGEST_BYTES_MAX:
            raise DigestTooLarge(size=size)
        if len(data) <= check.over_bytes:
            return Claimed(ref=None, size=len(data), form=form, digest=digest, inline=result)
        try:
            ref = await _insisting(lambda: self._store.put(data))
        except StoreError as error:  # the effect has happened, and is not to be known as a failure for this
            raise EffectInterrupted(error) from error
        return Claimed(ref=ref, size=len(data), form=form, digest=digest)

    # -- what a step reads and writes ------------------------------------------------------------------------------

    async def get(self, claimed: Claimed[R, Any], /) -> R:
        """Return the result that *claimed* is the envelope of; see `StepContent.get`."""
        return (await self.get_many([claimed]))[0]

    async def get_many(self, claimed: Iterable[Claimed[R, Any]], /) -> list[R]:
        """Return the results of many envelopes with one call of the store; see `StepContent.get_many`."""
        envelopes = list(claimed)
        refs = {content_ref(each.ref) for each in envelopes if each.ref is not None}
        found = await self._store.get_many(refs) if refs else {}
        for ref in refs:
            if ref not in found:
                raise ContentMissing(ref=ref, store=self._store.url)
            self._require(ref, address_of(found[ref]))
        return [self._result(each, found) for each in envelopes]

    def _result(self, claimed: Claimed[R, Any], found: Any) -> R:
        if claimed.ref is None:
            return cast(R, claimed.inline)
        return cast(R, results.read(claimed.form, found[claimed.ref]))

    async def stream(
        self, claimed: Claimed[Any, Any], /, *, start: int = 0, stop: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of a content; see `StepContent.stream`."""
        if claimed.ref is None:
            if part := results.written(claimed.inline)[1][start:stop]:
                yield part
            return
        ref, hashed = content_ref(claimed.ref), hashlib.sha256()
        pieces = cast("Any", self._store.stream(ref, start=start, stop=stop))  # every one of ours can be closed
        async with aclosing(pieces):
            async for piece in pieces:
                hashed.update(piece)
                yield piece
        if start == 0 and stop is None:
            self._require(ref, hashed.hexdigest())

    def _require(self, ref: ContentRef, found: str) -> None:
        if found != ref:
            hint = "Restore it from a backup, or retry the step that made it."
            raise StoreCorrupt(f"the content {ref} is not what was put", store=self._store.url, hint=hint)

    async def stream_result(self, pieces: AsyncIterable[bytes], /) -> Claimed[bytes]:
        """Keep what *pieces* yields and return its envelope; see `StepContent.stream_result`."""
        kept = await self._store.put_stream(pieces)
        return Claimed(ref=kept.ref, size=kept.size, form="bytes", digest=None)


async def _insisting(put: Callable[[], Awaitable[T]]) -> T:
    """Return what *put* returns; a store that cannot be reached is asked a few times, as one of logs is."""
    for tried in range(1, TRIES_MAX):
        try:
            return await put()
        except StoreUnavailable:
            await asyncio.sleep(_REST_S * tried)
    return await put()
