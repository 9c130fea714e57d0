"""`loom content get`: a large result itself, by the address that `loom show` prints, to a file or to standard output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeAlias

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, StoreOption

if TYPE_CHECKING:
    from loom.spi.content_store import Citation, Content, ContentStore

Then: TypeAlias = "Callable[[ContentStore, Content], Awaitable[Any]]"

app = command_app()

_PRINTED_MAX: Final = 16 << 20
_HINT: Final = "Give a file to write it to: -o FILE."


@app.command()
def content_get(
    ctx: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="Its address; any beginning of it that is unique.")],
    *,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to this file, which is not there yet."),
    ] = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Print a large result, or write it to a file.

    It is one that a step has claimed. Without a file it is printed, if it is text. With --json, nothing of it is: only how large it is, and who cites it.

    Example: loom content get 3f2a9c -o page.html

    Example: loom content get 3f2a9c --json
    """
    cli = Cli.of(ctx)
    if output is not None and as_json:
        raise Usage("--json prints nothing of the content, and -o writes it", hint="Leave one of them.")
    if output is not None:
        file = cli.folder / output
        with _new(file) as opened:
            found = cli.run(_got(cli, ref, app=app_, store=store, then=partial(_written, opened)))
        cli.screen.note(f"{found} in {file}")
        return ExitCode.DONE
    found = cli.run(_got(cli, ref, app=app_, store=store, then=content_json if as_json else _text))
    if as_json:
        cli.screen.json(found)
    elif cli.screen.terminal:
        cli.screen.text(found)
    else:
        cli.screen.out.write(found)
    return ExitCode.DONE


async def _got(cli: Cli, text: str, *, app: str | None, store: str | None, then: Then) -> Any:
    """Return what *then* makes of the content that is meant."""
    from loom_cli.content_places import content_meant, content_places

    async with content_places(cli, app=app, store=store) as (_, contents):
        return await then(contents, await content_meant(contents, text))


async def content_json(contents: ContentStore, content: Content) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return about(content, await contents.citations([content.ref]))


def about(content: Content, citations: Iterable[Citation]) -> dict[str, Any]:
    """Return what is known of a content, and who cites it, the first first."""
    by_time = sorted(citations, key=lambda citation: (citation.at, citation.by.execution_id))
    cited_by = [{"execution": run_id, "incarnation": life, "at": at} for _, (run_id, life), at in by_time]
    return {"ref": content.ref, "size": content.size, "touched_at": content.touched_at, "cited_by": cited_by}


@contextmanager
def _new(file: Path) -> Iterator[BinaryIO]:
    """Give a file that was not there; it is gone again if what follows fails."""
    try:
        opened = file.open("xb")
    except FileExistsError:
        raise Usage(f"{file} is there already, and is not written over", hint="Name another file.") from None
    except OSError as error:
        raise Usage(f"{file} cannot be written: {error.strerror}") from None
    try:
        with opened:
            yield opened
    except BaseException:
        file.unlink(missing_ok=True)
        raise


async def _written(opened: BinaryIO, contents: ContentStore, content: Content) -> str:
    from loom_cli.sweeping import size_words

    async for piece in contents.stream(content.ref):
        opened.write(piece)
    return size_words(content.size)


async def _text(contents: ContentStore, content: Content) -> str:
    if content.size > _PRINTED_MAX:
        raise Usage(f"the content has {content.size:,} bytes, too many to be printed", hint=_HINT)
    data = (await contents.get_many([content.ref])).get(content.ref, b"")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Usage("the content is no text", hint=_HINT) from None
