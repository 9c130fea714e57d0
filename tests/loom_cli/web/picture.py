"""The pictures of the page in the guide: `python -m tests.loom_cli.web.picture` makes them anew, in the system's chromium.

Beside them stands the digest of all that they are made from, by which a test knows whether they are those of the page as it is.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Final

import loom_cli.web
from tests.loom_cli.web.browser import browsing
from tests.loom_cli.web.desk import store_at
from tests.loom_cli.web.served import served

GUIDE: Final = Path(__file__).parents[3] / "docs" / "guide"
DIGEST: Final = GUIDE / "inspect.sha256"
PICTURES: Final = {"inspect.png": ("light", 1360, 1010), "inspect-dark.png": ("dark", 1360, 1010)}
RUN: Final = "refund-A-1042"


def sources() -> str:
    """Return the digest of what the pictures are made from: the page, what makes its data, and the runs that it shows."""
    folder = Path(loom_cli.web.__file__).parent
    files = [*sorted(folder.glob("*.py")), *sorted((folder / "page").iterdir())]
    files += [Path(__file__).with_name(name) for name in ("desk.py", "picture.py")]
    parts = [f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def make() -> None:
    """Write the pictures, and the digest of what they were made from."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "desk.db"
        now_ms = store_at(store)
        with served(store, now_ms=now_ms, answers=True, called="sqlite:.loom/loom.db") as link, browsing() as browser:
            for name, (scheme, width, height) in PICTURES.items():
                dark = scheme == "dark"
                page = browser.new_page(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if dark else "light",
                    timezone_id="UTC",
                    locale="en",
                )
                page.goto(f"{link}#/run/{'refund-A-1038/9' if dark else RUN}")
                page.wait_for_selector(".event-row.current")
                page.wait_for_selector(".live:not(:empty)")
                page.click("#tab-call" if dark else "#tab-changes")
                page.wait_for_function("document.fonts.ready.then(() => true)")
                page.screenshot(path=GUIDE / name, animations="disabled")
                page.close()
    DIGEST.write_text(sources() + "\n", encoding="utf-8")


if __name__ == "__main__":
    make()
