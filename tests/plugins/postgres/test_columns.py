"""What is written as arrays is read by the server as what it was, whatever characters are in it."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.plugins.postgres.writing import array_text
from tests.plugins.postgres.server import Server

texts = (
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.sampled_from(
        [
            "",
            "null",
            "NULL",
            "{}",
            '"',
            "\\",
            '\\"',
            "a,b",
            "a\nb",
            "\t\r\b\f\x1f\x7f",
            '[{"gate":"a b"}]',
            "\\u0041",
            "é😀",
            " x ",
        ]
    )
)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(texts), numbers=st.lists(numbers), truths=st.lists(st.none() | st.booleans()))
def test_a_column_comes_back_as_it_was(
    server: Server, texts: list[str | None], numbers: list[int | None], truths: list[bool | None]
) -> None:
    async def read() -> object:
        raw = await asyncpg.connect(await server.emptied())
        try:
            given = [array_text(column) for column in (texts, numbers, truths)]
            return tuple(
                await raw.fetchrow("SELECT $1::text::text[], $2::text::bigint[], $3::text::boolean[]", *given) or ()
            )
        finally:
            await raw.close()

    assert asyncio.run(read()) == (texts, numbers, truths)


@pytest.mark.parametrize(
    ("column", "text"), [((), "{}"), (("a", None), '{"a",null}'), ((1, True), "{1,true}"), (('"',), '{"\\""}')]
)
def test_a_column_is_written_like_json_in_braces(column: tuple[object, ...], text: str) -> None:
    assert array_text(column) == text
