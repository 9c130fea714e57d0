"""The page in a real browser: opened, slid, searched, answered on, and followed as a run goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

import loom
from loom.core.ids import ExecutionId
from loom.driving.reading import read_log
from loom.plugins.sqlite import SqliteStorage
from tests.loom_cli.projects import loom as loom_command
from tests.loom_cli.story import HOSTILE
from tests.loom_cli.story import store_at as story_at
from tests.loom_cli.web.browser import browsing, chromium
from tests.loom_cli.web.desk import app_on, look_up, pay, refund, store_at
from tests.loom_cli.web.served import served

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no chromium on this machine")

RUN = "refund-A-1042"
expect.set_options(timeout=20_000)


def apart(work: Callable[[], Any]) -> Any:
    """Return what *work* returns, done in a thread: the one of the browser has an event loop that runs."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


class Open(NamedTuple):
    """A page that is open at *link*, over the store at *store*."""

    page: Page
    link: str
    store: Path

    def go(self, place: str) -> None:
        self.page.goto(f"{self.link}#{place}")
        self.page.locator(".event-row.current").wait_for()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as each:
        yield each


@pytest.fixture
def desk(tmp_path: Path, browser: Browser) -> Iterator[Open]:
    store = tmp_path / "desk.db"
    now_ms: int = apart(lambda: store_at(store))
    with served(store, now_ms=now_ms, answers=True) as link, watched(browser) as page:
        yield Open(page, link, store)


class watched:  # noqa: N801  # a context manager
    """A page of the browser that may not ask anybody else, nor say anything in its console."""

    def __init__(self, browser: Browser) -> None:
        self._context = browser.new_context(viewport={"width": 1360, "height": 900}, timezone_id="UTC")
        self.said: list[str] = []
        self.asked: list[str] = []

    def __enter__(self) -> Page:
        page = self._context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        return page

    def __exit__(self, *failed: object) -> None:
        self._context.close()
        if failed[0] is None:
            refused = "Failed to load resource: the server responded with a status of 4"
            assert [line for line in self.said if not line.startswith(refused)] == []
            assert [url for url in self.asked if not url.startswith(("http://127.0.0.1:", "file:", "data:"))] == []


@pytest.mark.proves("CLI-11")
def test_it_opens_by_its_link_and_takes_the_token_out_of_the_address(desk: Open) -> None:
    desk.page.goto(desk.link)

    expect(desk.page.locator(".run-row")).to_have_count(7)
    assert "token" not in desk.page.url
    desk.page.reload()
    expect(desk.page.locator(".run-row")).to_have_count(7)  # by its cookie


@pytest.mark.proves("CLI-11")
def test_the_slider_goes_to_any_event_and_what_is_later_turns_pale(desk: Open) -> None:
    desk.go("/run/refund-A-1038")
    slider = desk.page.locator("#slider")

    slider.fill("7")
    expect(desk.page.locator(".place b")).to_have_text("event 7")
    expect(desk.page.locator(".event-row.current .n")).to_have_text("7")
    expect(desk.page.locator(".gantt-row.is-ahead .call-name")).to_have_count(4)
    assert desk.page.url.endswith("#/run/refund-A-1038/7")

    slider.press("ArrowRight")
    expect(desk.page.locator(".place b")).to_have_text("event 8")
    desk.page.locator("body").press("End")
    expect(desk.page.locator(".place b")).to_have_text("event 18")
    expect(desk.page.locator(".gantt-row.is-ahead")).to_have_count(0)


