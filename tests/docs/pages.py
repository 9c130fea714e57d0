"""A page of documentation as something to run: its blocks, what they promise, and what came of them.

In a ```console block a line after `$ ` is a command, with `# ends with N` where its status is not 0, and the lines below it
are lines of its output, not all of them. A ```python block that imports something is run; if its first line is a comment
that names a file, it is put there first; `print(...)  # words` promises a line of output.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from typer.main import get_command

from tests.forked import program

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md")))
EXAMPLES: Final = tuple(sorted((ROOT / "examples").glob("*/README.md")))
LINKING: Final = (*PAGES, *EXAMPLES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "adr").glob("*.md")))
ALONE: Final = ("--version", "--install-completion", "--show-completion")
"""Options of `loom` itself."""

_BLOCK: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_STATUS: Final = re.compile(r"\s+# ends with (\d+)$")
_FILE: Final = re.compile(r"# ([\w/]+\.py)\n")
_PRINTS: Final = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)
_SLEEP: Final = re.compile(r"sleep \d+;")
_BEHIND: Final = re.compile(r"--id (\S+) .*&$")
_MARK: Final = "@@loom-docs@@"
_DIFFERS: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?|\b\d{1,2} [A-Z][a-z]{2} \d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?(ms|s|m|h|d)\b( \d+(s|m|h)\b)?|\bnow\b"), "AGE"),
    (re.compile(r"(?<=--shown=)[\w-]{22}|(?<=^state )[\w-]{22}"), "DIGEST"),
    (re.compile(r"\s+"), " "),
)
"""What is not the same in two runs, and what stands for it when they are compared."""

_UNTIL_A_STEP_IS_DONE: Final = (
    "until loom logs {run} --type STEP_COMPLETED 2>/dev/null | grep -q STEP_COMPLETED; do sleep 0.1; done;"
)
"""What a reader's `sleep` before a `kill` is for: here nothing depends on how fast the machine is."""


SURROUNDINGS: Final = {
    "LANG": "C.UTF-8",
    "LOOM_PRINCIPAL": "ada",
    "PYTHONUTF8": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "COLUMNS": "120",
}
"""What a page is run in, beside its PATH and HOME."""


class Block(NamedTuple):
    """A fenced block: where it begins, in which language, and what it says."""

    line: int
    language: str
    text: str


class Act(NamedTuple):
    """Something to run: shell text, the status it ends with, and lines that it prints."""

    line: int
    shell: str
    status: int
    prints: tuple[str, ...]


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of *page*, in order."""
    for found in _BLOCK.finditer(page):
        yield Block(page.count("\n", 0, found.start()) + 2, found["language"], found["text"])


def prose(page: str) -> str:
    """Return *page* without its blocks."""
    return _BLOCK.sub("", page)


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page: its headings, as they are written in links."""
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def typed(page: str) -> Iterator[str]:
    """Yield what *page* has somebody type or name: commands in blocks, and code in the prose that begins like one."""
    for block in blocks(page):
        for line in block.text.splitlines():
            yield from (
                re.findall(r"(?:^|\s)(loom [a-z].*?)(?:\s+#.*)?$", line) if block.language in ("console", "sh") else ()
            )
    for span in re.findall(r"`([^`]+)`", prose(page)):
        if re.match(r"loom [a-z]|--[a-z]", span):
            yield span


def options_of(module: str) -> set[str]:
    """Return the options of the command that *module* has."""
    command = get_command(importlib.import_module(module).app)
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


def acts(page: str, shelf: Path) -> Iterator[Act]:
    """Yield what *page* has to be run, in order; its python blocks are put on *shelf* meanwhile."""
    behind = ""
    for block in blocks(page):
        if block.language == "console":
            for act in commands(block):
                started = _BEHIND.search(act.shell)
                behind = started[1] if started else behind
                shell = _SLEEP.sub(_UNTIL_A_STEP_IS_DONE.format(run=behind), act.shell)
                yield act._replace(shell=f"PATH=$ALONE {shell}" if started else shell)
        elif block.language == "python" and is_complete(block):
            yield _python(block, shelf)


def commands(block: Block) -> Iterator[Act]:
    """Yield the commands of a console block, each with the output that is promised below it."""
    lines = block.text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    for at, until in zip(starts, [*starts[1:], len(lines)], strict=True):
        text = lines[at][2:]
        status = _STATUS.search(text)
        prints = tuple(line for line in lines[at + 1 : until] if line.strip() not in ("", "..."))
        yield Act(block.line + at, _STATUS.sub("", text), int(status[1]) if status else 0, prints)


def is_complete(block: Block) -> bool:
    """Whether a python block can be run: it imports what it uses."""
    return re.search(r"^(import|from) ", block.text, re.MULTILINE) is not None


def _python(block: Block, shelf: Path) -> Act:
    put = shelf / f"block_{block.line}.py"
    put.write_text(block.text, encoding="utf-8")
    named = _FILE.match(block.text)
    place = named[1] if named else "block.py"
    shell = f"mkdir -p {Path(place).parent} && cp {shlex.quote(str(put))} {place} && PYTHONPATH=. python {place}"
    return Act(block.line, shell, 0, tuple(_PRINTS.findall(block.text)))


def faults(
    acts_: list[Act], folder: Path, shelf: Path, *, programs: Path | None = None, timeout_s: float = 100
) -> list[str]:
    """Run *acts_* in one shell in *folder*, and return what did not come out as promised.

    `loom` and `python` are those in *programs*, else processes that start on their own; so does, always, what goes on behind.
    """
    script = "".join(f"{each.shell}\nprintf '\\n{_MARK}%s\\n' $?\n" for each in acts_)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=_environment(shelf, programs),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    said, *told = done.stdout.split(f"\n{_MARK}")
    found: list[str] = []
    for each, after in zip(acts_, told, strict=False):
        status, _, following = after.partition("\n")
        found += _faults(each, said, int(status))
        said = following
    return found if len(told) == len(acts_) else [*found, f"the shell ended early:\n{done.stdout}"]


def _faults(act: Act, said: str, status: int) -> Iterator[str]:
    if status != act.status:
        yield f"line {act.line}: {act.shell}\nended with {status}, not {act.status}:\n{said}"
        return
    lines = [comparable(line) for line in said.splitlines()]
    for promised in act.prints:
        pattern = re.compile(".*".join(re.escape(part) for part in comparable(promised).split("...")))
        at = next((at for at, line in enumerate(lines) if pattern.fullmatch(line)), None)
        if at is None:
            yield f"line {act.line}: {act.shell}\nnever printed, or not in this order: {promised!r}\nit printed:\n{said}"
            return
        lines = lines[at + 1 :]


def comparable(line: str) -> str:
    """Return *line* without what differs from run to run."""
    for pattern, word in _DIFFERS:
        line = pattern.sub(word, line)
    return line.strip()


def _environment(shelf: Path, programs: Path | None) -> dict[str, str]:
    tools = shelf / "bin"
    tools.mkdir(exist_ok=True)
    for name, command in {"python": "", "loom": " -m loom_cli"}.items():
        program(tools, name, f'exec {shlex.quote(sys.executable)}{command} "$@"')
    alone = f"{tools}{os.pathsep}{os.environ['PATH']}"
    path = f"{programs}{os.pathsep}{alone}" if programs else alone
    return {**SURROUNDINGS, "PATH": path, "ALONE": alone, "HOME": str(shelf)}
