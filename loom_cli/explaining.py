"""`loom why` in words: what a call was asked with and where that is from, what the flow went by, what was in force."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from loom.fingerprint import short
from loom.lenses.origins_of_values import Part, Place
from loom.lenses.provenance import Fork, Provenance, Source, Traced
from loom_cli.errors import Usage
from loom_cli.screen import Column, Pieces, Screen, Styled
from loom_cli.wording import counted, failure_text, joined, one_line, value_text

_SHOWN: Final = 8
_LIKE_MAX: Final = 5
"""So many parts of one kind are told one by one; of more only the first few are."""
_LIKE_SHOWN: Final = 3
_PARTS_NAMED: Final = 12
_PLACES_SHOWN: Final = 3
_VALUE_MAX: Final = 60
_COLUMNS: Final = (Column(""), Column("", shrink=True), Column("", shrink=True))
_SURE: Final = {
    "exact": "",
    "inside": "a text of ",
    "same": "perhaps ",
}
_KINDS: Final = {
    "step": ("step", "steps"),
    "failure": ("failure", "failures"),
    "answer": ("answer", "answers"),
    "message": ("message", "messages"),
    "decision": ("decision", "decisions"),
    "stream": ("stream", "streams"),
    "input": ("input", "inputs"),
    "edit": ("edit", "edits"),
}


def draw_why(screen: Screen, found: Provenance, *, every: bool) -> None:
    """Print one answer; *every* shows all of what is otherwise counted."""
    sources = {source.sequence: source for source in found.seen}
    screen.line(*_head(found))
    _draw_parts(screen, [*found.parts, *found.told], sources, every=every)
    trail = found.trail if every else _few_alike(found.trail)[:_SHOWN]
    for step in trail:
        screen.line(Styled(f"  {step.id}", "bold"), Styled(f"  event {step.start}, was asked with", "dim"))
        _draw_parts(screen, step.parts, sources, indent="    ", every=every)
    left = len(found.trail) - len(trail)
    _more(screen, left, "call before that" if left == 1 else "calls before that")
    _draw_seen(screen, found, every=every)
    _draw_outside(screen, found, every=every)
    for words in force_words(found):
        screen.line(Styled(f"  {words}", "dim"))


def _few_alike(trail: Sequence[Traced]) -> list[Traced]:
    """Return of the calls of *trail* the first ones of each name."""
    seen: Counter[str] = Counter()
    few: list[Traced] = []
    for call in trail:
        name = _named_alike(call.id)
        seen[name] += 1
        if seen[name] <= _LIKE_SHOWN:
            few.append(call)
    return few


def _head(found: Provenance) -> list[Styled | str]:
    call = found.call
    if call is not None:
        failed = f"  {failure_text(found.failure)}" if found.failure is not None else ""
        waits = "  waits" if call.end is None and found.what == "call" else ""
        return [Styled(call.id, "bold"), Styled(f"  event {call.start}", "dim"), Styled(failed, "red"), waits]
    match found.what:
        case "failure":
            assert found.failure is not None
            return [Styled(found.run, "bold"), "  failed by itself: ", Styled(failure_text(found.failure), "red")]
        case "result":
            return [Styled(found.run, "bold"), "  returned"]
        case _:
            told = f": {failure_text(found.failure)}" if found.failure is not None else ""
            return [Styled(found.run, "bold"), f"  is {found.status.replace('_', ' ')}{told}"]


def _draw_parts(
    screen: Screen, parts: Sequence[Part], sources: dict[int, Source], *, indent: str = "  ", every: bool
) -> None:
    shown, more = (list(parts), []) if every else folded(parts, sources)
    rows = [(Styled(part.path or "it"), Styled(_value(part), "bold"), _from(part, sources)) for part in shown]
    screen.table(_COLUMNS, rows, indent=indent)
    for like, number in more:
        told = f"{number} more like {like.path} (--all shows them, --part {like.path} one)"
        screen.line(Styled(f"{indent}{told}", "dim"))


def folded(parts: Sequence[Part], sources: dict[int, Source]) -> tuple[list[Part], list[tuple[Part, int]]]:
    """Return which *parts* are worth a line each, and of which kinds there are more: the last one of a kind, and how many.

    Of one kind are the parts at one path but for the numbers in it, that come from like places with like certainty.
    """
    kinds = [_kind(part, sources) for part in parts]
    many = {kind for kind, number in Counter(kinds).items() if number > _LIKE_MAX}
    shown: list[Part] = []
    left: dict[object, list[Part]] = {}
    seen: Counter[object] = Counter()
    for part, kind in zip(parts, kinds, strict=True):
        seen[kind] += 1
        if kind in many and seen[kind] > _LIKE_SHOWN:
            left.setdefault(kind, []).append(part)
        else:
            shown.append(part)
    return shown, [(like[-1], len(like)) for like in left.values()]


def _kind(part: Part, sources: dict[int, Source]) -> object:
    places = ((sources.get(place.source), place.path) for place in part.places)
    named = {(_named_alike(source.id if source else ""), _numberless(path)) for source, path in places}
    return _numberless(part.path), part.certainty, frozenset(named)


def _numberless(path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", path)


def _named_alike(id: str) -> str:
    """Return the identity of a call without the numbers by which those of one name, and branches, are told apart."""
    return re.sub(r"#\d+|(?<=/)\d+(?=/|$)", "", id)


def no_such_part(named: str, found: Sequence[Provenance]) -> Usage:
    """Return the refusal of a part that none of *found* has."""
    paths = list(dict.fromkeys(part.path for each in found for part in each.parts))
    more = " and more" if len(paths) > _PARTS_NAMED else ""
    hint = f"Its parts are {', '.join(paths[:_PARTS_NAMED])}{more}." if paths else "It was asked with nothing."
    return Usage(f"there is no part {named!r} of it", hint=hint)


def _value(part: Part) -> str:
    return one_line(value_text(part.value), _VALUE_MAX)


def _from(part: Part, sources: dict[int, Source]) -> Pieces:
    """Return where a part is from, in words."""
    if part.certainty == "plain":
        return (Styled("too common to tell", "dim"),)
    if not part.places:
        return (Styled("nothing recorded equals it: the flow made it", "dim"),)
    shown = [place_words(place, sources) for place in part.places[:_PLACES_SHOWN]]
    more = len(part.places) - len(shown)
    told = ", then ".join(shown) if part.certainty == "exact" else " and ".join(shown)
    return (Styled(f"{_SURE[part.certainty]}{told}" + (f" and {more} more" if more else "")),)


def place_words(place: Place, sources: dict[int, Source]) -> str:
    """Return what a place in a value is called: whose it is, which event, and which part of it."""
    if place.path.endswith("()"):
        return f"ctx.{place.path} after event {place.source}"
    source = sources.get(place.source)
    part = place.path.removeprefix("$").removeprefix(".")
    name = "event" if source is None else source_name(source)
    return f"{name}{f' {part}' if part else ''} (event {place.source})"


def source_name(source: Source) -> str:
    """Return what a source is called."""
    if source.kind == "input":
        return "the input"
    if source.kind == "message":
        return source.id
    return f"the edit of {source.id}" if source.kind == "edit" else source.id


def _draw_seen(screen: Screen, found: Provenance, *, every: bool) -> None:
    """Print what the flow may have gone by; where it made something itself, all that it may have made it of."""
    made = any(part.certainty == "none" for part in found.parts) or not found.parts
    seen = found.outside if made else found.steering
    if not seen or every:
        return  # then all of it is printed below
    shown = seen[:_SHOWN]
    screen.line(Styled("  the flow had been told by then, the newest first", "dim"))
    screen.table(_COLUMNS, [_seen_row(each) for each in shown], indent="    ")
    _more(screen, len(seen) - len(shown), "before these")


def _seen_row(source: Source) -> tuple[Styled, Styled, Styled]:
    return Styled(f"event {source.sequence}", "dim"), Styled(source_name(source)), Styled(said(source))


def said(source: Source) -> str:
    """Return what a source said, and who or what said it."""
    by = f" by {source.by}" if source.by else ""
    value = one_line(value_text(source.value), _VALUE_MAX)
    shown = f", shown {source.about['shown']}" if source.about.get("shown") else ""
    words: dict[str, str] = {
        "input": f"{value}{by}",
        "answer": f"answered {value}{by}{shown}",
        "message": f"received {value}{by}",
        "decision": f"decided {value}{_policy_words(source)}",
        "failure": f"failed: {failure_text(source.about)}",
        "timeout": "timed out",
        "timer": "slept",
        "scope": _end_words(source),
    }
    told = words.get(source.kind, f"gave {value}")
    return joined(f"{told}{by}, edited" if source.edited else told, "simulated" if source.simulated else "")


def _policy_words(source: Source) -> str:
    about = source.about
    policy = f"by {value_text(about['policy'])}" if about.get("policy") is not None else ""
    chance = f"propensity {about['propensity']:g}" if about.get("propensity") is not None else ""
    candidates = about.get("candidates")
    of = f"of {counted(len(candidates), 'candidate', 'candidates')}" if isinstance(candidates, list) else ""
    told = joined(policy, chance, of)
    return f" ({told})" if told else ""


def _end_words(source: Source) -> str:
    about = source.about
    if about.get("counted"):
        return f"{', '.join(about['counted'])} came first"
    return f"branch {about['branch']} failed" if about.get("branch") else "ended"


def _draw_outside(screen: Screen, found: Provenance, *, every: bool) -> None:
    """Print what had come from outside, as counts or one by one."""
    outside = found.outside
    kinds = Counter(source.kind for source in outside)
    told = ", ".join(counted(number, *_KINDS[kind]) for kind, number in kinds.items())
    screen.line(Styled("  from outside the flow by then, and nothing declares it trusted: ", "dim"), told)
    if every:
        reaches = found.reaches()
        rows = [(*_seen_row(each), Styled(_reach(reaches.get(each.sequence)), "dim")) for each in found.seen]
        screen.table((*_COLUMNS, Column("")), rows, indent="    ")


def _reach(certainty: str | None) -> str:
    words = {"exact": "is in it", "inside": "is in it, as text", "same": "may be in it"}
    return words.get(certainty or "", "not seen in it")


def force_words(found: Provenance) -> Iterator[str]:
    """Yield what was in force, a line each."""
    force = found.force
    by = f", started by {force.principal}" if force.principal else ""
    yield f"code {short(force.fingerprint)}, {force.flow} version {force.version}{by}"
    if force.parent is not None:
        yield f"started by the run {force.parent.get('execution_id')}"
    if force.migrated:
        yield f"its code had changed at event {', '.join(map(str, force.migrated))}"
    for name, is_taken in force.patches.items():
        yield f"patch {name!r}: {'taken' if is_taken else 'not taken'}"
    for fork in force.forks:
        yield fork_words(fork)
    if force.simulated:
        yield "its effects are simulated"
    if found.missing is not None:
        yield f"events up to {found.missing} are in an archive: changes of code and forks among them are not told here"


def fork_words(fork: Fork) -> str:
    """Return of what a run was made a fork, by whom and why."""
    by = f" by {fork.by}" if fork.by else ""
    edited = f", with another {fork.edited}" if fork.edited else ""
    why = f": {fork.reason}" if fork.reason else ""
    return f"a fork of {fork.source} after event {fork.through}{by}{edited}{why}"


def _more(screen: Screen, number: int, what: str) -> None:
    if number > 0:
        screen.line(Styled(f"    {number} more {what} (--all shows them)", "dim"))
