"""`# loom: allow[rule] reason`: findings that the author answers for."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from loom.devtools.checking.findings import RULES, Finding
from loom.devtools.checking.source import Source

_COMMENT: Final = re.compile(r"#\s*loom:\s*allow\b\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?P<reason>.*)")
_UNSUPPRESSED: Final = frozenset({"allow", "syntax"})


class Allow(NamedTuple):
    """A comment that allows *rules* on the line *covers*."""

    line: int
    column: int
    covers: int
    rules: tuple[str, ...]
    reason: str


def allows_in(source: Source) -> list[Allow]:
    """Return the allow comments of *source*."""
    if b"loom:" not in source.text:
        return []
    lines = io.BytesIO(source.text).readline
    try:
        return [allow for token in tokenize.tokenize(lines) if (allow := _allow(token)) is not None]
    except (tokenize.TokenError, SyntaxError):
        return []


def _allow(token: tokenize.TokenInfo) -> Allow | None:
    found = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
    if found is None:
        return None
    line, column = token.start
    stands_alone = not token.line[:column].strip()
    rules = tuple(filter(None, (each.strip() for each in (found["rules"] or "").split(","))))
    return Allow(line, column + 1, line + 1 if stands_alone else line, rules, found["reason"].strip())


def answered_for(
    found: Iterable[Finding],
    sources: Iterable[Source],
    *,
    asked: Collection[str],
    judged: Callable[[Source, int], bool],
) -> Iterator[Finding]:
    """Yield those of *found* that no comment of *sources* allows, and what is wrong with the comments.

    *asked* are the rules that were applied: a comment for another one is not called unused. Nor is one on a line that cannot be
    *judged*: the guard of strict runs may need it there.
    """
    left = list(found)
    for source in sources:
        for allow in allows_in(source):
            yield from _wrong(allow, source.path)
            if not allow.reason:
                continue
            covered = [each for each in left if _covers(allow, each, source.path)]
            left = [each for each in left if each not in covered]
            used = {each.rule for each in covered} if judged(source, allow.covers) else set(allow.rules)
            for rule in allow.rules:
                if rule in RULES and rule not in used and rule in asked and rule not in _UNSUPPRESSED:
                    yield _about(allow, source.path, f"nothing here breaks `{rule}`, so there is nothing to allow")
    yield from left


def _covers(allow: Allow, found: Finding, path: str) -> bool:
    is_here = found.path == path and found.line == allow.covers
    return is_here and found.rule in allow.rules and found.rule not in _UNSUPPRESSED


def _wrong(allow: Allow, path: str) -> Iterator[Finding]:
    if not allow.rules:
        yield _about(allow, path, "it does not say which rule: write `# loom: allow[rule] reason`")
    elif not allow.reason:
        yield _about(allow, path, "it gives no reason, so it allows nothing: whoever reads this needs one")
    for rule in allow.rules:
        if rule not in RULES:
            yield _about(allow, path, f"there is no rule `{rule}`")
        elif rule in _UNSUPPRESSED:
            yield _about(allow, path, f"`{rule}` cannot be allowed")


def _about(allow: Allow, path: str, message: str) -> Finding:
    return Finding(path, allow.line, allow.column, "allow", message, allow.line, allow.column)
