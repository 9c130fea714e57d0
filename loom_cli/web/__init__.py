"""`loom inspect` in parts, and for other servers: `inspect_app` makes an ASGI app that can be mounted anywhere.

    from loom_cli.web import inspect_app

    routes = [Mount("/runs", app=inspect_app(storage, token="...", hosts=["admin.example.org"]))]

It needs the extra `serve`. See docs/guide/inspecting.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loom_cli.web.site import inspect_app as inspect_app

__all__ = ["inspect_app"]


def __getattr__(name: str) -> object:
    if name != "inspect_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from loom_cli.web.site import inspect_app

    return inspect_app
