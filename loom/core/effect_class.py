"""The classes of effects: what the most powerful thing is that a step does, or that a flow may reach."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

from loom.core.errors import InvalidDeclaration

EffectClass: TypeAlias = Literal["none", "read", "write", "once"]
"""From the weakest to the most powerful.

- `none`: it touches nothing outside.
- `read`: it changes nothing anywhere, as a step with `reads=True`.
- `write`: it changes something, and may do so again, as a plain step.
- `once`: doing it twice does harm, as a step with `idempotent=False`.
"""
EFFECT_CLASSES: Final[tuple[EffectClass, ...]] = get_args(EffectClass)


def effect_class(value: Any, whose: str) -> EffectClass:
    """Return *value* as a class of effects.

    Raises:
        InvalidDeclaration: it is none.
    """
    if value not in EFFECT_CLASSES:
        raise InvalidDeclaration(f"{whose}: effects={value!r} is none of {', '.join(EFFECT_CLASSES)}")
    found: EffectClass = value
    return found
