"""What every `LeaseStore` must do. Time is that of *clock*, which the test moves; the store is made with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import CLAIM, INDEX, NOBODY, REFUND, after, appended, first, insert, ok, row_of
from loom.spi.clock import VirtualClock
from loom.spi.event_store import NOBODY as GIVEN_UP
from loom.spi.event_store import Appended, Claim, Conflict, ExecutionQuery, LeaseChange, Leased, Storage

LEASE_MS: Final = 15_000
MINE: Final = LeaseChange("mine", LEASE_MS)
PARKED: Final = replace(INDEX, status="suspended")


class LeaseConformance:
    """Who holds what, and for how long."""

    async def test_the_clock_of_the_store_is_the_one_it_was_given(self, store: Storage, clock: VirtualClock) -> None:
        clock.advance(5)

        assert await store.now_ms() == clock.now_ms()

    async def test_a_lease_is_taken_with_an_append_and_given_up_with_one(
        self, store: Storage, clock: VirtualClock
    ) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        clock.advance(5_000)
        held = await row_of(store, REFUND)
        drivers = list(await store.drivers())

        await appended(store, after(begun, REFUND, b"parked", lease=GIVEN_UP))

        assert (held.driver, held.lease_ms, drivers) == ("mine", 10_000, ["mine"])
        free = await row_of(store, REFUND)
        assert (free.driver, free.lease_ms, list(await store.drivers())) == ("", 0, [])

    async def test_an_append_that_says_nothing_of_the_lease_leaves_it(
        self, store: Storage, clock: VirtualClock
    ) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        clock.advance(5_000)

        await appended(store, after(begun, REFUND, b"on"))

        assert (await row_of(store, REFUND)).lease_ms == 10_000

    async def test_a_listing_tells_who_holds_each(self, store: Storage) -> None:
        await store.append([replace(first(REFUND), lease=MINE), first(CLAIM)])

        found = {row.execution_id: (row.driver, row.lease_ms) for row in await store.find(ExecutionQuery())}

        assert found == {REFUND: ("mine", LEASE_MS), CLAIM: ("", 0)}

    async def test_who_let_go_is_told_from_who_was_lost(self, store: Storage, clock: VirtualClock) -> None:
        await store.append([replace(first(REFUND), lease=MINE), replace(first(CLAIM), lease=MINE)])
        await store.release("mine", [REFUND])
        clock.advance(LEASE_MS)

        rows = [await row_of(store, REFUND), await row_of(store, CLAIM)]
        claims = await store.claim("theirs", lease_ms=LEASE_MS, limit=9)

        assert [(row.driver, row.lease_ms, row.released) for row in rows] == [("mine", 0, True), ("mine", 0, False)]
        assert {(claim.row.execution_id, claim.taken_from) for claim in claims} == {(REFUND, "mine"), (CLAIM, "mine")}
        assert not any(claim.row.released for claim in claims)

    async def test_what_is_to_be_skipped_is_left_for_others(self, store: Storage) -> None:
        await store.append([replace(first(each), index=replace(PARKED, wake_at=1)) for each in (REFUND, CLAIM)])

        mine = await store.claim("mine", lease_ms=LEASE_MS, limit=9, skip=[REFUND, NOBODY])
        theirs = await store.claim("theirs", lease_ms=LEASE_MS, limit=9)

        assert [(claim.row.execution_id, claim.taken_from) for claim in [*mine, *theirs]] == [(CLAIM, ""), (REFUND, "")]

    async def test_a_refused_append_leaves_the_lease(self, store: Storage) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))

        await store.append([replace(after(begun, REFUND, b"no", lease=LeaseChange("theirs", 9)), expected=7)])

        assert (await row_of(store, REFUND)).driver == "mine"

    async def test_a_repeated_append_does_not_take_the_lease_back(self, store: Storage) -> None:
        item = replace(first(REFUND), lease=MINE)
        await appended(store, item)
        await store.release("mine", [REFUND])
        await store.claim("theirs", lease_ms=LEASE_MS, limit=1)

        await appended(store, item)

        assert (await row_of(store, REFUND)).driver == "theirs"

    async def test_renewing_holds_for_longer_and_tells_what_is_lost(self, store: Storage, clock: VirtualClock) -> None:
        theirs = LeaseChange("theirs", LEASE_MS)
        await store.append([replace(first(REFUND), lease=MINE), replace(first(CLAIM), lease=theirs)])
        clock.advance(10_000)

        lost = await store.renew("mine", [REFUND, CLAIM, NOBODY], lease_ms=LEASE_MS)

        assert list(lost) == [CLAIM, NOBODY]
        assert (await row_of(store, REFUND)).lease_ms == LEASE_MS
        assert (await row_of(store, CLAIM)).lease_ms == 5_000

    async def test_a_lapsed_lease_that_nobody_took_can_be_renewed(self, store: Storage, clock: VirtualClock) -> None:
        await appended(store, replace(first(REFUND), lease=MINE))
        clock.advance(LEASE_MS)

        assert list(await store.renew("mine", [REFUND], lease_ms=LEASE_MS)) == []
        assert (await row_of(store, REFUND)).lease_ms == LEASE_MS

    async def test_of_its_own_lapsed_leases_a_driver_is_given_those_that_it_is_not_driving(
        self, store: Storage, clock: VirtualClock
    ) -> None:
        """A claim whose answer was lost, or an append that was refused by mistake, leaves it what it knows nothing of."""
        await store.append([replace(first(each), lease=MINE) for each in (REFUND, CLAIM)])
        early = await store.claim("mine", lease_ms=LEASE_MS, limit=9, driving=[CLAIM])
        clock.advance(LEASE_MS)

        claims = await store.claim("mine", lease_ms=LEASE_MS, limit=9, driving=[CLAIM])

        assert list(early) == []
        assert [(claim.row.execution_id, claim.found) for claim in claims] == [(REFUND, "lapsed")]

    async def test_each_driver_is_told_once(self, store: Storage) -> None:
        names = [ExecutionId(f"run-{number}") for number in range(6)]
        leases = [LeaseChange(driver, LEASE_MS) for driver in ("c", "a", "b", "a", "c", "a")]
        await store.append([replace(first(name), lease=lease) for name, lease in zip(names, leases, strict=True)])

        assert sorted(await store.drivers()) == ["a", "b", "c"]


class TakeOverConformance:
    """Taking a run over by an append."""

    async def test_it_is_refused_while_the_lease_of_another_runs(self, store: Storage, clock: VirtualClock) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        clock.advance(LEASE_MS - 1)

        [result] = await store.append([_takes_over(begun, "theirs")])

        assert result == Leased("mine", 1)
        assert ((await row_of(store, REFUND)).length, (await row_of(store, REFUND)).driver) == (1, "mine")

    async def test_it_is_allowed_once_the_lease_has_lapsed(self, store: Storage, clock: VirtualClock) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        clock.advance(LEASE_MS)

        await appended(store, _takes_over(begun, "theirs"))

        assert (await row_of(store, REFUND)).driver == "theirs"

    async def test_it_is_allowed_when_the_driver_is_known_to_be_gone(self, store: Storage) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        wrong = replace(_takes_over(begun, "theirs"), gone="somebody")

        [refused] = await store.append([wrong])
        await appended(store, replace(_takes_over(begun, "theirs"), gone="mine"))

        assert refused == Leased("mine", LEASE_MS)
        assert (await row_of(store, REFUND)).driver == "theirs"

    async def test_it_is_allowed_to_the_driver_itself(self, store: Storage) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))

        assert (await appended(store, _takes_over(begun, "mine"))).length == 2

    async def test_it_is_allowed_when_nobody_holds_the_run_or_let_it_go(self, store: Storage) -> None:
        refund = await appended(store, first(REFUND))
        claim = await appended(store, replace(first(CLAIM), lease=MINE))
        await store.release("mine", [CLAIM])

        await appended(store, _takes_over(refund, "theirs"))
        await appended(store, _takes_over(claim, "theirs", CLAIM))

        assert list(await store.drivers()) == ["theirs"]

    async def test_a_late_append_of_the_driver_before_is_a_conflict(self, store: Storage, clock: VirtualClock) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        clock.advance(LEASE_MS)
        taken = await appended(store, _takes_over(begun, "theirs"))

        [late] = await store.append([after(begun, REFUND, b"late", lease=MINE)])

        assert late == Conflict(taken.length, taken.incarnation)
        assert (await row_of(store, REFUND)).driver == "theirs"

    async def test_only_the_clock_of_the_store_counts(self, store: Storage, clock: VirtualClock) -> None:
        """Two drivers whose own clocks are ten minutes apart: what they write into events and rows is not looked at."""
        early, late = clock.now_ms() - 300_000, clock.now_ms() + 300_000
        index = replace(INDEX, started_at=late, updated_at=late)
        begun = await appended(store, replace(first(REFUND, index=index), lease=MINE))

        [refused] = await store.append([replace(_takes_over(begun, "theirs"), index=replace(index, updated_at=early))])
        claimed = await store.claim("theirs", lease_ms=LEASE_MS, limit=1)

        assert (refused, list(claimed)) == (Leased("mine", LEASE_MS), [])


class ClaimConformance:
    """What a worker is given to drive."""

    async def test_a_run_whose_time_has_come_is_claimed(self, store: Storage, clock: VirtualClock) -> None:
        wakes = {"now": 0, "later": 1, "never": None}
        await _parked(store, {name: None if at is None else clock.now_ms() + at for name, at in wakes.items()})

        [claim] = await store.claim("mine", lease_ms=LEASE_MS, limit=10)

        assert (claim.row.execution_id, claim.found, claim.calls) == ("now", "due", 0)
        assert claim.row == await row_of(store, ExecutionId("now"))
        assert (claim.row.driver, claim.row.lease_ms) == ("mine", LEASE_MS)

    async def test_a_run_whose_driver_was_called_is_claimed(self, store: Storage) -> None:
        heads = await _parked(store, {"called": None, "quiet": None})
        for _ in range(2):
            await insert(store, heads["called"], execution_id=ExecutionId("called"))

        [claim] = await store.claim("mine", lease_ms=LEASE_MS, limit=10)

        assert (claim.row.execution_id, claim.found, claim.calls) == ("called", "due", 2)

    async def test_what_somebody_holds_is_not_claimed(self, store: Storage, clock: VirtualClock) -> None:
        await _parked(store, {"due": clock.now_ms()}, lease=MINE)
        await _parked(store, {"claimed": clock.now_ms()})
        await store.claim("another", lease_ms=LEASE_MS, limit=10)

        assert list(await store.claim("theirs", lease_ms=LEASE_MS, limit=10)) == []

    async def test_it_is_told_what_became_of_the_driver(self, store: Storage, clock: VirtualClock) -> None:
        for driver in ("slow", "gone", "soft"):
            lease = LeaseChange(driver, 1 if driver == "slow" else LEASE_MS)
            await appended(store, replace(first(ExecutionId(driver)), lease=lease))
        await store.release("soft", [ExecutionId("soft")])
        clock.advance(1)

        claims = await store.claim("mine", lease_ms=LEASE_MS, limit=10, gone=["gone", "soft"])

        assert {claim.row.execution_id: claim.found for claim in claims} == {
            "slow": "lapsed",
            "gone": "gone",
            "soft": "released",
        }

    async def test_who_does_not_hold_a_run_cannot_release_it(self, store: Storage) -> None:
        await appended(store, replace(first(REFUND), lease=MINE))

        await store.release("theirs", [REFUND, NOBODY])

        assert list(await store.claim("theirs", lease_ms=LEASE_MS, limit=10)) == []
        assert (await row_of(store, REFUND)).lease_ms == LEASE_MS

    async def test_who_renews_what_it_released_holds_it_again(self, store: Storage, clock: VirtualClock) -> None:
        await appended(store, replace(first(REFUND), lease=MINE))
        await store.release("mine", [REFUND])

        await store.renew("mine", [REFUND], lease_ms=LEASE_MS)

        assert list(await store.claim("theirs", lease_ms=LEASE_MS, limit=1)) == []
        clock.advance(LEASE_MS)
        assert [claim.found for claim in await store.claim("theirs", lease_ms=LEASE_MS, limit=1)] == ["lapsed"]

    async def test_a_driver_does_not_claim_what_it_is_driving(self, store: Storage, clock: VirtualClock) -> None:
        await store.append([replace(first(name), lease=MINE) for name in (REFUND, CLAIM)])
        await store.release("mine", [CLAIM])
        clock.advance(LEASE_MS)

        claims = await store.claim("mine", lease_ms=LEASE_MS, limit=10, driving=[REFUND])

        assert [(claim.row.execution_id, claim.found) for claim in claims] == [(CLAIM, "released")]

    async def test_what_has_ended_or_is_paused_is_not_claimed(self, store: Storage, clock: VirtualClock) -> None:
        ended = replace(INDEX, status="completed", ended=True, wake_at=clock.now_ms())
        paused = replace(INDEX, status="paused")
        begun = await appended(store, first(REFUND, index=ended))
        await insert(store, begun)
        await store.append([first(CLAIM, index=paused), replace(first(NOBODY, index=ended), lease=MINE)])
        clock.advance(LEASE_MS)

        assert list(await store.claim("theirs", lease_ms=LEASE_MS, limit=10, gone=["mine"])) == []

    async def test_what_is_asked_of_a_run_that_ended_is_found_once_it_is_open_again(self, store: Storage) -> None:
        failed = replace(INDEX, status="failed", ended=True)
        begun = await appended(store, first(REFUND, index=failed))
        await insert(store, begun)

        await appended(store, after(begun, REFUND, b"retried", index=PARKED))

        assert [claim.found for claim in await store.claim("mine", lease_ms=LEASE_MS, limit=10)] == ["due"]

    async def test_the_longest_due_come_first_up_to_the_limit(self, store: Storage, clock: VirtualClock) -> None:
        now = clock.now_ms()
        heads = await _parked(store, {"c": now + 30, "a": now + 10, "called": now + 90, "e": now + 50})
        held = LeaseChange("lost", 40)
        await appended(store, replace(first(ExecutionId("held")), lease=held))
        clock.advance(20)
        await insert(store, heads["called"], execution_id=ExecutionId("called"))
        clock.advance(1_000)

        claims = [await store.claim("mine", lease_ms=LEASE_MS, limit=2) for _ in range(4)]

        assert [_ids(each) for each in claims] == [["a", "called"], ["c", "held"], ["e"], []]

    async def test_who_is_called_again_keeps_its_place(self, store: Storage, clock: VirtualClock) -> None:
        heads = await _parked(store, {"a": None, "b": None})
        for name in ("a", "b", "a"):
            await insert(store, heads[name], execution_id=ExecutionId(name))
            clock.advance(1)

        claims = await store.claim("mine", lease_ms=LEASE_MS, limit=9)

        assert [(claim.row.execution_id, claim.calls) for claim in claims] == [("a", 2), ("b", 1)]

    async def test_only_flows_that_can_be_driven_are_claimed(self, store: Storage, clock: VirtualClock) -> None:
        now = clock.now_ms()
        for place, flow in enumerate(("refund", "tax", "claim")):
            await appended(store, first(ExecutionId(flow), index=replace(PARKED, flow=flow, wake_at=now - 9 + place)))

        assert _ids(await store.claim("mine", lease_ms=LEASE_MS, limit=1, flows=["claim", "tax"])) == ["tax"]
        assert _ids(await store.claim("mine", lease_ms=LEASE_MS, limit=9, flows=[])) == []
        assert sorted(_ids(await store.claim("mine", lease_ms=LEASE_MS, limit=9))) == ["claim", "refund"]

    async def test_what_is_left_can_be_claimed_when_it_is_due_or_called_again(
        self, store: Storage, clock: VirtualClock
    ) -> None:
        heads = await _parked(store, {"due": clock.now_ms(), "heard": None, "called": None})
        names = [ExecutionId(name) for name in ("heard", "called")]
        for name in names:
            await insert(store, heads[name], execution_id=name)
        claims = await store.claim("mine", lease_ms=LEASE_MS, limit=9)
        await insert(store, heads["called"], execution_id=ExecutionId("called"))

        await store.leave("theirs", {claim.row.execution_id: claim.calls for claim in claims})
        none = await store.claim("theirs", lease_ms=LEASE_MS, limit=9)
        await store.leave("mine", {claim.row.execution_id: claim.calls for claim in claims})
        again = await store.claim("theirs", lease_ms=LEASE_MS, limit=9)

        assert list(none) == []
        heard = [claim.row.execution_id for claim in claims if claim.row.execution_id not in _ids(again)]
        assert heard == ["heard"]
        assert sorted((claim.row.execution_id, claim.found, claim.calls) for claim in again) == [
            ("called", "due", 2),
            ("due", "due", 0),
        ]

    async def test_what_is_claimed_was_called_until_it_is_given_up(self, store: Storage) -> None:
        heads = await _parked(store, {REFUND: None})
        await insert(store, heads[REFUND])
        await store.claim("mine", lease_ms=LEASE_MS, limit=1)
        resumed = await appended(store, after(heads[REFUND], REFUND, b"resumed", lease=MINE))
        await store.release("mine", [REFUND])

        [claim] = await store.claim("theirs", lease_ms=LEASE_MS, limit=1)
        await appended(store, after(resumed, REFUND, b"parked", lease=GIVEN_UP, index=PARKED))

        assert (claim.found, claim.calls) == ("released", 1)
        assert list(await store.claim("mine", lease_ms=LEASE_MS, limit=1)) == []


def _takes_over(head: Appended, driver: str, execution_id: ExecutionId = REFUND) -> Any:
    return after(head, execution_id, b"taken over", lease=LeaseChange(driver, LEASE_MS), takes_over=True)


async def _parked(store: Storage, wakes: Any, lease: LeaseChange | None = None) -> dict[str, Appended]:
    """Begin a parked run for each name, with the time at which it wakes."""
    items = [
        replace(first(ExecutionId(name), index=replace(PARKED, wake_at=at)), lease=lease) for name, at in wakes.items()
    ]
    return {name: ok(result) for name, result in zip(wakes, await store.append(items), strict=True)}


def _ids(claims: Sequence[Claim]) -> list[str]:
    return [claim.row.execution_id for claim in claims]
