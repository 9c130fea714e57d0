"""What is said to whoever would write to a bundle."""

from __future__ import annotations

from loom.core.errors import LoomError
from loom.spi.errors import StoreCorrupt


class NotABundle(StoreCorrupt):
    """A file is no bundle, nor what is left of one: another one was meant."""

    code = "not-a-bundle"


class BundleReadOnly(LoomError):
    """Something was to be written to a bundle, which is for looking; nothing was. To ask again is of no use."""

    code = "bundle-read-only"
    hint = "loom import FILE brings its runs into a store, where they can be forked."

    def __init__(self, *, store: str) -> None:
        self.store = store
        super().__init__(f"a bundle is for looking, and nothing is written to it ({store})")
