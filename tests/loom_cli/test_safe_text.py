"""Text is harmless once it went through safe_text, and stays readable."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from loom_cli.safe_text import safe, safe_json, safe_lines

OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
ANY = st.text(st.characters(categories=None))


@given(ANY)
def test_no_character_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not OBEYED.search(safe(text))
    assert not OBEYED.search(safe_lines(text).replace("\n", "").replace("\t", ""))


@given(ANY)
def test_safe_text_is_encodable_and_safe_again(text: str) -> None:
    once = safe(text)

    once.encode("utf-8")
    assert safe(once) == once


def test_escapes_say_which_character_it_was() -> None:
    assert safe("\x1b]52;c;aGk=\x07") == "\\x1b]52;c;aGk=\\x07"
    assert safe("a\u202eb\ud800c\U000e0041") == "a\\u202eb\\ud800c\\U000e0041"
    assert safe("one\ntwo\r\n\t") == "one\\ntwo\\r\\n\\t"


def test_what_people_write_stays_as_it_is() -> None:
    text = "[red] \u0416\u0443\u043a \u4f60\u597d \U0001f469\u200d\U0001f680 na\u00efve"

    assert safe(text) == text


def test_lines_keep_their_breaks_and_lose_carriage_returns() -> None:
    assert safe_lines("one\r\ntwo\n\tthree\rfour") == "one\ntwo\n\tthree\\rfour"


@given(st.recursive(ANY | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
def test_safe_json_is_the_same_value(value: object) -> None:
    for indent in (None, 2):
        text = safe_json(json.dumps(value, ensure_ascii=False, indent=indent))

        assert json.loads(text) == value
        assert not OBEYED.search(text.replace("\n", ""))
