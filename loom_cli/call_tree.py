"""Drawing what a run has asked, as a tree: each scope followed by what stands in it, many like calls as one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final, TypeAlias

from loom.lenses.execution import CallView, ExecutionView
from loom_cli.readable import readable
from loom_cli.screen import Column, Pieces, Screen, Styled
from loom_cli.times import duration, moment
from loom_cli.wording import awaited_words, counted, end_words, failure_text, joined, one_line, until_words

Row: TypeAlias = tuple[Pieces, Styled, Styled]

_CALL_SIGNS: Final = {
    "done": ("done", "green"),
    "failed": ("failed", "red"),
    "timed_out": ("failed", "yellow"),
    "running": ("running", "blue"),
    "resting": ("waiting", "yellow"),
    "waiting": ("waiting", "yellow"),
    "in_doubt": ("doubt", "magenta"),
    "cut": ("none", "dim"),
    "abandoned": ("none", "dim"),
}
_BRANCHES_SHOWN: Final = 12
_LIKE_SHOWN: Final = 12
"""How many like calls in a row are shown one by one; of more, only the first few are."""
_LIKE_SHOWN_FIRST: Final = 3
_COLUMNS: Final = (Column(""), Column("", right=True), Column("", shrink=True))


def draw_tree(screen: Screen, view: ExecutionView, now_ms: int, *, every: bool) -> None:
    """Print the calls of *view*; *every* shows those that are otherwise counted."""
    screen.table(_COLUMNS, _rows(screen, view, now_ms, every=every), indent="  ")


def _rows(screen: Screen, view: ExecutionView, now_ms: int, *, every: bool) -> Iterator[Row]:
    inside = {scope: list(calls) for scope, calls in _by_scope(view.calls)}
    known = {call.id for call in view.calls}

    def of_flow() -> Iterator[Row]:
        for calls, counted_ones in _stretches(inside.get(None, []), set(inside), every=every):
            for call in calls:
                yield _call_row(screen, call, "", now_ms)
                yield from under(call.id, "")
            if counted_ones:
                yield _counted_row(screen, counted_ones)

    def under(scope: str, indent: str) -> Iterator[Row]:
        calls = inside.get(scope, [])
        shown = calls if every else _worth_showing(calls)
        for call in shown:
            is_last = call is shown[-1] and len(shown) == len(calls)
            yield _call_row(screen, call, f"{indent}{screen.sign('last' if is_last else 'branch')}", now_ms)
            yield from under(call.id, indent + ("   " if is_last else screen.sign("through")))
        if len(shown) < len(calls):
            more = f"{indent}{screen.sign('last')}{len(calls) - len(shown)} more, done (--all shows them)"
            yield (Styled(more, "dim"),), Styled(""), Styled("")

    yield from of_flow()
    for scope in inside:
        if scope is not None and scope not in known:
            yield from under(scope, "")


def _stretches(
    calls: Sequence[CallView], scopes: Container[str | None], *, every: bool
) -> Iterator[tuple[list[CallView], list[CallView]]]:
    """Yield *calls* in stretches: those to show, and those to count below them.

    A stretch is of calls that are done, with nothing below; each other one is shown by itself. Of a long one the first few of each
    name are shown, whatever came between them, and the last call.
    """
    for is_plain, found in groupby(calls, key=lambda call: call.status == "done" and call.id not in scopes):
        stretch = list(found)
        if every or not is_plain:
            yield stretch, []
            continue
        seen: Counter[tuple[str, str]] = Counter()
        shown: list[CallView] = []
        for repeats, run in groupby(stretch, key=partial(_repeats, seen)):
            like = list(run)
            if not repeats or len(like) + _LIKE_SHOWN_FIRST <= _LIKE_SHOWN:
                shown += like
                continue
            yield shown, like[:-1] if like[-1] is stretch[-1] else like
            shown = [like[-1]] if like[-1] is stretch[-1] else []
        if shown:
            yield shown, []


def _repeats(seen: Counter[tuple[str, str]], call: CallView) -> bool:
    """Whether a call of this kind and name was *seen* often enough."""
    likeness = call.kind, call.name.partition("#")[0]
    seen[likeness] += 1
    return seen[likeness] > _LIKE_SHOWN_FIRST


def _counted_row(screen: Screen, calls: Sequence[CallView]) -> Row:
    first, last = calls[0], calls[-1]
    name = Styled(f"{first.name} .. {last.name}", "dim")
    took = duration(max((last.ended_at or last.asked_at) - first.asked_at, 0))
    sign = Styled(f"{screen.sign('done')} ", "green")
    return (sign, name), Styled(took, "dim"), Styled(f"{len(calls)} more, done (--all shows them)", "dim")


def _by_scope(calls: Sequence[CallView]) -> Iterator[tuple[str | None, Iterator[CallView]]]:
    ordered = sorted(range(len(calls)), key=lambda at: (calls[at].scope or "", at))
    return groupby((calls[at] for at in ordered), key=lambda call: call.scope)


def _worth_showing(calls: list[CallView]) -> list[CallView]:
    """Return the first branches of a large scope, and all that are not done."""
    if len(calls) <= _BRANCHES_SHOWN:
        return calls
    first = {call.start for call in calls[: _BRANCHES_SHOWN // 2]}
    return [call for call in calls if call.start in first or call.status != "done"]


def _call_row(screen: Screen, call: CallView, lead: str, now_ms: int) -> Row:
    sign, style = _CALL_SIGNS[call.status]
    name = call.name if call.branch is None else f"{call.branch}/{call.name}"
    took = ""
    if call.took_ms is not None and call.end != call.start:
        took = duration(call.took_ms)
    elif call.status in ("running", "resting", "waiting", "in_doubt"):
        took = duration(max(now_ms - call.asked_at, 0))
    pieces = (Styled(lead, "dim"), Styled(f"{screen.sign(sign)} ", style), Styled(name))
    return (
        pieces,
        Styled(took, "dim"),
        Styled(_remark(screen, call, now_ms), "red" if call.status == "failed" else "dim"),
    )


def _remark(screen: Screen, call: CallView, now_ms: int) -> str:
    told = [word for word in (_kind_remark(screen, call, now_ms), _status_remark(call, now_ms)) if word]
    if call.attempts is not None and call.attempts > 1:
        told.append(f"{call.attempts} attempts")
    if call.failure is not None:
        told.append(one_line(failure_text(call.failure)))
    return ", ".join(told)


def _kind_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    remark = _KIND_REMARKS.get(call.kind)
    return remark(screen, call, now_ms) if remark is not None else ""


def _gate_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    if call.status != "done":
        return ""
    return f"answered{f' by {call.by}' if call.by else ''}: {screen.brief(readable(call.outcome.get('answer')), 60)}"


def _receive_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    if call.status == "waiting":
        return joined(f"waits for {awaited_words(call.asked['topic'])}", until_words(call.due_at, now_ms))
    if call.status != "done":
        return ""
    return f"received{f' from {call.by}' if call.by else ''}: {screen.brief(readable(call.outcome.get('message')), 60)}"


def _timer_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"{'slept' if call.status == 'done' else 'sleeps'} until {moment(call.due_at or 0, now_ms)}"


def _scope_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    branches = call.asked.get("branches")
    count = branches if isinstance(branches, int) else len(branches or ())
    opened = "a block of tasks" if call.asked.get("kind") == "scope" else counted(count, "branch", "branches")
    if call.end == call.start:
        return opened
    type_ = {"failed": "SCOPE_CUT", "timed_out": "SCOPE_TIMED_OUT"}.get(call.status, "SCOPE_CLOSED")
    return joined(opened, end_words(type_, call.outcome))


def _decision_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"chose {screen.brief(readable(call.outcome.get('choice')), 40)}" if call.status == "done" else ""


def _stream_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"{len(call.outcome.get('chunks') or ())} chunks"


def _event_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"emitted {call.type.partition('.')[2]}"


_KIND_REMARKS: Final = {
    "gate": _gate_remark,
    "receive": _receive_remark,
    "timer": _timer_remark,
    "scope": _scope_remark,
    "decision": _decision_remark,
    "stream": _stream_remark,
    "event": _event_remark,
}


def _status_remark(call: CallView, now_ms: int) -> str:
    if call.is_edited:
        return f"edited by {call.by}" if call.by else "edited"
    if call.type == "STEP_STARTED" and call.by and call.status in ("done", "failed"):
        return f"resolved by {call.by}"
    if call.status == "resting" and call.due_at is not None:
        return f"tried again {moment(call.due_at, now_ms)}" if call.due_at > now_ms else "to be tried again"
    late = {"receive": "no message came in time", "gate": "nobody answered in time"}.get(call.kind, "")
    words = {"timed_out": late, "in_doubt": "in doubt", "cut": "cut", "abandoned": "abandoned"}
    return words.get(call.status, "waits for an answer" if call.kind == "gate" and call.status == "waiting" else "")
