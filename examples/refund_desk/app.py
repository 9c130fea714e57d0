"""What the app is made of. The environment is read here, at the edge, and nowhere else."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import loom
from flows import refund
from ledger import DEFAULT_PATH, Ledger
from orders import Orders
from pause import PauseAt

DATA = Path(__file__).parent / "data" / "orders.db"


def refund_desk(orders: Orders, ledger: Ledger, *, pause_at: str = "", **config: Any) -> loom.LoomApp:
    """Wire the app. Its resources are opened once a process, when a first run needs them; steps reach them by name."""
    return loom.define_config(
        flows=[refund],
        resources={"orders": lambda: nullcontext(orders), "ledger": ledger.opened},
        middleware=[PauseAt(pause_at)] if pause_at else [],
        **config,
    )


app = refund_desk(
    Orders(Path(os.environ.get("REFUND_DESK_DATA", DATA))),
    Ledger(Path(os.environ.get("REFUND_DESK_LEDGER", DEFAULT_PATH))),
    pause_at=os.environ.get("REFUND_DESK_PAUSE_AT", ""),
    storage=loom.sqlite_storage(),
)
