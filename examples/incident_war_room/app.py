"""What the app is made of. The environment is read here, at the edge, and nowhere else."""

import os
from pathlib import Path
from typing import Any

import loom
from fleet import DEFAULT_PATH, Fleet
from flows import incident
from simulators import would_fail_over, would_measure_after, would_roll_back, would_scale_out
from steps import fail_over, measure_after, roll_back, scale_out


def war_room(fleet: Fleet, **config: Any) -> loom.LoomApp:
    """Wire the app. The fleet is opened once a process, when a first run needs it; steps and simulators reach it by name."""
    return loom.define_config(
        flows=[incident],
        resources={"fleet": fleet.opened},
        simulators={
            roll_back: would_roll_back,
            scale_out: would_scale_out,
            fail_over: would_fail_over,
            measure_after: would_measure_after,
        },
        **config,
    )


app = war_room(Fleet(Path(os.environ.get("WAR_ROOM_FLEET", DEFAULT_PATH))), storage=loom.sqlite_storage())
