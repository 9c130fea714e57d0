"""What the body of a snapshot is written as: JSON text as it is, or a zstd frame of it. Each snapshot says which it has.

What compresses is in the standard library from Python 3.14 on; before, it is the extra `zstd`. It is looked for when it is
used first, so that nobody who does not want it has to have it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final, get_args

from loom.core.errors import InvalidDeclaration
from loom.spi.snapshot_store import SnapshotCodec

_MODULE: Final = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
LEVEL: Final = 3


class CodecNotAvailable(InvalidDeclaration):
    """What writes and reads snapshots in a codec is not installed."""

    code = "codec-not-available"

    def __init__(self, *, codec: str) -> None:
        self.codec = codec
        super().__init__(
            f"the codec {codec} of snapshots needs {_MODULE}, which is not installed",
            hint="Install it: pip install 'loom-runtime[zstd]'",
        )


def packed(text: bytes, codec: SnapshotCodec) -> bytes:
    """Return JSON *text* as the bytes of a body in *codec*.

    Raises:
        CodecNotAvailable: it needs what is not installed.
    """
    return text if codec == "json" else bytes(_zstd().compress(text, LEVEL))


def unpacked(body: bytes, codec: str) -> bytes:
    """Return the JSON text of a *body* in *codec*.

    Raises:
        CodecNotAvailable: it needs what is not installed.
        ValueError: it is not what it says, or in a codec that is not known here.
    """
    if codec == "json":
        return body
    if codec != "zstd":
        raise ValueError(f"the codec {codec!r} is not known")
    zstd = _zstd()
    try:
        return bytes(zstd.decompress(body))
    except zstd.ZstdError as error:
        raise ValueError(f"it is no zstd frame: {error}") from error


def checked_codec(codec: SnapshotCodec) -> SnapshotCodec:
    """Return *codec*, which can be written here.

    Raises:
        CodecNotAvailable: it needs what is not installed.
        InvalidDeclaration: there is none of that name.
    """
    if codec not in get_args(SnapshotCodec):
        hint = f"There are {' and '.join(get_args(SnapshotCodec))}."
        raise InvalidDeclaration(f"snapshot_codec is {codec!r}, which is no codec", hint=hint)
    if codec == "zstd":
        _zstd()
    return codec


def checked_every(every: int | None) -> int | None:
    """Return *every*, after how many events a snapshot is kept; None: at parks only.

    Raises:
        InvalidDeclaration: it is no number, or less than one.
    """
    if every is not None and (type(every) is not int or every < 1):
        raise InvalidDeclaration(f"snapshot_every is {every!r}: a number of events, one or more, or None")
    return every


def _zstd() -> Any:
    try:
        return importlib.import_module(_MODULE)
    except ImportError as missing:
        raise CodecNotAvailable(codec="zstd") from missing
