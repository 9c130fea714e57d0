"""What Postgres, its driver and the network report, told in the words of `loom.spi.errors`."""

from __future__ import annotations

from typing import Final

import asyncpg

from loom.spi.errors import StoreCorrupt, StoreError, StoreNotFound, StoreUnavailable

ROLLED_BACK: Final = frozenset({"40001", "40P01"})
"""Postgres undid the transaction for another's sake: it may be run again at once."""

_GONE: Final = ("08", "57P", "25P03")
_CROWDED: Final = "53300"
_CORRUPT: Final = ("XX001", "XX002")
_NO_STORE: Final = frozenset({"3F000", "42P01", "42883"})
_TELLING: Final = {
    _CROWDED: ("the server has no connection free", "Allow more, or give postgres_storage() fewer connections."),
    "53": ("the server is out of disk, memory or connections", "Free some and try again; nothing was written."),
    "25006": ("the database is read-only", "Name the primary, not a standby; nothing was written."),
    "28": ("the server refused the user", "Check the user and password, or set PGPASSWORD."),
    "3D000": ("there is no such database", "Make it first: createdb NAME."),
    "42501": (
        "the user may not do that",
        "Grant the user the schema loom, or CREATE on the database for the first run.",
    ),
    **dict.fromkeys(
        ("26000", "42P05"),
        (
            "what was prepared is not there, as behind a transaction pooler",
            "Say so in the URL: ?pooler=transaction; nothing was written.",
        ),
    ),
    "55P03": ("another transaction kept a lock for too long", "See pg_stat_activity; nothing was written."),
    "57014": ("the server cancelled the statement", "See its statement_timeout; nothing was written."),
    "57P": ("the server is shutting down or starting", "Try again when it is up."),
    "25P03": ("the server ended a transaction that stood still", "Try again; nothing was written."),
    "08": ("the connection to the server was lost", "Check that the server is up and can be reached."),
}
_LOST_HINT: Final = "Check that the server is up and can be reached, then try again."

DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""All that a statement raises when it does not go through."""


def is_rolled_back(error: BaseException) -> bool:
    """Tell whether the transaction never happened and may be run again."""
    return getattr(error, "sqlstate", None) in ROLLED_BACK


def is_crowded(error: BaseException) -> bool:
    """Tell whether the server has no connection free just now."""
    return getattr(error, "sqlstate", None) == _CROWDED


def is_lost(error: BaseException) -> bool:
    """Tell whether the connection is gone, so that it is not known what has happened."""
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith(_GONE)
    if isinstance(error, asyncpg.ClientConfigurationError) or _is_late(error):
        return False
    return isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError))


def _is_late(error: BaseException) -> bool:
    """Tell whether an answer was waited for long enough; an error of the network is another, though of the same class."""
    return isinstance(error, TimeoutError) and error.errno is None


def store_error(error: BaseException, *, url: str) -> StoreError:
    """Return our error for one of `DRIVER_ERRORS`."""
    state = str(getattr(error, "sqlstate", None) or "")
    if isinstance(error, asyncpg.ClientConfigurationError):
        hint = "See the names of libpq's connection URLs."
        return StoreUnavailable(f"the URL of the database cannot be used: {error}", store=url, hint=hint)
    if not state:
        what = "the server did not answer in time" if _is_late(error) else "the server cannot be reached"
        return StoreUnavailable(f"{what}: {error!s}" if str(error) else what, store=url, hint=_LOST_HINT)
    if state in _CORRUPT:
        return StoreCorrupt(f"the database is damaged: {error}", store=url, hint="Restore a backup.")
    if state.startswith("23"):
        message = f"the log and its head disagree: {error}"
        return StoreCorrupt(message, store=url, hint="Run `loom doctor`; nothing was written.")
    if state in _NO_STORE:
        message = "the database holds no store, or only a part of one"
        return StoreNotFound(message, store=url, hint="Run a flow first, or name another database.")
    found = (_TELLING[prefix] for prefix in (state, state[:3], state[:2]) if prefix in _TELLING)
    what, hint = next(found, (f"Postgres refused ({state})", "Nothing was written; see the cause."))
    return StoreUnavailable(f"{what}: {error}", store=url, hint=hint)
