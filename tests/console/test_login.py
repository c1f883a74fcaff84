"""Who gets in, and what is there for whom: login, scopes, logout, and a token that goes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Request, expect

from console import READER, TOKEN, ConsoleService, Pages, with_tokens

ONE = "#/subscriptions/hook"
CHANGING = re.compile(
    r"(pause|resume|test event|replay|redrive|discard|delete|resend|send again|change|new sub|create|reload|save$)",
    re.IGNORECASE,
)
"""How names of buttons that change something begin. A name in the audit, `Only reload_configuration`, filters."""


def with_a_subscription(settings) -> None:
    with_tokens(settings)
    source = {"broker": "log", "topics": ["events"]}
    settings["subscriptions"] = [
        {
            "id": "hook",
            "source": source,
            "sink": "http://127.0.0.1:9/",
            "handshake": "off",
            "paused": True,
        }
    ]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleService]:
    """A service that asks for a token."""
    with ConsoleService(tmp_path_factory.mktemp("guarded"), with_a_subscription).running() as found:
        yield found


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Admin token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def navigation(page: Page):
    return page.get_by_role("navigation", name="Pages")


def test_without_a_token_nobody_gets_in(guarded: ConsoleService, pages: Pages) -> None:
    """A wrong one is refused in words; the right one opens, and the browser keeps no token."""
    page = pages.open(guarded)
    expect(page.get_by_label("Admin token")).to_be_visible()
    expect(navigation(page)).to_have_count(0)
    sign_in(page, "nobody-has-this-token")
    expect(page.get_by_role("alert")).to_contain_text("token")
    expect(navigation(page)).to_have_count(0)
    sign_in(page, TOKEN)
    expect(navigation(page)).to_be_visible()
    page.reload()
    expect(navigation(page)).to_be_visible()
    kept = page.evaluate(
        "[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), location.href].join()"
    )
    assert TOKEN not in kept
    assert "skybridge-session" not in kept
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Admin token")).to_be_visible()


def test_a_session_whose_token_goes_is_shown_the_door(
    guarded: ConsoleService, pages: Pages
) -> None:
    """While its page is open, without a click."""
    page = pages.open(guarded, token=READER)
    expect(navigation(page)).to_be_visible()
    tokens = guarded.settings["server"]["admin"].pop("tokens")
    guarded.write()
    assert guarded.ask("POST", "/v1/config:reload", token=TOKEN)[0] == 200
    try:
        expect(page.get_by_label("Admin token")).to_be_visible()
    finally:
        guarded.settings["server"]["admin"]["tokens"] = tokens
        guarded.write()
        assert guarded.ask("POST", "/v1/config:reload", token=TOKEN)[0] == 200


def changing(page: Page) -> list[str]:
    """Buttons and links of what is shown that change something, by their names. All at one time: a page that is
    live draws itself anew between two looks."""
    return [name for name in page.evaluate(_BUTTONS) if CHANGING.match(name)]


_BUTTONS = """() => [...document.querySelectorAll("main button, main a.button")]
    .map((each) => (each.getAttribute("aria-label") ?? each.innerText).trim())"""


def walk(page: Page) -> Iterator[Page]:
    """Every page of the navigation, and last one subscription, once its status has come."""
    links = navigation(page).get_by_role("link")
    expect(links.first).to_be_visible()
    fragments = [each.get_attribute("href") for each in links.all()]
    for fragment in [*fragments, ONE]:
        page.evaluate("fragment => { location.hash = fragment }", fragment)
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("main .loading")).to_have_count(0)
        if fragment == ONE:
            expect(page.locator("main h1")).to_contain_text("hook")
            expect(page.locator("main")).to_contain_text("paused")
        yield page


@pytest.mark.nightly
def test_a_token_that_may_only_read_sees_no_button(guarded: ConsoleService, pages: Pages) -> None:
    """What it may not do is not there; and nothing on its way changes anything."""
    page = pages.open(guarded, token=READER)
    sent: list[str] = []

    def note(request: Request) -> None:
        if request.method not in {"GET", "HEAD"}:
            sent.append(f"{request.method} {request.url}")

    page.on("request", note)
    for shown in walk(page):
        assert changing(shown) == [], shown.url
    assert [each for each in sent if "/v1/explain" not in each] == []
    every = pages.open(guarded, token=TOKEN)
    seen = {name for shown in walk(every) for name in changing(shown)}
    assert {"Resume", "Test event", "Replay"} <= seen
