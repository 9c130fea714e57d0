"""Which log names which content: noted in the content store before the log is written.

Whatever way an envelope takes into a log (a result, an input, a message, an answer, the first event of a fork), it is found in the
bytes that are about to be appended, so that no content goes while a log that is there names it. Text that merely looks
like an envelope is cited as well, which keeps a content longer than needed and nothing else.

A run that is driven is open, and an open run keeps what it cites: it need not cite the same again while it is driven here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

from loom.core.ids import ContentRef, ExecutionId, Incarnation
from loom.spi.citing import PayloadsHolding
from loom.spi.content_store import Citer, ContentStore
from loom.spi.event_store import NOBODY, Append, Lane

_MARK: Final = b'","size":'  # found, or found to be missing, twice as fast as the beginning of an envelope
_NAMED: Final = re.compile(rb'"ref":"([0-9a-f]{64})","size":\d')
"""How an envelope begins, tagged or plain (loom/values/encoding.py, `Claimed`)."""

_NOTED_FOR_S: Final = 600.0
"""So long at most a citation is not made again. A sweep leaves alone what was touched within the last hour."""


class ContentCiting:
    """Cites contents in *store*; it is a `Citing`."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store
        self._noted: dict[Citer, _Noted] = {}

    async def before_append(self, batch: Sequence[Append]) -> None:
        """Note what *batch* names; see `Citing.before_append`."""
        cited = [pair for item in batch if _may_cite(item) for pair in _cited(item)]
        if cited:
            wanted = [pair for pair in dict.fromkeys(cited) if not self._is_noted(*pair)]
            if wanted:
                await self._store.cite(wanted)
                self._note(wanted)
        if self._noted:
            self._forget(batch)

    async def before_copy(self, execution_id: ExecutionId, holding: PayloadsHolding) -> None:
        """Note what the payloads of a copy name; see `Citing.before_copy`."""
        if not await self._store.contents(limit=1):  # what is not there cannot be cited, and a log is long
            return
        pairs = (pair for payload in await holding(_MARK) for pair in _by(execution_id, None, payload))
        if cited := list(dict.fromkeys(pairs)):
            await self._store.cite(cited)

    async def before_insert(self, lane: Lane, body: bytes) -> None:
        """Note what a request for *lane* names; see `Citing.before_insert`."""
        citer = Citer(*lane)
        if cited := [(ref, citer) for ref in named_in(body)]:
            await self._store.cite(cited)

    def _is_noted(self, ref: ContentRef, citer: Citer) -> bool:
        noted = self._noted.get(citer)
        return noted is not None and ref in noted.refs and time.time() < noted.until

    def _note(self, cited: Sequence[tuple[ContentRef, Citer]]) -> None:
        for ref, citer in cited:
            if citer.incarnation is not None:
                noted = self._noted.get(citer)
                if noted is None or time.time() >= noted.until:
                    noted = self._noted[citer] = _Noted(time.time() + _NOTED_FOR_S)
                noted.refs.add(ref)

    def _forget(self, batch: Sequence[Append]) -> None:
        """Forget what runs had noted that are given up, so that nothing is kept for runs that are over."""
        for item in batch:
            if item.lease is NOBODY and item.incarnation is not None:
                self._noted.pop(Citer(item.execution_id, item.incarnation), None)


class _Noted:
    """What one citer has cited while it is driven, and until when (seconds since the epoch) that is good."""

    __slots__ = ("refs", "until")

    def __init__(self, until: float) -> None:
        self.refs: set[ContentRef] = set()
        self.until = until


def named_in(text: bytes) -> list[ContentRef]:
    """Return the addresses in the envelopes that stand in *text*, each once."""
    if _MARK not in text:
        return []
    return list(dict.fromkeys(ContentRef(found.decode("ascii")) for found in _NAMED.findall(text)))


def _may_cite(item: Append) -> bool:
    """Whether something is to be looked for: nearly always this is all that it costs."""
    for event in item.events:
        if _MARK in event[3]:
            return True
    return bool(item.sends) or item.follows is not None


def _cited(item: Append) -> list[tuple[ContentRef, Citer]]:
    texts = [event.payload for event in item.events]
    found = [pair for text in texts for pair in _by(item.execution_id, item.incarnation, text)]
    for sent in item.sends:
        found += _by(sent.chain, None, sent.body)
    return found if item.follows is None else [*found, *_cited(item.follows)]


def _by(run_id: ExecutionId, incarnation: Incarnation | None, text: bytes) -> list[tuple[ContentRef, Citer]]:
    return [(ref, Citer(run_id, incarnation)) for ref in named_in(text)]
