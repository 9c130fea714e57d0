"""The screen aligns, colours and shortens, each only where it may."""

from __future__ import annotations

import io
import json

import pytest

from loom_cli.screen import Column, Screen, Styled

LONG = "x" * 120


class Legacy(io.StringIO):
    """A stream of an old code page."""

    encoding = "cp1252"


def screen(*, width: int = 40, terminal: bool = False, colour: bool = False, unicode: bool = True) -> Screen:
    return Screen(io.StringIO(), io.StringIO(), width=width, terminal=terminal, colour=colour, unicode=unicode)


def printed(on: Screen) -> str:
    text: str = on.out.getvalue()  # type: ignore[attr-defined]  # the stream behind it is a StringIO
    return text


COLUMNS = (Column("ID"), Column("NOTE", shrink=True), Column("AGE", right=True))


def test_a_table_is_aligned_under_its_names() -> None:
    on = screen()

    on.table(COLUMNS, [("a-1", "hello", "3m"), ("b-22", "\u4f60\u597d", "12s")])

    assert printed(on) == "ID    NOTE   AGE\na-1   hello   3m\nb-22  \u4f60\u597d   12s\n"


def test_off_a_terminal_nothing_is_shortened_or_coloured() -> None:
    on = screen()

    on.table(COLUMNS, [(LONG, Styled(LONG, "red"), "3m")])

    assert printed(on).count("x") == 240
    assert "\x1b" not in printed(on)


def test_on_a_terminal_only_what_may_shrink_is_cut_to_the_width() -> None:
    on = screen(terminal=True)

    on.table(COLUMNS, [("an-id-that-is-rather-long", LONG, "3m")])

    assert printed(on).splitlines()[1] == "an-id-that-is-rather-long  xxxxxxx\u2026   3m"
    on.table(COLUMNS, [("i" * 60, LONG, "3m")])
    assert "i" * 60 in printed(on)


def test_styles_are_drawn_only_where_there_is_colour() -> None:
    on = screen(colour=True)

    on.line(Styled("bad", "bold red"), " rest")

    assert printed(on) == "\x1b[1;31mbad\x1b[0m rest\n"


def test_a_cell_of_several_pieces_is_cut_as_one() -> None:
    on = screen(width=10, terminal=True)

    on.table((Column("", shrink=True),), [((Styled("abc"), Styled("defghijklmnop", "red"), Styled("never")),)])

    assert printed(on) == "abcdefghi\u2026\n"


def test_text_that_looks_like_markup_is_printed_as_it_stands() -> None:
    on = screen(terminal=True, colour=True)

    on.line("[red]not red[/red]")

    assert printed(on) == "[red]not red[/red]\n"


def test_brief_json_is_cut_on_a_terminal_only() -> None:
    assert screen(terminal=True).brief({"a": LONG}, 12) == '{"a": "xxxx\u2026'
    assert len(screen().brief({"a": LONG}, 12)) > 120


def test_signs_are_ascii_where_the_encoding_has_no_others() -> None:
    assert screen().sign("done") == "\u2713"
    assert screen(unicode=False).sign("done") == "+"


def test_json_for_an_old_code_page_is_ascii() -> None:
    out = Legacy()

    Screen(out, io.StringIO()).json({"a": "\u0416"})

    assert out.getvalue().isascii()
    assert json.loads(out.getvalue()) == {"a": "\u0416"}


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_process_may_ask_for_no_colour(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream in ("sys.stdout", "sys.stderr", "sys.stdin"):
        monkeypatch.setattr(stream, Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen.of_process().colour
    monkeypatch.setenv(name, value)

    on = Screen.of_process()

    assert (on.terminal, on.interactive, on.colour, on.colour_err) == (True, True, False, False)
