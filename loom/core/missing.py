"""The value that stands for "nothing given", where None is a value."""

from __future__ import annotations

from typing import Final


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
