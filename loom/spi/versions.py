"""Whether an adapter was written against the interfaces that this Loom has.

An adapter says the version it was written against as `spi_version`, a literal in its class. One that says nothing is taken
as it is: a store in a test need not know.
"""

from __future__ import annotations

from typing import Final

from loom.core.errors import InvalidDeclaration

_PARTS: Final = 3


class SpiMismatch(InvalidDeclaration):
    """An adapter and this Loom do not have the same interface between them."""

    code = "spi-mismatch"

    def __init__(self, *, interface: str, adapter: str, written_against: str, present: str) -> None:
        self.interface, self.adapter = interface, adapter
        self.written_against, self.present = written_against, present
        super().__init__(
            f"{adapter} was written against version {written_against} of the {interface} interface, and this Loom has {present}",
            hint=f"Install a {adapter} for {present}, or a Loom whose `loom doctor --versions` says {written_against}.",
        )


def require(adapter: object, interface: str, present: str) -> None:
    """Return where *adapter* fits version *present* of an *interface*: the same major number, and nothing newer than it.

    Raises:
        SpiMismatch: it does not; both versions are told.
        InvalidDeclaration: its `spi_version` is no version.
    """
    written = getattr(adapter, "spi_version", None)
    if written is None:
        return
    name = type(adapter).__name__
    theirs, ours = _numbers(written), _numbers(present)
    if theirs is None or ours is None:
        raise InvalidDeclaration(
            f"{name}.spi_version is {written!r}, which is no version", hint=f'Three numbers, as in "{present}".'
        )
    if theirs[0] != ours[0] or theirs[:2] > ours[:2]:
        raise SpiMismatch(interface=interface, adapter=name, written_against=written, present=present)


def _numbers(version: object) -> tuple[int, ...] | None:
    parts = version.split(".") if isinstance(version, str) else []
    return tuple(map(int, parts)) if len(parts) == _PARTS and all(part.isdecimal() for part in parts) else None
