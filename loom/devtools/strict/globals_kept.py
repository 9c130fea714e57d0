"""What the globals of the author's modules were when a turn of a body came to them, and whether the body changed them."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

_NO_STATE: Final = (ModuleType, FunctionType, BuiltinFunctionType, type)
_MANY: Final = (list, set, deque, bytearray)


class Changed(NamedTuple):
    """A global that the author's code changed, and the line that names it."""

    name: str
    path: str
    line: int


class Kept:
    """The globals of one turn. What runs beside it, in another thread, is told apart: code of this turn must name it."""

    def __init__(self) -> None:
        self._modules: dict[int, tuple[Mapping[str, Any], dict[str, Any]]] = {}
        self._codes: dict[int, dict[CodeType, None]] = {}

    def enter(self, frame: FrameType) -> None:
        """The author's code is called, or goes on: keep what its module holds, if that is not kept yet."""
        module = frame.f_globals
        if id(module) not in self._modules:
            self._modules[id(module)] = module, {name: _copy(value) for name, value in _states(module)}
            self._codes[id(module)] = {}
        self._codes[id(module)][frame.f_code] = None

    def changed(self) -> Changed | None:
        """Return the first global that is not what it was, None: all are."""
        for key, (module, before) in self._modules.items():
            for name, value in _states(module):
                if (name not in before or _differs(before[name], value)) and (place := self._place(key, name)):
                    return Changed(name, *place)
            for name in before:
                if name not in module and (place := self._place(key, name)):
                    return Changed(name, *place)
        return None

    def _place(self, key: int, name: str) -> tuple[str, int] | None:
        for code in self._codes[key]:
            if name in code.co_names:
                return code.co_filename, _line_of(code, name)
        return None


def _line_of(code: CodeType, name: str) -> int:
    """Return the line of *code* that stores the global *name*, else the first that names it."""
    line, first = code.co_firstlineno, 0
    for instruction in dis.get_instructions(code):
        number = getattr(instruction, "line_number", instruction.starts_line)  # in Python 3.13 the latter is a flag
        line = number or line
        if instruction.argval == name and instruction.opname == "STORE_GLOBAL":
            return line
        if instruction.argval == name and not first:
            first = line
    return first or code.co_firstlineno


def _states(module: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return (
        (name, value)
        for name, value in list(module.items())
        if not name.startswith("__") and not isinstance(value, _NO_STATE)
    )


def _copy(value: Any) -> tuple[Any, list[Any] | None]:
    """Return *value* and what it holds, one level deep."""
    return value, _held(value)


def _held(value: Any) -> list[Any] | None:
    if isinstance(value, _MANY):
        return list(value)
    if isinstance(value, dict):
        return [part for pair in list(value.items()) for part in pair]
    return None


def _differs(before: tuple[Any, list[Any] | None], value: Any) -> bool:
    was, held = before
    if was is not value:
        return True
    if held is None:
        return False
    holds = _held(value) or []
    return len(held) != len(holds) or any(one is not other for one, other in zip(held, holds, strict=True))
