"""A walk through Loom: kill it, resume it, answer it, and count the money: python demo.py [--fast]

Every line after a $ is a command that runs as it stands, in a process of its own (`loom` is `python -m loom_cli`). What
they write goes to a temporary folder. Ends with 1 if anything is not as told.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from app import DATA
from ledger import Ledger
from orders import Orders

HERE = Path(__file__).resolve().parent
PATIENCE_S = 30.0
WAITS = 3
"""The status of a command that leaves a run waiting for somebody."""

RISKY, PAID, UNPAID = "C-101", "C-128", "C-102"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="refund-desk-") as folder:
        ledger, terminal = Ledger(Path(folder) / "ledger.db"), Terminal(Path(folder))
        ledger.create()
        survive_a_crash_and_wait_for_a_person(terminal)
        die_after_the_money_has_left(terminal, ledger)
        die_before_the_money_has_left(terminal, ledger)
        count_the_money(terminal, ledger)


def survive_a_crash_and_wait_for_a_person(terminal: "Terminal") -> None:
    say, loom = terminal.say, terminal.loom
    terminal.title("1. A run outlives its process, and waits for a person")
    say(f"A run begins for the claim {RISKY}. We kill its process in the middle of the second step.")
    terminal.killed(*run(RISKY), pause_at="before assess_risk", once=lambda: terminal.is_running("assess_risk", RISKY))
    say("The process is gone. What happened stands in the log, so we still know where the run is:")
    loom("ps")
    loom("show", RISKY)
    say(
        "We resume it. What is recorded is not done again; only the step that was cut off is. The claim turns out to be"
        " risky, so the run stops at a gate, and the command ends with status 3."
    )
    loom("resume", RISKY, status=WAITS)
    say("Nothing runs now, be it for a minute or for days. This question waits for a person:")
    loom("gates")
    say("The person says yes. On the way the mail server fails twice, and is asked again:")
    loom("resume", RISKY, "--set", "approved=true", "--set", "reason=the photo is clear")
    say("The whole story, as the log has it:")
    loom("logs", RISKY)


def die_after_the_money_has_left(terminal: "Terminal", ledger: Ledger) -> None:
    terminal.title("2. The process dies when the money has left, but before that is written down")
    terminal.say(f"The claim {PAID} is small, so nobody is asked. We kill the process once the bank has the transfer.")
    terminal.killed(*run(PAID), pause_at="after pay", once=lambda: bool(ledger.transfers(PAID)))
    terminal.say("Was it paid? Loom cannot know. The step says that twice does harm (idempotent=False), so Loom asks:")
    terminal.loom("resume", PAID, status=WAITS)
    decide_by_the_ledger(terminal, ledger, PAID)


def die_before_the_money_has_left(terminal: "Terminal", ledger: Ledger) -> None:
    terminal.title("3. The process dies in the same step, a moment before the money leaves")
    terminal.killed(*run(UNPAID), pause_at="before pay", once=lambda: terminal.is_running("pay", UNPAID))
    terminal.say("For Loom this is the same case, so it asks again:")
    terminal.loom("resume", UNPAID, status=WAITS)
    decide_by_the_ledger(terminal, ledger, UNPAID)


def decide_by_the_ledger(terminal: "Terminal", ledger: Ledger, claim: str) -> None:
    terminal.say("We look into the ledger:")
    terminal.python("ledger.py", claim)
    made = ledger.transfers(claim)
    if made:
        terminal.say("The money has left. We tell Loom that the step is done, and what it returned:")
        receipt = json.dumps({"reference": made[0].reference, "amount_cents": made[0].amount_cents})
        terminal.loom("resolve", claim, "pay", "--as", "done", "--value", receipt)
    else:
        terminal.say("No money has left. We tell Loom to run the step again:")
        terminal.loom("resolve", claim, "pay", "--as", "retry")


def count_the_money(terminal: "Terminal", ledger: Ledger) -> None:
    terminal.title("4. The proof")
    terminal.loom("ps")
    terminal.python("ledger.py")
    prove(ledger)
    terminal.say("Three claims, three killed processes, and the money moved exactly once for each claim.")


def prove(ledger: Ledger) -> None:
    """Exit unless each claim was paid once, as much as it is worth, and each customer got one letter."""
    shop, transfers = Orders(DATA), ledger.transfers()
    for claim in (RISKY, PAID, UNPAID):
        paid = [transfer.amount_cents for transfer in transfers if transfer.claim == claim]
        check(paid == [shop.claim(claim).amount_cents], f"{claim} was paid {len(paid)} times: {paid}")
    check(len(transfers) == 3, f"there are other transfers: {transfers}")
    tries = [attempts for _, _, attempts in ledger.outbox()]
    check(tries == [3, 3, 3], f"three letters go out at the third attempt each, not {tries}")


def run(claim: str) -> tuple[str, ...]:
    return "run", "refund", "--id", claim, "--set", f"claim={claim}"


class Terminal:
    """Shows what is typed, and types it."""

    def __init__(self, folder: Path) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("LOOM_", "REFUND_DESK_"))
        }
        self.environment = inherited | {
            "LOOM_STORE": str(folder / "loom.db"),
            "LOOM_PRINCIPAL": "ines",
            "REFUND_DESK_LEDGER": str(folder / "ledger.db"),
        }
        self.is_watched = sys.stdout.isatty() and "--fast" not in sys.argv
        self.has_colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.show_cursor = "\x1b[?25h\n" if sys.stdout.isatty() else ""  # a killed process may have hidden it

    def title(self, text: str) -> None:
        self._print(f"\n\n{text}\n{'=' * len(text)}", style="1")

    def say(self, text: str) -> None:
        self._print(f"\n{textwrap.fill(text, 100)}")

    def loom(self, *arguments: str, status: int = 0) -> None:
        self._type(("loom", *arguments))
        done = self._run("-m", "loom_cli", *arguments)
        check(done.returncode == status, f"the command ended with {done.returncode}, not {status}")

    def python(self, *arguments: str) -> None:
        self._type(("python", *arguments))
        check(self._run(*arguments).returncode == 0, "the command failed")

    def killed(self, *arguments: str, pause_at: str, once: Callable[[], bool]) -> None:
        """Type a command, and kill its process *once* that is so; the step at *pause_at* takes long for this purpose."""
        self._type(("loom", *arguments), REFUND_DESK_PAUSE_AT=pause_at)
        environment = self.environment | {"REFUND_DESK_PAUSE_AT": pause_at}
        command = [sys.executable, "-m", "loom_cli", *arguments]
        with subprocess.Popen(command, cwd=HERE, env=environment, stdin=subprocess.DEVNULL) as process:
            try:
                wait_until(once, process)
            finally:
                process.kill()
        self._print(f"{self.show_cursor}-- process {process.pid} is dead (SIGKILL) --", style="31")

    def is_running(self, step: str, claim: str) -> bool:
        """Ask the log whether *step* has begun."""
        log = self._run("-m", "loom_cli", "logs", claim, "--json", quietly=True)
        return f'"id":"{step}"' in log.stdout.replace(" ", "")

    def _type(self, command: tuple[str, ...], **environment: str) -> None:
        if self.is_watched:
            time.sleep(1.5)  # for the eyes
        settings = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
        self._print(f"\n$ {' '.join([*settings, shlex.join(command)])}", style="36")

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

    def _print(self, text: str, style: str = "0") -> None:
        print(f"\x1b[{style}m{text}\x1b[0m" if self.has_colour else text, flush=True)


def wait_until(once: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not once():
        check(time.monotonic() < deadline, f"nothing happened for {PATIENCE_S:g} s")
        try:
            check(False, f"the process ended with {process.wait(timeout=0.05)} before it could be killed")
        except subprocess.TimeoutExpired:
            continue


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"\nThe demo failed: {otherwise}")


if __name__ == "__main__":
    main()
