"""The runtime guard: what a flow really does while its body runs, caught where it does it.

from loom.devtools.strict import OTHER_HASHES, Strict
app = app.guarded(Strict())
"""

from __future__ import annotations

from loom.devtools.strict.elsewhere import NotReplayedElsewhere
from loom.devtools.strict.guard import OTHER_HASHES, Strict
from loom.devtools.strict.unsafe import UnsafeInFlow

__all__ = ["OTHER_HASHES", "NotReplayedElsewhere", "Strict", "UnsafeInFlow"]