@pytest.mark.proves("CLI-11", "GOV-05")
def test_each_tab_tells_of_the_event_that_is_looked_at(desk: Open) -> None:
    desk.go("/run/refund-A-1038/2")
    detail = desk.page.locator(".detail-body")

    expect(detail).to_contain_text("What event 2 changed in the state")
    detail.locator(".since input").fill("0")
    detail.locator(".since input").press("Enter")
    expect(detail.locator(".changes .path", has_text="settled")).to_have_count(1)
    desk.page.click("#tab-event")
    expect(detail).to_contain_text("STEP_COMPLETED")
    desk.page.click("#tab-state")
    shown = apart(
        lambda: loom_command(
            "show", "refund-A-1038", "--at", "2", "--store", str(desk.store), "--json", folder=desk.store.parent
        )
    )
    expect(detail.locator("code.digest")).to_have_text(shown.json["digest"])
    desk.page.click("#tab-call")
    expect(detail.locator(".lead")).to_contain_text("assess_risk")
    desk.page.click("#tab-branches")
    expect(detail.locator(".branch-tree li")).to_have_count(2)
    expect(detail.locator(".branch-tree")).to_contain_text("refund-A-1038-again")


def test_runs_and_events_are_searched(desk: Open) -> None:
    desk.go(f"/run/{RUN}")

    desk.page.locator("body").press("/")
    desk.page.keyboard.type("status=failed")
    expect(desk.page.locator(".run-row .run-id")).to_have_text(["refund-A-1039"])
    desk.page.fill("#search-runs", "status=odd")
    expect(desk.page.locator(".runs-head .problem")).to_contain_text("odd")
    desk.page.fill("#search-runs", "")
    desk.page.click(".chip:has-text('waiting')")
    expect(desk.page.locator(".run-row")).to_have_count(2)

    desk.page.fill("#search-events", "call:look_up type:STEP_COMPLETED")
    expect(desk.page.locator(".found")).to_have_text("3 events; Enter goes on")
    desk.page.press("#search-events", "Enter")
    expect(desk.page.locator(".event-row.current .type")).to_have_text("STEP_COMPLETED")
    desk.page.locator(".steps .wide").click()
    expect(desk.page.locator(".found")).to_have_text("no failure after this")


@pytest.mark.proves("CLI-11")
def test_a_gate_is_answered_and_the_run_followed_to_its_end(desk: Open) -> None:
    desk.go(f"/run/{RUN}")
    gate = desk.page.locator(".gate")

    gate.locator("button.primary").click()
    expect(gate.locator(".field.wrong")).to_have_count(2)
    expect(gate.locator("[data-path=approved] .problem")).to_have_text("give yes or no")
    gate.locator("label:has-text('yes')").click()
    gate.locator("[data-path=amount] input").fill("1200")
    gate.locator("button.primary").click()
    expect(gate.locator("[data-path=amount] .problem")).to_contain_text("1000")
    expect(gate.locator("[data-path=approved] .problem")).to_be_empty()
    gate.locator("[data-path=amount] input").fill("99.5")
    gate.locator("button.primary").click()

    expect(desk.page.locator(".title .pill")).to_have_text("completed")
    expect(desk.page.locator(".gate")).to_have_count(0)
    expect(desk.page.locator(".event-row.current .type")).to_have_text("EXECUTION_COMPLETED")
    expect(desk.page.locator(".run-row.current .word")).to_have_text("completed")
    [answered] = [event for event in apart(lambda: events(desk.store, RUN)) if event.type == "GATE_ANSWERED"]
    assert (answered.payload.answer["amount"], answered.metadata["principal"]) == (99.5, "cleo")


@pytest.mark.proves("CLI-11")
def test_what_another_process_does_is_seen_as_it_happens(desk: Open) -> None:
    desk.go("/run/refund-A-1041")
    expect(desk.page.locator(".live")).to_have_text("live")

    apart(lambda: answered_elsewhere(desk.store, "refund-A-1041"))

    expect(desk.page.locator(".title .pill")).to_have_text("completed")
    expect(desk.page.locator(".event-row.current .type")).to_have_text("EXECUTION_COMPLETED")
    expect(desk.page.locator(".run-row.current .word")).to_have_text("completed")


