"""The flows that a source file declares, read without importing it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def flow_names(source: str) -> list[str]:
    """Return the ids of the flows under `@loom.flow`, and those that a `MANIFEST` of `loom_gen.py` lists.

    Raises:
        SyntaxError: *source* is no Python.
    """
    return sorted({name for node in ast.walk(ast.parse(source)) for name in _named_by(node)})


def _named_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.AsyncFunctionDef):
        for decorator in node.decorator_list:
            if _is_flow(decorator):
                yield _given_id(decorator) or node.name
    elif isinstance(node, ast.Dict):
        entry = {_text(key): _text(value) for key, value in zip(node.keys, node.values, strict=True)}
        if entry.get("kind") == "flow" and entry.get("id"):
            yield str(entry["id"])


def _is_flow(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(named, ast.Name) and named.id == "flow") or (
        isinstance(named, ast.Attribute) and named.attr == "flow"
    )


def _given_id(decorator: ast.expr) -> str | None:
    if isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == "id":
                return _text(keyword.value)
    return None


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
