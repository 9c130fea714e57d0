"""Answer links: who has one may answer one gate, and nobody can make one, or another of it, without the secret."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core.ids import ExecutionId, Incarnation
from loom.services.answer_links import AnswerLink, LinkRefused, SecretTooShort, opened, require_same, signed

SECRET = "s" * 32
LINK = AnswerLink(ExecutionId("refund-42"), Incarnation(3), "approval#1", 7, "digest", "ada", 1_000)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
links = st.builds(
    AnswerLink,
    texts,
    st.integers(1, 2**53),
    texts,
    st.integers(0, 10**6),
    st.none() | texts,
    texts,
    st.integers(1, 2**53),
)


@given(links)
def test_a_link_says_what_it_was_made_to_say_until_it_expires(link: Any) -> None:
    token = signed(link, SECRET)

    assert opened(token, SECRET, now_ms=link.expires_at - 1) == link
    with pytest.raises(LinkRefused, match="expired"):
        opened(token, SECRET, now_ms=link.expires_at)


def test_a_token_can_stand_in_an_address_as_it_is() -> None:
    token = signed(LINK._replace(execution_id=ExecutionId("ÿ?/&=+#")), SECRET)

    assert set(token) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert token.count(".") == 1


@given(st.data())
def test_what_was_changed_anywhere_is_refused(data: st.DataObject) -> None:
    token = signed(LINK, SECRET)
    body = token.index(".")
    at = data.draw(st.integers(0, len(token) - 2).filter(lambda at: at not in {body, body - 1}))
    other = data.draw(st.sampled_from("abcXYZ019-_").filter(lambda sign: sign != token[at]))

    with pytest.raises(LinkRefused, match="changed on its way"):
        opened(token[:at] + other + token[at + 1 :], SECRET, now_ms=0)


@given(st.text(max_size=200))
def test_what_is_no_token_is_refused_in_the_same_words(text: str) -> None:
    with pytest.raises(LinkRefused, match="changed on its way"):
        opened(text, SECRET, now_ms=0)


def test_another_secret_opens_nothing() -> None:
    with pytest.raises(LinkRefused):
        opened(signed(LINK, SECRET), "t" * 32, now_ms=0)


def test_a_secret_that_can_be_guessed_signs_nothing() -> None:
    with pytest.raises(SecretTooShort, match="31 characters"):
        signed(LINK, "s" * 31)


def test_a_link_is_about_one_life_of_its_run() -> None:
    require_same(LINK, incarnation=Incarnation(3))

    with pytest.raises(LinkRefused, match="gone"):
        require_same(LINK, incarnation=Incarnation(4))
