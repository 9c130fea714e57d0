"""How far a command has come with what takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom_cli.screen import Screen
from loom_cli.watching import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """How far something has come: a bar on a terminal, some lines elsewhere. It is *doing* it, and has *done* so many."""

    def __init__(self, screen: Screen, *, doing: str, done: str) -> None:
        self._screen, self._doing, self._did = screen, doing, done
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._total = self._done = self._failed = 0
        self._is_quiet = True

    def begin(self, total: int, *, quiet: bool) -> None:
        self._total, self._is_quiet = total, quiet
        if quiet or total == 0 or not is_terminal(self._screen.err):
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        plain = not self._screen.colour_err
        console = Console(file=self._screen.err, force_terminal=True, no_color=plain, highlight=False, emoji=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}"),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task(self._doing, total=total, failed="")
        self._progress.start()

    def step(self, *, by: int = 1, failed: bool = False) -> None:
        self._done += by
        self._failed += failed
        words = f"{self._failed:,} failed" if self._failed else ""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=by, failed=words)
        elif not self._is_quiet and self._done < self._total and self._is_at_a_tenth(by):
            self.say(f"{self._did} {self._done:,} of {self._total:,}" + (f", {words}" if words else ""))

    def _is_at_a_tenth(self, by: int) -> bool:
        return self._total >= 100 and self._done * 10 // self._total > (self._done - by) * 10 // self._total

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.console.print(text)
        else:
            self._screen.note(text)
            self._screen.err.flush()

    def end(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.stop()
