"""Simulators in the place of effects: what a fork would come to, with nothing done in the world (spec 4.5).

A fork that is simulated once is simulated for good: its log says so, and whoever drives it next, a worker say, simulates it, too. A
step without a simulator stops the drive, and is never run.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.middleware import EffectContext, Next
from loom.core.state import ExecutionState
from loom.core.step import Step, StepContext, step
from loom.driving.effects import EffectRuntime
from loom.kernel.calls import DriveEnding
from loom.kernel.drive import Drive
from loom.kernel.errors import DriveStopped
from loom.spi.surroundings import Surroundings

Simulator: TypeAlias = Callable[..., Any]
"""A function that takes what the step takes, and returns what the step might have returned."""

SPAWN_HINT: Final = (
    "A child would be driven for real. Fork it and simulate the fork, or leave the child out of what is simulated."
)


class NotSimulated(DriveStopped):
    """A simulated run asks for a step for which no simulator is declared; nothing was done."""

    code = "not-simulated"

    def __init__(self, *, execution_id: str, step: str) -> None:
        self.execution_id, self.step = execution_id, step
        spawns = step.startswith("spawn.")
        self.hint = SPAWN_HINT if spawns else f'Declare one: define_config(simulators={{"{step}": ...}}).'
        super().__init__(f"{execution_id} is simulated, and asks for {step}, which has no simulator")


class SimulationRefused(LoomError):
    """Only a fork that nobody has driven yet can be simulated."""

    code = "simulation-refused"
    hint = "Fork it, and simulate the fork: what has touched the world cannot be taken back."

    def __init__(self, *, execution_id: str, status: str) -> None:
        self.execution_id, self.status = execution_id, status
        super().__init__(f"{execution_id} is {status} and has done its effects for real")


def simulators_of(declared: Mapping[Any, Simulator], *, named: str = "simulator") -> dict[str, Step[Any, Any]]:
    """Return simulators by the id of their step; keys are steps, or their ids. *named* is what one is called where it is refused.

    Raises:
        InvalidDeclaration: a key is neither, or a value is no function.
    """
    found: dict[str, Step[Any, Any]] = {}
    for key, simulator in declared.items():
        name = key.id if isinstance(key, Step) else key
        if not isinstance(name, str) or not callable(simulator):
            raise InvalidDeclaration(f"{named}s has {key!r}: {simulator!r}", hint="A step or its id, and a function.")
        function = simulator.fn if isinstance(simulator, Step) else simulator
        found[name] = step(id="simulator")(function)
        if isinstance(key, Step):
            _require_same_parameters(key, found[name], named)
    return found


def stand_ins_of(declared: Mapping[Any, Simulator]) -> dict[str, Step[Any, Any]]:
    """Return what a test has in the place of steps, by their ids.

    Raises:
        InvalidDeclaration: a key is no step, a value no function, or the two take different parameters.
    """
    for each in declared:
        if not isinstance(each, Step):
            hint = "Name the step itself: with_steps({ship: fake_ship}). What ctx.run calls by a label needs @loom.step first."
            raise InvalidDeclaration(f"with_steps was given {each!r}, which is no step", hint=hint)
    found = simulators_of(declared, named="stand-in")
    for each in declared:
        if found[each.id].takes_context and not each.takes_context:
            told = f"the stand-in of {each.id} takes a StepContext, and the step takes none"
            raise InvalidDeclaration(told, hint="Give both the same parameters.")
    return found


def _require_same_parameters(real: Step[Any, Any], other: Step[Any, Any], named: str) -> None:
    theirs = other.signature.parameters.values()
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in theirs)
    if not takes_all and [each.name for each in theirs] != list(real.signature.parameters):
        told = f"the {named} of {real.id} takes {other.signature}, and the step {real.signature}"
        raise InvalidDeclaration(told, hint="Give both the same parameters.")


def require_fork(state: ExecutionState) -> None:
    """Return where *state* can be simulated from here on.

    Raises:
        SimulationRefused: it has been driven for real.
    """
    if state.status != "forked" and not state.facts.simulated:
        raise SimulationRefused(execution_id=state.execution_id, status=state.status)


def around_of(state: ExecutionState, around: Surroundings, *, simulates: bool) -> Surroundings:
    """Return what a run in *state* is driven with: *around*, with simulators for effects once it *simulates*."""
    if not (simulates or state.facts.simulated):
        return around
    return replace(around, effects=SimulatedEffects(state.execution_id, around.simulators))


def is_trial(state: ExecutionState) -> bool:
    """Whether the run is a fork that is simulated, or served from its source: it may stop for want of what nobody here has."""
    forked = state.facts.forked
    return state.facts.simulated or (forked is not None and forked.payload.reuse is not None)


def stopping(drive: Drive) -> Drive:
    """Return *drive*, which simulated effects may stop from now on."""
    if isinstance(drive.effects, SimulatedEffects):
        drive.effects.refuse = drive.stop
    return drive


class SimulatedEffects:
    """The door to the world of a simulated run: behind it are simulators."""

    def __init__(self, execution_id: str, simulators: Mapping[str, Step[Any, Any]]) -> None:
        self._execution_id, self._simulators = execution_id, simulators
        self._runtime = EffectRuntime()
        self.middleware = (_simulated,)
        self.refuse: Callable[[LoomError], None] = _nobody
        """Is told why the drive has to stop."""

    def invoke(
        self, step: Step[Any, Any], context: StepContext | None, args: list[Any], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        """Return what runs the simulator of *step*; without one the drive is stopped."""
        simulator = self._simulators.get(step.id)
        if simulator is None:
            return self._refused(step)
        return self._runtime.invoke(simulator, context, args, kwargs)

    async def _refused(self, step: Step[Any, Any]) -> Any:
        self.refuse(NotSimulated(execution_id=self._execution_id, step=step.id))
        raise DriveEnding


async def _simulated(about: EffectContext, input: dict[str, Any], simulator: Next) -> Any:
    """Stands for the simulators where the chain of an effect is told."""
    return await simulator(input)


def _nobody(error: LoomError) -> None:
    raise AssertionError("a drive is told before anything is invoked") from error
