"""Who may ask the page for what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_cli.web.access import CSRF_HEADER, LOOPBACK, Access, Asked

TOKEN = "0123456789abcdef-and-more"
ACCESS = Access(token=TOKEN, hosts=LOOPBACK, secret=b"of this process")
HOST = {"host": "127.0.0.1:8000"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


def asked(path: str = "/api/runs", *, method: str = "GET", query: str = "", **headers: str) -> Asked:
    return Asked(method, path, query, HOST | {name.replace("_", "-"): value for name, value in headers.items()})


def code(request: Asked, access: Access = ACCESS) -> str | None:
    refusal = access.refusal(request)
    return refusal.code if refusal is not None else None


def visited() -> dict[str, str]:
    """Return the headers of a browser that came by the link."""
    cookie = ACCESS.cookie(asked("/", query=f"token={TOKEN}"), "/")
    assert cookie is not None
    return {"cookie": cookie.partition(";")[0]}


def test_a_browser_that_came_by_the_link_may_read() -> None:
    assert code(asked("/", query=f"token={TOKEN}")) is None
    assert code(asked(**visited())) is None


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_is_not_the_token() -> None:
    cookie = ACCESS.cookie(asked("/", query=f"token={TOKEN}"), "/runs")

    assert cookie is not None
    assert cookie.endswith("; Path=/runs; HttpOnly; SameSite=Strict")
    assert TOKEN not in cookie


def test_two_pages_on_one_address_have_cookies_of_their_own() -> None:
    other = Access(token="another-token-than-that", hosts=LOOPBACK, secret=b"x")
    first, second = (
        ACCESS.cookie(asked("/", query=f"token={TOKEN}"), "/"),
        other.cookie(asked("/", query="token=another-token-than-that"), "/"),
    )

    assert first is not None
    assert second is not None
    assert first.partition("=")[0] != second.partition("=")[0]


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"cookie": "loom_inspect_1=2"}, {"cookie": ";;="}]
)
def test_nobody_else_may_read(headers: dict[str, str]) -> None:
    assert code(asked(**headers)) == "no-token"


def test_the_token_counts_in_the_link_of_the_page_alone() -> None:
    assert code(asked("/api/runs", query=f"token={TOKEN}")) == "no-token"
    assert ACCESS.cookie(asked("/", query="token=wrong"), "/") is None


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8000", "", "[", "127.0.0.2"]
)
def test_a_name_that_was_rebound_to_loopback_is_refused(host: str) -> None:
    assert code(Asked("GET", "/api/runs", "", BEARER | {"host": host})) == "wrong-host"


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:9", "[::1]:8000", "localhost.:8000"])
def test_loopback_has_several_names(host: str) -> None:
    assert code(Asked("GET", "/api/runs", "", BEARER | {"host": host})) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_server_cannot_ask_even_with_the_cookie(site: str) -> None:
    assert code(asked(sec_fetch_site=site, **visited())) == "other-page"
    assert code(asked("/", query=f"token={TOKEN}", sec_fetch_site=site)) is None  # a link that somebody follows


def change(**headers: str) -> Asked:
    return asked("/api/run/answer", method="POST", **headers)


def test_the_page_itself_may_change_something() -> None:
    headers = visited() | {"origin": "http://127.0.0.1:8000", CSRF_HEADER: ACCESS.csrf}

    assert code(change(**headers)) is None


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:9000", "http://localhost:8000", "null", "", "[", "127.0.0.1:8000"],
)
def test_a_change_that_comes_from_elsewhere_is_refused(origin: str) -> None:
    assert code(change(**visited() | {"origin": origin, CSRF_HEADER: ACCESS.csrf})) == "wrong-origin"
    assert code(change(**BEARER | {"origin": origin or "null", CSRF_HEADER: ACCESS.csrf})) == "wrong-origin"


def test_a_change_without_an_origin_or_the_csrf_token_is_refused() -> None:
    assert code(change(**visited() | {CSRF_HEADER: ACCESS.csrf})) == "wrong-origin"
    assert code(change(**visited() | {"origin": "http://127.0.0.1:8000"})) == "stale-page"
    assert (
        code(change(**visited() | {"origin": "http://127.0.0.1:8000", CSRF_HEADER: "of an earlier process"}))
        == "stale-page"
    )


def test_a_script_changes_something_with_the_token_alone() -> None:
    assert code(change(**BEARER)) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
def test_every_method_but_reading_ones_counts_as_a_change(method: str) -> None:
    assert code(asked("/", method=method, query=f"token={TOKEN}", **visited())) == "wrong-origin"


def test_without_a_token_a_page_is_as_open_as_what_it_is_mounted_in_but_answers_stay_its_own() -> None:
    access = Access(token=None, hosts=None, secret=b"x")
    ours = {"host": "admin.example", "origin": "https://admin.example"}

    assert code(Asked("GET", "/api/runs", "", {"host": "admin.example"}), access) is None
    assert code(Asked("POST", "/", "", ours), access) == "stale-page"
    assert code(Asked("POST", "/", "", ours | {CSRF_HEADER: access.csrf}), access) is None
    assert (
        code(Asked("POST", "/", "", ours | {"origin": "https://evil.example", CSRF_HEADER: access.csrf}), access)
        is not None
    )


@given(
    st.dictionaries(st.sampled_from(["host", "cookie", "authorization", "origin", "sec-fetch-site"]), st.text()),
    st.text(),
)
def test_whatever_is_sent_is_refused_in_words_and_never_let_in(headers: dict[str, str], query: str) -> None:
    assert ACCESS.refusal(Asked("GET", "/", query, headers)) is not None