def test_who_looks_back_stays_there_while_the_run_goes_on(desk: Open) -> None:
    desk.go("/run/refund-A-1041/3")
    expect(desk.page.locator(".live")).to_have_text("live")

    apart(lambda: answered_elsewhere(desk.store, "refund-A-1041"))

    expect(desk.page.locator(".title .pill")).to_have_text("completed")
    expect(desk.page.locator(".place b")).to_have_text("event 3")


async def simulate(store: Path) -> None:
    """Drive the desk's fork with simulators in the place of its effects."""
    simulators = {look_up: lambda source: {"source": source, "found": 0}, pay: lambda claim: "R-made-up"}
    app = loom.define_config(flows=[refund], storage=SqliteStorage(store), simulators=simulators)
    async with app:
        await app.runtime.resume("refund-A-1038-again", simulate=True)


@pytest.mark.proves("BRN-03")
def test_a_run_whose_effects_are_simulated_says_so_and_from_which_event_on(desk: Open) -> None:
    apart(lambda: asyncio.run(simulate(desk.store)))

    desk.go("/run/refund-A-1038-again")

    expect(desk.page.locator(".title .tag.simulated")).to_have_text("simulated")
    expect(desk.page.locator(".event-row .tag").first).to_have_text("simulated")
    expect(desk.page.locator(".fact:has-text('fork of')")).to_contain_text("refund-A-1038 after event 6")
    desk.go("/run/refund-A-1038")
    expect(desk.page.locator(".tag.simulated")).to_have_count(0)


@pytest.fixture
def story(tmp_path: Path, browser: Browser) -> Iterator[Open]:
    store = tmp_path / ".loom" / "loom.db"
    apart(lambda: story_at(store))
    apart(lambda: asyncio.run(evil(store)))
    with served(store) as link, watched(browser) as page:
        yield Open(page, link, store)


EVIL = "<img src=x onerror=window.hit=1><script>window.hit=1</script></script><b>bold</b>{{7*7}}"


async def evil(store: Path) -> None:
    """Add a run of which everything that can be text is a page of its own, and one with a large value."""

    @loom.step(id="evil")
    async def tell(text: str) -> dict[str, str]:
        return {EVIL: text}

    @loom.step
    async def large() -> str:
        return "x" * 5_000_000

    @loom.flow
    async def show(ctx: loom.Context, text: str) -> Any:
        await ctx.run(large)
        await ctx.emit("shown", {EVIL: EVIL})
        told = await ctx.run(tell, text)
        return await ctx.suspend(EVIL.replace("/", ""), show={"text": text, EVIL: told})

    app = loom.define_config(flows=[show], storage=SqliteStorage(store))
    async with app:
        await app.runtime.start(
            show, EVIL + HOSTILE, id="evil-<b>1</b>", attributes={"a<i>": "<u>"}, principal="<script>"
        )


@pytest.mark.proves("CLI-11")
def test_hostile_content_is_shown_harmlessly(story: Open) -> None:
    story.go("/run/evil-%3Cb%3E1%3C%2Fb%3E")
    for tab in ("changes", "event", "state", "call", "branches"):
        story.page.click(f"#tab-{tab}")
        story.page.locator(f"#tab-{tab}[aria-selected=true]").wait_for()
    expect(story.page.locator(".gate .shown")).to_contain_text(EVIL)
    expect(story.page.locator(".gate .shown .escape").first).to_have_text("\\x1b")
    shown = story.page.locator("body").inner_text()
    for character in ("\x1b", "\x07", "\x9b", "\u202e", "\x00"):
        assert character not in shown
    assert "[red]" in shown
    assert f"\\u202e{HOSTILE.partition(chr(0x202E))[2][:10]}" in shown
    assert story.page.evaluate("window.hit") is None
    assert story.page.locator("img, b:text-is('bold'), script:not([src])").count() == 0
    assert "evil-<b>1</b>" in story.page.locator(".title h2").inner_text()


