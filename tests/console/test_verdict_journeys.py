"""What needs a person is named alike on the overview, in the list, on Flow and on the page of the subscription."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from configuration import Settings, subscription
from console import ConsoleService, Pages
from console_stage import Stage, on_stage
from waiting import wait_until


def _with_a_queue(settings: Settings) -> None:
    settings["subscriptions"].append(subscription("queue", {"pull": {"max_waiting": 3}}, "orders"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("stage"), _with_a_queue) as found:
        yield found


def verdicts_of(service: ConsoleService, name: str) -> list[str]:
    health = service.ask("GET", f"/v1/subscriptions/{name}/status")[1]["health"]
    return [each["verdict"] for each in health["attention"]]


@pytest.mark.parametrize(
    ("name", "verdict", "words", "button"),
    [
        ("ledger", "endpoint-fails", "target fails", "Try now"),
        ("queue", "queue-full", "queue full", "skybridge pull queue"),
    ],
)
def test_four_pages_name_the_same_problem(
    stage: Stage, pages: Pages, name: str, verdict: str, words: str, button: str
) -> None:
    """The overview said "nothing needs attention" while the target of one subscription failed."""
    wait_until(lambda: verdict in verdicts_of(stage.service, name), verdict)
    page = pages.open(stage.service)
    item = page.locator(f".needs[data-verdict={verdict}]", has_text=f"Subscription {name}")
    expect(item).to_contain_text(button)
    page.goto(stage.service.url("#/subscriptions"))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
    expect(row.locator(".badge")).to_have_text(words)
    page.goto(stage.service.url("#/flow"))
    node = page.locator(f"[data-node='subscription {name}']")
    expect(node).to_contain_text(words)
    page.goto(stage.service.url(f"#/subscriptions/{name}"))
    expect(page.get_by_role("heading", level=1)).to_contain_text(words)
    expect(page.locator(f".needs[data-verdict={verdict}]")).to_be_visible()
    expect(page.get_by_text(button, exact=True).first).to_be_visible()


@pytest.mark.nightly
def test_a_pull_subscription_shows_what_waits_to_be_pulled(stage: Stage, pages: Pages) -> None:
    """It said "waiting for the first event", and a lag of 0."""
    wait_until(lambda: "queue-full" in verdicts_of(stage.service, "queue"), "a full queue")
    page = pages.open(stage.service, "#/subscriptions/queue")
    expect(page.get_by_text("3 events wait to be pulled", exact=True)).to_be_visible()
    expect(page.get_by_text("Waiting for the first event")).to_have_count(0)
    oldest = page.locator(".figure", has_text="Oldest event")
    expect(oldest).to_contain_text(re.compile(r"\d+ (s|min)$"))
