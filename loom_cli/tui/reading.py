"""Reading what is left of a log while somebody looks at it, and following it then."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from loom.core.errors import LoomError
from loom.kernel.codec import decode_events
from loom.spi.event_store import Storage
from loom_cli.reading import unread_of
from loom_cli.tui import loading
from loom_cli.tui import model as moves
from loom_cli.tui.open_log import OpenLog

if TYPE_CHECKING:
    from loom_cli.tui.app import Debugger

_SLICE_S: Final = 0.008
_PATIENCE_S: Final = 0.15
_REDRAW_S: Final = 0.2
_REDRAW_FACTOR: Final = 10
"""A drawing is followed by so many times as long without one, where the machine is slow."""
_AT_ONCE: Final = 20


class Reading:
    """Reads on in the log that *app* shows, for as long as it does."""

    def __init__(self, app: Debugger, storage: Storage) -> None:
        self._app, self._storage, self._log = app, storage, app.log_
        self._draw_at = self._gave_way_at = time.monotonic()

    async def read_on(self, at: int | None, against: int | None) -> None:
        """Read the rest, stand at event *at* (None: the last) then, and follow what happens."""
        app, log = self._app, self._log
        try:
            if not log.is_read:
                await self._read_rest(log)
                app.settle(at, against)
                app.drawing.all()
            async with aclosing(loading.followed(self._storage, log)) as feed:
                async for event in feed:
                    log.add([event])
                    app.model = moves.grown(app.model, log)
                    app.call_later(self._arrived)
        except LoomError as error:
            log.problem, log.is_read = error, True
            app.drawing.all()

    async def _read_rest(self, log: OpenLog) -> None:
        gc.disable()  # the collector would walk all that is made here, again and again, in the middle of a key
        try:
            async with aclosing(loading.rest(self._storage, log)) as pages:
                async for page in pages:
                    for begin in range(0, len(page), _AT_ONCE):
                        log.add(decode_events(log.run_id, page[begin : begin + _AT_ONCE]))
                        await self._give_way()
                    if log.problem is not None:
                        break
        finally:
            gc.freeze()
            gc.enable()
        log.is_read = True

    async def _give_way(self) -> None:
        """Leave the keys their turn, after each slice of time, and more of it while keys are pressed."""
        now = time.monotonic()
        if now - self._gave_way_at < _SLICE_S:
            return
        if now > self._draw_at:
            self._app.drawing.growth()
            self._draw_at = now + max(_REDRAW_S, _REDRAW_FACTOR * (time.monotonic() - now))
        await asyncio.sleep(4 * _SLICE_S if now - self._app.touched_at < _PATIENCE_S else 0)
        self._gave_way_at = time.monotonic()

    async def _arrived(self) -> None:
        drawing = self._app.drawing
        drawing.unread = await unread_of(self._storage, self._log.run_id)
        while self._log.sift_some(1000):
            pass
        drawing.forget_sources()
        drawing.all()
