"""The name of a Postgres store: what it says, what may be shown of it, and what is said when the driver is missing."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from loom.core.errors import InvalidDeclaration
from loom.plugins.sqlite.location import is_postgres

HIDDEN: Final = "***"
_SECRETS: Final = frozenset({"password", "sslpassword", "passfile", "sslkey"})
_POOLERS: Final = {"transaction": True, "none": False}


class Address(NamedTuple):
    """Where a database is. *dsn* is for the driver alone; *url* is for people, with no secret in it.

    *pooler* says that connections go through a transaction pooler.
    """

    dsn: str
    url: str
    pooler: bool


def address(dsn: str) -> Address:
    """Return what *dsn* says: `postgresql://user:password@host:port/database?pooler=transaction`.

    All of libpq's URL is understood; `pooler` is Loom's own, and not sent.

    Raises:
        InvalidDeclaration: it is no such URL. The message does not repeat it, since it may hold a password.
    """
    if not is_postgres(dsn) or "\0" in unquote(dsn):
        raise InvalidDeclaration("that names no Postgres database", hint="Write postgresql://user@host/database.")
    try:
        parts = urlsplit(dsn)
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        _ = parts.port if "," not in parts.netloc else None
    except ValueError as error:
        hint = "Write postgresql://user:password@host:port/database, with signs such as / or @ in a password as %2F or %40."
        raise InvalidDeclaration("the URL of the Postgres database cannot be read", hint=hint) from _without_text(error)
    wanted = dict(asked).get("pooler", "none")
    if wanted not in _POOLERS:
        raise InvalidDeclaration("pooler in the store's URL is neither transaction nor none")
    sent = [(name, value) for name, value in asked if name != "pooler"]
    shown = [(name, HIDDEN if name.lower() in _SECRETS else value) for name, value in asked]
    user, at, host = parts.netloc.rpartition("@")
    user = user.replace("@", "%40")  # of a password that was not quoted: the driver would look for the host in it
    masked = f"{user.partition(':')[0]}:{HIDDEN}" if ":" in user else user
    return Address(
        dsn=_url(f"{user}{at}{host}", parts.path, urlencode(sent, quote_via=quote)),
        url=_url(f"{masked}{at}{host}", parts.path, urlencode(shown, quote_via=quote, safe="/*")),
        pooler=_POOLERS[wanted],
    )


def _url(host: str, path: str, query: str) -> str:
    return f"postgresql://{host}{path}" + (f"?{query}" if query else "")


def _without_text(error: ValueError) -> ValueError:
    """Return an error of the same kind that repeats nothing of what it was about."""
    return ValueError(type(error).__name__)


def require_driver() -> None:
    """Raise unless the driver is installed.

    Raises:
        InvalidDeclaration: it is not; the hint says what to install.
    """
    import importlib.util

    if importlib.util.find_spec("asyncpg") is None:
        hint = 'Install it with Loom: pip install "loom-runtime[postgres]".'
        raise InvalidDeclaration("a Postgres store needs the package asyncpg, which is not installed", hint=hint)
