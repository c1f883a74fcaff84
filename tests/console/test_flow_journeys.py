"""Journeys through the page Flow: what feeds what, what waits, and what fails."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from configuration import Settings
from console import Pages
from console_stage import Stage, on_stage
from waiting import wait_until

INTAKE = {
    "name": "parcel-service",
    "preset": "github",
    "secret": "the-secret-of-the-parcel-service",
    "route": "parcels",
}


def _with_intake(settings: Settings) -> None:
    settings["intakes"] = [INTAKE]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("stage"), _with_intake) as found:
        yield found


def node(page: Page, name: str) -> Locator:
    return page.get_by_role(
        "link", name=re.compile("^" + re.escape(name).replace("/", r"\/") + ": ")
    )


def line(page: Page, name: str) -> Locator:
    return page.get_by_role(
        "img", name=re.compile("^" + re.escape(name).replace("/", r"\/") + ": ")
    )


def test_the_flow_shows_every_part_with_its_rate_and_leads_to_it(
    stage: Stage, pages: Pages
) -> None:
    page = pages.open(stage.service, "#/flow")
    expect(page.get_by_role("heading", level=1, name="Flow")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^parcels to parcels: [1-9]"))).to_be_attached()
    for name in ("Producer web-shop", "Route orders", "Topic parcels", "Target stock"):
        expect(node(page, name)).to_be_visible()
    node(page, "Subscription ledger").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ledger")
    for name, heading in (("Topic parcels", "Events"), ("Route orders", "Explain")):
        page.goto(stage.service.url("#/flow"))
        node(page, name).click()
        expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()


@pytest.mark.nightly
def test_a_rate_is_drawn_where_it_was_counted(stage: Stage, pages: Pages) -> None:
    """Deliveries are counted at the target: between a topic and a subscription nothing is counted."""
    page = pages.open(stage.service, "#/flow")
    expect(page.get_by_role("img", name=re.compile("^tracking to .*: [1-9]"))).to_be_attached()
    expect(line(page, "parcels to tracking")).to_have_accessible_name(
        "parcels to tracking: events flow"
    )


@pytest.mark.nightly
def test_an_intake_with_a_fixed_route_leads_to_that_route_only(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, "#/flow")
    expect(line(page, "/in/parcel-service to parcels")).to_be_attached()
    expect(line(page, "/in/parcel-service to orders")).to_have_count(0)


@pytest.mark.nightly
def test_a_failing_target_has_the_colour_of_failure_beside_lag_and_parked_events(
    stage: Stage, pages: Pages
) -> None:
    page = pages.open(stage.service, "#/flow")
    ledger = node(page, "Subscription ledger")
    expect(ledger).to_have_accessible_name(re.compile(r"lag [\d,]+, [\d,]+ parked"))
    expect(ledger).to_have_class(re.compile("failing"))
    target = page.locator("a.flow-node", has_text="/down")
    expect(target).to_have_class(re.compile("failing"))


@pytest.mark.nightly
def test_events_that_wait_to_be_pulled_are_no_failure(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, "#/flow")
    reports = node(page, "Subscription reports")
    expect(reports).to_be_visible()
    wait_until(lambda: _queued(stage) > 0, "queued events", 60)
    expect(reports).not_to_have_class(re.compile("failing"))


def _queued(stage: Stage) -> int:
    health = stage.service.ask("GET", "/v1/subscriptions/reports/status")[1]["health"]
    waiting: int = health["waiting"]
    return waiting


@pytest.mark.nightly
def test_at_400_pixels_the_flow_shows_all_five_columns(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, "#/flow", viewport={"width": 400, "height": 800})
    for title in ("Senders", "Routes", "Topics", "Subscriptions", "Targets"):
        expect(page.get_by_role("heading", level=2, name=title)).to_be_visible()
    row = page.get_by_role("listitem").filter(has=node(page, "Subscription billing"))
    expect(row).to_contain_text("/paid-only")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
