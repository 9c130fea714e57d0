"""What declarations have of late leaves the fingerprints of code that does not use it as they were."""

from __future__ import annotations

import loom
from loom.fingerprint import fingerprint


def test_a_field_that_a_declaration_has_of_late_counts_only_where_it_is_set() -> None:
    @loom.step(failures={"declined": str})
    def charge(cents: int) -> None: ...

    @loom.step
    def refund(cents: int) -> None: ...

    plain, guarded = charge.undone_by(refund), charge.undone_by(refund, unless=["declined"])

    async def one(ctx: loom.Context) -> None:
        async with loom.saga(ctx) as saga:
            await saga.run(plain, 1)

    before = fingerprint(one)
    assert plain.unless == ()
    plain = guarded

    assert fingerprint(one) != before
    plain = charge.undone_by(refund, unless=[])
    assert fingerprint(one) == before
