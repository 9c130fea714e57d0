"""A night in the war room: three remedies tried on paper, one done for real, once: python demo.py

Every line after a $ is a command that runs as it stands, in a process of its own (`loom` is `python -m loom_cli`). What they
write goes to a temporary folder. Ends with 1 if anything is not as told.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from fleet import Fleet
from models import Health

HERE = Path(__file__).resolve().parent
INCIDENT = "INC-7"
REMEDIES = ("roll back", "scale out", "fail over")
WAITS, DIFFERS = 3, 1


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="war-room-") as folder:
        fleet, terminal = Fleet(Path(folder) / "fleet.db"), Terminal(Path(folder))
        fleet.create()
        before = fleet.health("checkout")
        investigate(terminal)
        predicted = try_on_paper(terminal)
        check(fleet.acts() == [], "the simulations have touched the fleet")
        best = min(predicted, key=lambda remedy: predicted[remedy].errors_percent)
        done = do_it(terminal, best)
        prove(terminal, fleet, best, done)
        say_how_it_went(terminal, before, predicted[best], fleet.health("checkout"))


def investigate(terminal: "Terminal") -> None:
    terminal.title("1. The pager rings: checkout fails")
    terminal.python("fleet.py")
    terminal.say("The war room looks at everything at once, and asks the incident commander for a remedy:")
    terminal.loom("run", "incident", "--id", INCIDENT, "--set", "service=checkout", "--set", "minute=119", status=WAITS)


def try_on_paper(terminal: "Terminal") -> dict[str, Health]:
    """Fork the incident at its gate, once for each remedy, and simulate it there; return how checkout would do."""
    terminal.title("2. Three remedies, forked at the gate and simulated")
    gate = str(terminal.asked("show", INCIDENT, "--json")["sequence"])
    predicted = {}
    for remedy in REMEDIES:
        terminal.loom("fork", INCIDENT, "--at", gate, "--id", branch(remedy))
        terminal.loom("resume", branch(remedy), "--simulate", "--set", f"remedy={remedy}", "--quiet")
        predicted[remedy] = Health(**terminal.asked("show", branch(remedy), "--json")["result"]["after"])
    terminal.say("Side by side, on the same traffic. Nothing was done to the fleet:")
    terminal.loom("branch", "compare", *map(branch, REMEDIES), status=DIFFERS)
    return predicted


def do_it(terminal: "Terminal", best: str) -> str:
    """Promote the branch that did best, and have it done for real; return the run that did it."""
    terminal.title("3. The one that counts")
    terminal.loom("promote", branch(best), "--reason", "fewest failed requests")
    [chosen] = [each for each in terminal.asked("branch", "list", INCIDENT, "--json") if "main" in each["names"]]
    terminal.say("It was a simulation, so it was forked once more, at the same gate. This one is for real:")
    terminal.loom("resume", chosen["id"], "--set", f"remedy={best}")
    terminal.loom("branch", "list", INCIDENT)
    return str(chosen["id"])


def prove(terminal: "Terminal", fleet: Fleet, best: str, done: str) -> None:
    """Exit unless that remedy was done, once, by that run, and nothing else."""
    terminal.title("4. The proof")
    terminal.python("fleet.py")
    acts = [(act.incident, act.what) for act in fleet.acts()]
    check(acts == [(done, best)], f"one remedy is done once, and not {acts}")
    terminal.say("To ask again changes nothing: the run has ended.")
    terminal.loom("resume", done, "--set", f"remedy={best}", status=2)
    check(len(fleet.acts()) == 1, "it was done twice")


def say_how_it_went(terminal: "Terminal", before: Health, predicted: Health, after: Health) -> None:
    check(after.is_well, f"checkout is still ill: {after}")
    off = abs(after.errors_percent - predicted.errors_percent)
    check(off < 0.5, f"the prediction was off by {off:.2f} %")
    terminal.say(
        f"Three remedies, one done, once. Checkout failed {before.errors_percent} % of its requests; {predicted.errors_percent} % were"
        f" predicted, and it fails {after.errors_percent} % now."
    )


def branch(remedy: str) -> str:
    return f"{INCIDENT}-{remedy.replace(' ', '-')}"


class Terminal:
    """Shows what is typed, and types it."""

    def __init__(self, folder: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LOOM_", "WAR_ROOM_"))}
        self.environment = inherited | {
            "LOOM_STORE": str(folder / "loom.db"),
            "LOOM_PRINCIPAL": "ines",
            "WAR_ROOM_FLEET": str(folder / "fleet.db"),
        }

    def title(self, text: str) -> None:
        print(f"\n\n{text}\n{'=' * len(text)}", flush=True)

    def say(self, text: str) -> None:
        print(f"\n{textwrap.fill(text, 100)}", flush=True)

    def loom(self, *arguments: str, status: int = 0) -> None:
        print(f"\n$ {shlex.join(('loom', *arguments))}", flush=True)
        done = self._run("-m", "loom_cli", *arguments)
        check(done.returncode == status, f"the command ended with {done.returncode}, not {status}")

    def python(self, *arguments: str) -> None:
        print(f"\n$ {shlex.join(('python', *arguments))}", flush=True)
        check(self._run(*arguments).returncode == 0, "the command failed")

    def asked(self, *arguments: str) -> Any:
        """Return what a command prints as JSON, which is not shown: one object, or one a line."""
        lines = self._run("-m", "loom_cli", *arguments, quietly=True).stdout
        try:
            return json.loads(lines)
        except json.JSONDecodeError:
            return [json.loads(line) for line in lines.splitlines()]

    def _run(self, *arguments: str, quietly: bool = False) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=HERE,
            env=self.environment,
            stdin=subprocess.DEVNULL,  # a command that lacks an answer says so; it does not ask
            capture_output=quietly,
            text=True,
            check=False,
        )


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"\nThe demo failed: {otherwise}")


if __name__ == "__main__":
    main()
