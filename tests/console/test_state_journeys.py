"""Pages say the same of one state: in one word, once, and with the actions that it allows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from console import ConsoleService, Pages
from console_stage import Stage, on_stage
from waiting import wait_until

NOWHERE = "#/events?broker=log&topic=nowhere"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A shop whose ledger fails with parked keys, and whose search index is paused."""
    with on_stage(tmp_path_factory.mktemp("stage")) as found:
        found.pause_one()
        wait_until(lambda: {"endpoint-fails", "parked-keys"} <= verdicts(found), "an outage")
        yield found


def verdicts(stage: Stage) -> set[str]:
    health = stage.service.ask("GET", "/v1/subscriptions/ledger/status")[1]["health"]
    return {each["verdict"] for each in health["attention"]}


def item(page: Page, subscription: str) -> Locator:
    items = page.get_by_role("main").get_by_role("listitem")
    return items.filter(has=page.get_by_role("link", name=subscription, exact=True)).last


@pytest.mark.parametrize(
    ("fragment", "title"),
    [
        ("", "Subscription ledger"),
        pytest.param("#/subscriptions/ledger", "Target fails", marks=pytest.mark.nightly),
    ],
)
def test_an_outage_is_told_once(stage: Stage, pages: Pages, fragment: str, title: str) -> None:
    """Its parked keys had an item of their own, with the same button."""
    page = pages.open(stage.service, fragment)
    told = page.locator(".needs", has_text="ledger is closed")
    expect(told).to_have_count(1)
    expect(told).to_contain_text(title)
    expect(told).to_contain_text("503 (the ledger is closed for the night)")
    expect(told).to_contain_text("parked, the oldest for")
    expect(page.locator(".needs", has_text="parked")).to_have_count(1)
    expect(page.get_by_role("button", name="Try now")).to_have_count(1)


def test_explain_and_the_filter_of_the_list_have_the_word_of_the_list(
    stage: Stage, pages: Pages
) -> None:
    """A failing target was paused in Explain, and in the filter by state."""
    page = pages.open(stage.service, "#/explain?route=parcels")
    expect(item(page, "ledger")).to_contain_text("target fails")
    page.goto(stage.service.url("#/subscriptions"))
    states = page.get_by_role("combobox", name="State")
    expect(states.get_by_role("option", name="paused")).to_be_attached()
    states.select_option("target fails")
    rows = page.get_by_role("table", name="Subscriptions").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("ledger")


@pytest.mark.nightly
def test_an_event_of_a_paused_subscription_cannot_be_tried(stage: Stage, pages: Pages) -> None:
    """The button was there, and its answer was 409."""
    newest = "/v1/topics/log/orders/records?from=latest-1"
    (*_, message) = stage.service.ask("GET", newest)[1]["messages"]
    page = pages.open(stage.service, f"#/events/event?id={message['event']['id']}")
    waiting = item(page, "search-index")
    expect(waiting).to_contain_text("waiting")
    expect(waiting).to_contain_text("the subscription is paused: the index is rebuilt until noon")
    expect(waiting.locator(".badge", has_text="paused")).to_be_visible()
    expect(waiting.get_by_role("button", name="Try now")).to_have_count(0)


@pytest.mark.nightly
@pytest.mark.parametrize("fragment", ["#/letters/parked", "#/subscriptions/ledger/parked"])
def test_a_parked_key_names_its_event_and_when_it_is_tried(
    stage: Stage, pages: Pages, fragment: str
) -> None:
    """The key of an event without a key was "not shown", its next attempt was half a minute ago, and the
    page of the subscription named no event."""
    page = pages.open(stage.service, fragment)
    row = page.get_by_role("table", name="Parked keys").get_by_role("row").nth(1)
    expect(row.get_by_role("cell").first).to_contain_text("none")
    expect(row.get_by_role("link", name=re.compile(r"^warehouse-\d+$")).last).to_be_visible()
    expect(row).to_contain_text(re.compile("due now|in \\d"))
    expect(row).not_to_contain_text(re.compile("ago.*ago"))


@pytest.mark.nightly
def test_a_topic_that_does_not_exist_has_no_more_events(stage: Stage, pages: Pages) -> None:
    """The page said "0 events in 0 records; there are more"."""
    page = pages.open(stage.service, NOWHERE)
    expect(page.get_by_role("alert")).to_contain_text("Broker log has no topic nowhere")
    expect(page.get_by_text("there are more")).to_have_count(0)
    expect(page.get_by_role("button", name="Load more")).to_have_count(0)
    page.goto(stage.service.url(f"{NOWHERE}&live=1"))
    expect(page.locator(".badge", has_text="Ended")).to_be_visible()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_have_count(0)


@pytest.mark.nightly
def test_events_flow_into_a_topic_that_a_mirror_feeds(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, "#/flow")
    topic = page.locator("[data-node='topic log stock']")
    expect(topic).to_contain_text("fed by stock")
    expect(topic).to_have_class(re.compile("flows"))


@pytest.mark.nightly
def test_flow_and_producers_agree_on_who_may_send(console: ConsoleService, pages: Pages) -> None:
    """Flow said "the listener is open", and Producers "only this machine may send"."""
    page = pages.open(console, "#/flow")
    expect(page.locator("[data-node=anybody]")).to_contain_text("This machine")
    page.goto(console.url("#/producers"))
    expect(page.get_by_text("Only this machine may send.")).to_be_visible()


@pytest.mark.nightly
def test_topics_of_routes_can_be_picked_before_their_first_event(
    console: ConsoleService, pages: Pages
) -> None:
    page = pages.open(console, "#/subscriptions?make=1")
    page.get_by_role("group", name="Pick from log").get_by_role("button", name="events").click()
    expect(page.get_by_label("Topics")).to_have_value("events")


@pytest.mark.nightly
def test_the_example_of_the_first_subscription_can_be_pasted(
    console: ConsoleService, pages: Pages
) -> None:
    """It named a broker of another installation."""
    page = pages.open(console, "#/subscriptions")
    example = page.get_by_label("The same in the configuration file", exact=True)
    expect(example).to_contain_text("source: {broker: log, topics: [events]}")
