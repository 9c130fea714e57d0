"""Decide every open claim anew and compare with the outcomes on record, expected.json: python -m evals.decide

When a change of the rules is meant to change outcomes, record them and review the difference:
python -m evals.decide --accept
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from app import DATA, refund_desk
from ledger import Ledger
from models import Request
from orders import Orders

EXPECTED = Path(__file__).parent / "expected.json"
YES_BELOW = 70
"""The score below which the reviewer of the evals says yes."""


async def decided(folder: Path) -> dict[str, Any]:
    """Run all open claims side by side, and return for each its risk, whether a person was asked, and its end."""
    orders, ledger = Orders(DATA), Ledger(folder / "ledger.db", mail_failures=0)
    async with refund_desk(orders, ledger) as app:

        async def decide(claim: str) -> dict[str, Any]:
            outcome = await app.runtime.start("refund", Request(claim), id=claim)
            risk = (await app.runtime.events(claim))[4].payload.result
            asked = outcome.status == "suspended"
            if asked:
                outcome = await app.runtime.resume(claim, answer={"approved": risk["score"] < YES_BELOW})
            paid_cents = sum(transfer.amount_cents for transfer in ledger.transfers(claim))
            return {"risk": risk["score"], "asked": asked, "status": outcome.result().status, "paid_cents": paid_cents}

        claims = orders.open_claims()
        return dict(zip(claims, await asyncio.gather(*map(decide, claims)), strict=True))


def expected() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return recorded


def as_text(decisions: dict[str, Any]) -> str:
    """Return JSON with a line a claim, so that a difference reads well."""
    lines = ",\n".join(f"  {json.dumps(claim)}: {json.dumps(decision)}" for claim, decision in decisions.items())
    return f"{{\n{lines}\n}}\n"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        present = asyncio.run(decided(Path(folder)))
    if arguments == ["--accept"]:
        EXPECTED.write_text(as_text(present), encoding="utf-8")
        return 0
    recorded = expected()
    changed = [claim for claim in sorted({*present, *recorded}) if present.get(claim) != recorded.get(claim)]
    for claim in changed:
        print(f"{claim}: was {recorded.get(claim)}, is {present.get(claim)}")
    print(f"{len(present) - len(changed)} of {len(present)} claims end as recorded")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
