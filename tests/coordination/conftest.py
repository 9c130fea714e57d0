"""The laws of the kernel's tests hold for what is built on it."""

from __future__ import annotations

from tests.kernel.conftest import _every_log_keeps_the_laws, asyncio_is_quiet

__all__ = ["_every_log_keeps_the_laws", "asyncio_is_quiet"]
