"""Where the rows of read models lie beside the logs: of each run what a fold of its events came to, as a cache.

A row is never the truth: it can be thrown away and made again from the log. It belongs to one life of an execution and knows after
which event it stands, so that it can only go forward: whoever comes late with an older one changes nothing, and any number of
processes that fold the same run come to the same row without a lock. Rows of two versions of a model lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import Head

READ_MODEL_STORE_SPI_VERSION: Final = "1.0.0"


class ModelRow(NamedTuple):
    """What a model says of one life of an execution after the event at *sequence*.

    *body* is JSON text, empty where it says nothing: such a row is not listed, but it is known that the events were looked at.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    sequence: int
    body: bytes


class Behind(NamedTuple):
    """A run whose log holds events that its row does not know of. *row* is as it is, None where there is none."""

    head: Head
    row: ModelRow | None


class ModelRows(NamedTuple):
    """How many *rows* (with a body) there are of one *version* of a model. *since* is when the first was put, ms since the epoch."""

    model: str
    version: str
    rows: int
    since: int


@runtime_checkable
class ReadModelStore(Protocol):
    """The rows of read models. A model is a name, a version stands for the code of its fold: rows of two never mix."""

    async def put_model_rows(self, model: str, version: str, rows: Sequence[ModelRow]) -> Sequence[bool]:
        """Keep rows durably, in one transaction; return of each whether it was kept, in order.

        It is not where the execution has another life, where its log does not hold the event at that sequence (no row
        is ahead of its log), where its rows were erased, or where the row that is there is of the same event or of a later one.

        Raises:
            StoreUnavailable: none is known to be kept; asking again is safe.
        """
        ...

    async def model_rows(
        self,
        model: str,
        version: str,
        *,
        ids: Sequence[ExecutionId] | None = None,
        after: str = "",
        prefix: str = "",
        limit: int = 1000,
    ) -> Sequence[ModelRow]:
        """Return up to *limit* rows that have a body, by the id of their execution in code point order.

        Only those of *ids*, where these are given, greater than *after*, and whose id starts with *prefix*.
        """
        ...

    async def behind(
        self, model: str, version: str, *, ids: Sequence[ExecutionId] | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Behind]:
        """Return up to *limit* runs that a fold has to catch up with, by id in code point order, as `model_rows` chooses them.

        Those whose rows were erased are left out.
        """
        ...

    async def models(self) -> Sequence[ModelRows]:
        """Return which models and versions have rows, by name, the newest version of each first."""
        ...

    async def drop_model(self, model: str, version: str | None = None) -> int:
        """Remove all rows of a *version* of a model, of all versions where it is None; return how many had a body.

        What was erased stays so.
        """
        ...


@runtime_checkable
class ModelErasure(Protocol):
    """Taking runs out of read models, without touching any other row."""

    async def erase_model_rows(self, executions: Sequence[ExecutionId], *, dry_run: bool = False) -> int:
        """Remove the rows of *executions* from every version of every model, for good; return how many had a body.

        In one transaction. No row of these lives is kept again, by whatever version: that their logs still say what was erased is not
        this store's business. A later life of an id is another run. A *dry_run* changes nothing.
        """
        ...
