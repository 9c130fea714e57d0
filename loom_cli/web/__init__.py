"""`loom inspect` in parts, and for other servers: `inspect_app` makes an ASGI app that can be mounted anywhere, `answer_app` one for links.

    from loom_cli.web import inspect_app

    routes = [Mount("/runs", app=inspect_app(storage, token="...", hosts=["admin.example.org"]))]

They need the extra `serve`. See docs/guide/inspecting.md and docs/guide/hooks.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loom_cli.web.answer_site import answer_app as answer_app
    from loom_cli.web.site import inspect_app as inspect_app

__all__ = ["answer_app", "inspect_app"]

_HOMES: Final = {"answer_app": "loom_cli.web.answer_site", "inspect_app": "loom_cli.web.site"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
