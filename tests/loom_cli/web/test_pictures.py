"""The pictures in the guide are of the page as it is."""

from __future__ import annotations

from tests.loom_cli.web.picture import DIGEST, GUIDE, PICTURES, sources

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_pictures_were_made_from_the_present_sources() -> None:
    kept = DIGEST.read_text("utf-8").strip()

    assert kept == sources(), "make them anew: python -m tests.loom_cli.web.picture"


def test_they_are_there_and_the_guide_shows_them() -> None:
    guide = (GUIDE / "inspecting.md").read_text("utf-8")

    for name in PICTURES:
        assert (GUIDE / name).read_bytes().startswith(PNG)
        assert f"]({name})" in guide
