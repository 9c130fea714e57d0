"""What the body of a snapshot is written as: JSON text as it is, or a zstd frame of it. Each snapshot says which it has.

What compresses is in the standard library from Python 3.14 on; before, it is the extra `zstd`. It is looked for when it is
used first, so that nobody who does not want it has to have it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

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


def require_codec(codec: SnapshotCodec) -> None:
    """Return where *codec* can be written here.

    Raises:
        CodecNotAvailable: it cannot.
    """
    if codec == "zstd":
        _zstd()


def _zstd() -> Any:
    try:
        return importlib.import_module(_MODULE)
    except ImportError as missing:
        raise CodecNotAvailable(codec="zstd") from missing