def test_a_large_value_is_cut_and_shown_whole_when_that_is_asked_for(story: Open) -> None:
    story.go("/run/evil-%3Cb%3E1%3C%2Fb%3E/2")
    story.page.click("#tab-event")
    text = story.page.locator(".detail-body .value.long")

    length = "element => element.textContent.length"
    assert text.evaluate(length) == 2_000
    story.page.click(".detail-body button.more")
    expect(story.page.locator(".detail-body button.more")).to_have_count(0)
    assert text.evaluate(length) == 5_000_000


def test_without_leave_a_gate_says_how_it_is_answered_elsewhere(story: Open) -> None:
    story.go("/run/refund-42")

    expect(story.page.locator(".mode")).to_have_text("read-only")
    expect(story.page.locator(".gate .hint code")).to_have_text("loom resume refund-42")
    assert story.page.locator(".gate form").count() == 0
    story.go("/run/payout-1")
    expect(story.page.locator(".gate.doubt .hint")).to_contain_text("loom resolve payout-1")


@pytest.mark.proves("CLI-11")
def test_one_file_is_read_slid_and_searched_without_a_server(tmp_path: Path, browser: Browser) -> None:
    store = tmp_path / ".loom" / "loom.db"
    apart(lambda: story_at(store))
    apart(lambda: asyncio.run(evil(store)))
    assert (
        apart(lambda: loom_command("inspect", "refund-41", "--html", "run.html", "--at", "3", folder=tmp_path)).status
        == 0
    )
    assert apart(lambda: loom_command("inspect", "evil-", "--html", "evil.html", folder=tmp_path)).status == 0
    digest = apart(lambda: loom_command("show", "refund-41", "--at", "5", "--json", folder=tmp_path)).json["digest"]

    with watched(browser) as page:
        page.goto((tmp_path / "run.html").as_uri())
        page.locator(".event-row.current").wait_for()
        expect(page.locator(".place b")).to_have_text("event 3")
        page.locator("#slider").fill("5")
        expect(page.locator(".place b")).to_have_text("event 5")
        page.click("#tab-state")
        expect(page.locator("code.digest")).to_have_text(digest)
        expect(page.locator(".detail-body .tree")).to_contain_text("SCOPE_OPENED")
        page.click("#tab-call")
        expect(page.locator(".detail-body .lead")).to_contain_text("map/0/fetch")
        page.fill("#search-events", "is:failure")
        expect(page.locator(".found")).to_contain_text("1 event;")
        page.goto((tmp_path / "evil.html").as_uri())
        expect(page.locator(".gate .shown")).to_contain_text(EVIL)
        assert page.evaluate("window.hit") is None


def test_it_fits_a_phone_and_is_used_by_keys_alone(desk: Open) -> None:
    desk.page.set_viewport_size({"width": 390, "height": 844})
    desk.page.goto(desk.link)
    expect(desk.page.locator("main")).to_be_hidden()

    desk.page.locator(".run-row").nth(2).press("Enter")
    expect(desk.page.locator(".title h2")).to_have_text(RUN)
    desk.page.locator(".event-row.current").wait_for()

    assert desk.page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(desk.page.locator(".runs")).to_be_hidden()
    desk.page.click(".back")
    expect(desk.page.locator(".runs")).to_be_visible()


def test_a_run_that_is_not_there_is_said_to_be_not_there(desk: Open) -> None:
    desk.page.goto(f"{desk.link}#/run/nobody")

    expect(desk.page.locator(".nothing")).to_contain_text("nobody")


def events(store: Path, run: str) -> Any:
    async def read() -> Any:
        storage = SqliteStorage(store, readonly=True)
        try:
            return await read_log(storage, ExecutionId(run))
        finally:
            await storage.close()

    return asyncio.run(read())


def answered_elsewhere(store: Path, run: str) -> None:
    """Answer a run as another process would: with a store and an app of its own."""

    async def answer() -> None:
        async with app_on(SqliteStorage(store)) as app:
            await app.runtime.resume(run, answer={"approved": True, "amount": 5}, principal="dora")

    asyncio.run(answer())
