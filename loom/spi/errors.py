"""What a store may raise. Adapters raise these only; the driver's own exception is the cause."""

from __future__ import annotations

from loom.core.errors import LoomError


class StoreError(LoomError):
    """The store could not do what was asked."""

    code = "store"

    def __init__(self, message: str, *, store: str, hint: str = "") -> None:
        self.store, self.hint = store, hint or self.hint
        super().__init__(f"{message} ({store})")


class StoreUnavailable(StoreError):
    """Locked, full, read-only or unreachable. Nothing of the batch was written; asking again is safe."""

    code = "store-unavailable"


class StoreCorrupt(StoreError):
    """The store's file or rows are damaged, or are no store of ours."""

    code = "store-corrupt"


class StoreNewer(StoreError):
    """The schema of the store is newer than this code."""

    code = "store-newer"


class StoreNotFound(StoreError):
    """There is no store there, and a reader does not make one."""

    code = "store-not-found"


class ArchiveConflict(StoreError):
    """An archive already keeps something else under the same id, life and number; it was left as it is."""

    code = "archive-conflict"
    hint = (
        "The archive holds a run of another store that has the same id and life. Give each store an archive of its own."
    )

    def __init__(self, *, store: str, execution_id: str, incarnation: int, what: str) -> None:
        self.execution_id, self.incarnation, self.what = execution_id, incarnation, what
        super().__init__(
            f"{what} of {execution_id} (life {incarnation}) is archived already, and is another", store=store
        )
