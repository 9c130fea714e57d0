"""Expressions of the source as words and as constants."""

from __future__ import annotations

import ast
from typing import Final

from loom.devtools.checking.meaning import Meanings, find_name
from loom.devtools.checking.source import Source

SHOWN_MAX: Final = 48


def shown(node: ast.AST | None, limit: int = SHOWN_MAX) -> str:
    """Return *node* as one short line."""
    text = " ".join(ast.unparse(node).split()) if node is not None else ""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the argument that *call* gives by *name*."""
    return next((each.value for each in call.keywords if each.arg == name), None)


class Words:
    """Looks constants up where the source spells them out."""

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings

    def constant(self, node: ast.expr | None, source: Source) -> tuple[ast.expr | None, Source]:
        """Return the expression behind *node* where that is a name for one thing, and the module that has it."""
        for _ in range(8):
            match node:
                case ast.Name(id=name):
                    _, bindings = find_name(name, node, source)
                case _:
                    return node, source
            found = bindings[-1] if len(bindings) == 1 else None
            if found is None:
                return node, source
            if found.how == "import":
                module, attribute = self._imported(name, source)
                values = module.bindings(module.tree).get(attribute, []) if module is not None else []
                if module is None or len(values) != 1 or values[0].how != "value":
                    return node, source
                node, source = values[0].node, module  # type: ignore[assignment]  # a value is an expression
            elif found.how == "value" and isinstance(found.node, ast.expr):
                node = found.node
            else:
                return node, source
        return node, source

    def _imported(self, name: str, source: Source) -> tuple[Source | None, str]:
        module, _, attribute = source.imports.get(name, "").rpartition(".")
        return self._meanings.project.module(module, source) if module else None, attribute

    def text(self, node: ast.expr | None, source: Source) -> str | None:
        """Return the text that *node* stands for, None where the source does not tell."""
        value, _ = self.constant(node, source)
        return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None

    def span(self, node: ast.expr | None, source: Source) -> str:
        """Return a duration in words, as far as the source tells: `3 days`, `90 s`, else as it is written."""
        value, home = self.constant(node, source)
        if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
            return f"{value.value:g} s"
        if isinstance(value, ast.Call) and self._meanings.of(value.func, home).name == "datetime.timedelta":
            parts = [_counted(each) for each in value.keywords]
            if parts and all(parts) and not value.args:
                return " ".join(part for part in parts if part)
        return shown(node)


def _counted(given: ast.keyword) -> str | None:
    match given.value:
        case ast.Constant(value=int() | float() as number) if given.arg:
            return f"{number:g} {given.arg.removesuffix('s') if number == 1 else given.arg}"
        case _:
            return None
