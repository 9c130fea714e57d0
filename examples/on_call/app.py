"""What the app is made of. The environment is read here, at the edge, and nowhere else."""

import os
from pathlib import Path
from typing import Any

import loom
from flows import hand_over, incident, sweep
from outside import DEFAULT_PATH, Outside

SCHEDULES = [
    loom.schedule("sweep", "0 * * * *", sweep, overlap="skip"),
    loom.schedule("hand-over", "0 9 * * MON", hand_over, tz="Europe/Berlin"),
]


def on_call(outside: Outside, **config: Any) -> loom.LoomApp:
    """Wire the app. What is outside is opened once a process, when a first run needs it; steps reach it by name."""
    return loom.define_config(
        flows=[sweep, incident, hand_over],
        schedules=SCHEDULES,
        resources={"outside": outside.opened},
        **config,
    )


app = on_call(Outside(Path(os.environ.get("ON_CALL_OUTSIDE", DEFAULT_PATH))), storage=loom.sqlite_storage())
