"""A token that may only read is offered nothing that it may not do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from console import READER, TOKEN, ConsoleService, Pages, with_tokens
from console_stage import PAGES, Stage, on_stage
from waiting import wait_until

CHANGES = re.compile(
    r"(show and |look, )?(redrive|discard)|resume|pause$|replay|delete|new subscription|create|change$"
    r"|send again|test event|reload the file|candidate|copy as curl|try now|cancel the replay",
    re.IGNORECASE,
)
WITHIN = 60.0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A shop with dead letters and a paused subscription."""
    with on_stage(tmp_path_factory.mktemp("stage"), with_tokens) as found:
        paused = found.service.ask("POST", "/v1/subscriptions/mail:pause", token=TOKEN)
        assert paused[0] == 200, paused
        wait_until(lambda: _dead(found.service) > 0, "a dead letter", WITHIN)
        yield found


def _dead(service: ConsoleService) -> int:
    total: int = service.ask("GET", "/v1/dead-letters/count", token=TOKEN)[1]["total"]
    return total


def test_no_page_offers_a_change_to_a_reader(stage: Stage, pages: Pages) -> None:
    offered = {}
    page = pages.open(stage.service, token=READER)
    more = {
        "letters-of-one": "#/subscriptions/billing/dead-letters",
        "mail": "#/subscriptions/mail",
    }
    shown = {
        name: PAGES[name] for name in PAGES if name != "events-live"
    }  # its pause changes nothing
    for name, fragment in {**shown, **more}.items():
        page.evaluate("address => { location.hash = address }", fragment)
        expect(page.locator("main")).not_to_be_empty()
        expect(page.locator(".loading")).to_have_count(0)
        controls = page.locator("main").locator("button, a")
        texts = [text.strip() for text in controls.all_text_contents()]
        if found := [text for text in texts if CHANGES.match(text)]:
            offered[name] = found
    assert offered == {}


def test_a_master_is_offered_them(stage: Stage, pages: Pages) -> None:
    """Or the test above could not fail."""
    page = pages.open(stage.service, "#/letters", token=TOKEN)
    expect(page.get_by_role("button", name=re.compile("^Redrive all"))).to_be_visible()


@pytest.mark.nightly
def test_a_reader_sees_the_status_of_the_answer_and_no_command_that_it_may_not_run(
    stage: Stage, pages: Pages
) -> None:
    page = pages.open(stage.service, token=READER)
    fails = page.locator(".needs[data-verdict=endpoint-fails]")
    expect(fails).to_contain_text("failed: 503 (not shown: the token lacks the scope data)")
    page.goto(stage.service.url("#/letters/parked"))
    parked = page.get_by_role("table", name="Parked keys")
    expect(parked.get_by_role("columnheader", name="Next attempt")).to_be_visible()
    expect(parked.get_by_role("columnheader", name="Now")).to_have_count(0)
    page.goto(stage.service.url("#/subscriptions/reports"))
    expect(page.get_by_role("heading", name=re.compile("to be pulled$"))).to_be_visible()
    expect(page.get_by_text("skybridge pull")).to_have_count(0)
    page.goto(stage.service.url("#/subscriptions?make=1"))
    expect(page.get_by_role("heading", level=1)).to_have_text("New subscription")
    expect(page.get_by_text("Sign in with a token that has it")).to_be_visible()
