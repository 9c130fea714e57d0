"""Stored runs against the code as it is: what would become of them if it were deployed now (the library of `loom deploy check`).

    checking = Checking(app.registry.flows, app.registry.tools)
    async for verdict in checking.verdicts(runs):
        ...
    report = report_of(verdicts)

Each run is replayed by the real kernel, cut off from the world, and gets a verdict; runs that break in the same way are one
finding with a count. A verdict is no guess: it is what the kernel would say when it took the run up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from loom.core.changes import OnChange
from loom.core.flow import Flow
from loom.core.state import ExecutionState
from loom.core.step import Step
from loom.devtools.cut_off import CutOff, cut_off
from loom.driving.replaying import Manner, Replayed, Replayer
from loom.driving.verdicts import Verdict, VerdictKind
from loom.lenses.folding import fold_at, state_digest
from loom.spi.event_store import EventRecord

SAMPLES_MAX: Final = 5
KINDS: Final[tuple[VerdictKind, ...]] = (
    "same",
    "migrates",
    "breaks",
    "unreadable",
    "flow_missing",
    "newer",
    "redacted",
    "damaged",
)
_TAG: Final = re.compile(r"#[^/]*")
_BRANCH: Final = re.compile(r"/\d+/")


class StoredRun(NamedTuple):
    """A run to check: its id, its log as stored, and how many events that is to have where it is known.

    *base* is the state of its checkpoint, where events before that were moved to an archive. *fault* says why its log could not be read; then there is none.
    """

    id: str
    records: Sequence[EventRecord]
    length: int | None = None
    fault: str = ""
    base: ExecutionState | None = None


class Checking:
    """Replays stored runs against the code at hand, *flows* and *tools*, one after the other.

    *on_change* is that of the app, for flows that have none of their own: with `allow`, arguments may differ under the same code.
    *manner* is how they are replayed, where not without a stop.
    """

    def __init__(
        self,
        flows: Mapping[str, Flow[Any, Any]],
        tools: Mapping[str, Step[Any, Any]] | None = None,
        *,
        on_change: OnChange = "check",
        manner: Manner | None = None,
    ) -> None:
        self._replayer = Replayer(flows, tools, is_lenient=on_change == "allow", manner=manner)

    async def replayed(self, run: StoredRun) -> Replayed:
        """Return what came of the replay of *run*, cut off from the world."""
        if run.fault:
            return Replayed(Verdict(id=run.id, kind="damaged", why=run.fault))
        with cut_off() as reached:
            replayed = await self._replayer.replay(run.id, run.records, length=run.length, base=run.base)
        if replayed.verdict.kind != "damaged":
            digest = state_digest(fold_at(replayed.events, base=replayed.base))
            replayed = replayed._replace(verdict=replace(replayed.verdict, digest=digest))
        if not reached:
            return replayed
        why, where = f"The flow itself asked for {reached[0].what}, which only a step may.", reached[0].where
        verdict = replace(
            replayed.verdict, kind="breaks", where=where, why=why, hint=CutOff.hint, recorded=None, asked=None
        )
        return replayed._replace(verdict=verdict)

    async def verdicts(self, runs: AsyncIterator[StoredRun]) -> AsyncIterator[Verdict]:
        """Yield the verdict on each of *runs*, in their order."""
        async for run in runs:
            yield (await self.replayed(run)).verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Runs that the code cannot take up, all for one reason: *count* of them, the ids of some, and the verdict on one.

    *step* is the identity that is to blame, with what differs from run to run left out.
    """

    kind: VerdictKind
    flow: str
    step: str | None
    count: int
    samples: tuple[str, ...]
    first: Verdict


class Checked(NamedTuple):
    """A run that was checked: its verdict, its last event, and the name of the state after that, None where its log is not whole."""

    id: str
    kind: VerdictKind
    sequence: int
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployReport:
    """What would become of *runs* stored runs: how many of each verdict, by flow as well, and the findings, the largest first.

    *noted* is how many of those that need a migration differ in arguments or in their end. *checked* are all the runs, as they came.
    """

    runs: int
    counts: Mapping[VerdictKind, int]
    flows: Mapping[str, Mapping[VerdictKind, int]]
    findings: tuple[Finding, ...]
    noted: int
    checked: tuple[Checked, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Whether the code can take up every run."""
        return not self.findings


def report_of(verdicts: Iterable[Verdict]) -> DeployReport:
    """Return what *verdicts* come to."""
    flows: dict[str, Counter[VerdictKind]] = {}
    groups: dict[tuple[Any, ...], list[Verdict]] = {}
    checked: list[Checked] = []
    noted = 0
    for verdict in verdicts:
        checked.append(Checked(verdict.id, verdict.kind, verdict.length - 1, verdict.digest))
        flows.setdefault(verdict.flow, Counter())[verdict.kind] += 1
        noted += verdict.kind == "migrates" and bool(verdict.differences or verdict.end)
        if not verdict.is_fine:
            groups.setdefault(cause_of(verdict), []).append(verdict)
    findings = sorted(map(_finding, groups.values()), key=lambda each: (-each.count, each.flow, each.step or ""))
    counts = {kind: sum(of_flow[kind] for of_flow in flows.values()) for kind in KINDS}
    by_flow = {flow: dict(flows[flow]) for flow in sorted(flows)}
    return DeployReport(
        runs=len(checked),
        counts=counts,
        flows=by_flow,
        findings=tuple(findings),
        noted=noted,
        checked=tuple(checked),
    )


def cause_of(verdict: Verdict) -> tuple[Any, ...]:
    """Return what runs have in common that break for one reason: not their ids, arguments, occurrences and branches."""
    sides = [_family(side) for side in (verdict.recorded, verdict.asked)]
    why = "" if verdict.kind == "breaks" and verdict.where else verdict.why.replace(verdict.id, "")
    sequence = verdict.sequence if verdict.kind == "damaged" else None
    return verdict.kind, verdict.flow, family(verdict.step), *sides, verdict.where, why, sequence


def family(identity: str | None) -> str | None:
    """Return *identity* without what data decides: `map/3/fetch#2` is of the family `map/*/fetch`."""
    if identity is None:
        return None
    return _BRANCH.sub("/*/", _BRANCH.sub("/*/", _TAG.sub("", identity)))


def _family(side: Mapping[str, Any] | None) -> tuple[str, str | None] | None:
    return None if side is None else (str(side.get("kind")), family(side.get("id")))


def _finding(verdicts: Sequence[Verdict]) -> Finding:
    first = verdicts[0]
    samples = tuple(verdict.id for verdict in verdicts[:SAMPLES_MAX])
    return Finding(
        kind=first.kind,
        flow=first.flow,
        step=family(first.step),
        count=len(verdicts),
        samples=samples,
        first=first,
    )
