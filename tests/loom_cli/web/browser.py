"""A real browser for the tests of the page: the system's own chromium, without a window and without its own traffic."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, expect, sync_playwright

QUIET: Final = (
    "--no-sandbox",  # as root there is none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


expect.set_options(timeout=30_000)  # ms: a page that comes late is no fault of the page


def chromium() -> str | None:
    """Return where the browser is, None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browsing() -> Iterator[Browser]:
    """Give the browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()
