"""The shapes a value may have on the log: JSON, and nothing that JSON cannot say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"
"""A decoded JSON value. Numbers are within what orjson round-trips; the rest is tagged (values/)."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object on its way in or out; its values are `Json`."""
