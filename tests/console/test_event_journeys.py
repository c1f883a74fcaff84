"""What an operator does with single events: find one and why it did not arrive, follow a topic, explain, send again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect
from typer.testing import CliRunner

from app.cli.commands import app
from console import Pages
from console_traffic import KEY, ORDERS, Shop, shop
from waiting import wait_until


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("shop")) as found:
        yield found


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


def item(page: Page, subscription: str) -> Locator:
    """What is said of one subscription."""
    items = page.get_by_role("main").get_by_role("listitem")
    return items.filter(has=page.get_by_role("link", name=subscription, exact=True))


def test_find_why_an_event_did_not_arrive(stage: Shop, pages: Pages) -> None:
    """Billing misses an order: it was paid, and billing wants new ones. The page names the clause."""
    id_ = stage.send(1, "paid")
    page = pages.open(stage.service, "#/events")
    expect(page.get_by_role("table", name="Events found")).to_be_visible()  # so keys are heard
    page.keyboard.press("/")
    expect(page.get_by_label("Event id")).to_be_focused()
    page.keyboard.type(id_)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=id_)).to_be_visible()
    expect(page.get_by_text("Sent by shop")).to_be_visible()
    billing = item(page, "billing")
    expect(billing).to_contain_text("filtered")
    expect(billing).to_contain_text(f"exact type '{ORDERS}created'")
    expect(billing).to_contain_text(f"type is '{ORDERS}paid'")
    expect(item(page, "audit")).to_contain_text("delivered")


@pytest.mark.nightly
def test_no_filter_explains_the_fixed_route_of_an_intake(stage: Shop, pages: Pages) -> None:
    """The filter of the route matches, but it was not evaluated."""
    assert stage.post("by-partner", f"{ORDERS}paid", path="/in/partner")[0] == 202
    page = pages.open(stage.service, "#/events/event?id=by-partner")
    expect(page.get_by_role("heading", name="Received by intake partner")).to_be_visible()
    route = item(page, "orders")
    expect(route).to_contain_text("Intake partner named the route, so its filters were not")
    expect(route).not_to_contain_text("Computed")
    page.get_by_role("main").get_by_role("link", name="Explain").click()
    page.get_by_label("Posted to").select_option("orders")
    orders = page.get_by_role("region", name="Routes").get_by_role("listitem").first
    expect(orders).to_contain_text("The request names the route, so its filters are not evaluated.")
    expect(orders).not_to_contain_text("It has no filter.")


@pytest.mark.nightly
def test_an_unknown_event_is_said_with_how_far_was_looked(stage: Shop, pages: Pages) -> None:
    """An empty answer is worth what was searched for it."""
    page = pages.open(stage.service, "#/events/event?id=never-sent")
    expect(page.get_by_role("heading", name="No such event")).to_be_visible()
    page.get_by_text("Where it was searched").click()
    expect(page.get_by_text("store dead_letters")).to_be_visible()


def test_records_are_searched_by_attributes_and_one_is_shown_as_it_lies(
    stage: Shop, pages: Pages
) -> None:
    """Numbers stand as they were written: 12.50 read as a number would be 12.5."""
    stage.send(2, "cancelled")
    stage.post("order-3", f"{ORDERS}refunded", total=12345678901234567890)
    page = pages.open(stage.service, "#/events?from=1h")
    page.get_by_label("Type").fill(f"{ORDERS}re*")
    page.get_by_role("button", name="Search").click()
    found = page.get_by_role("table", name="Events found")
    expect(found.get_by_role("row")).to_have_count(2)
    found.get_by_role("link", name=f"{ORDERS}refunded").click()
    expect(page.get_by_label("Data as JSON", exact=True)).to_contain_text("12345678901234567890")
    page.get_by_role("button", name="Hex").click()
    expect(page.get_by_label("Data in hexadecimal", exact=True)).to_contain_text("7b 22 74 6f")
    page.get_by_role("button", name="Raw").click()
    expect(page.get_by_label("Data as text", exact=True)).to_have_text(
        '{"total": 12345678901234567890}'
    )


def let_go(page: Page, path: str, held: list[Route]) -> None:
    """The answers that a page waits for; returns when one that was asked for later has come too."""
    for each in held:
        each.continue_()
    page.unroute(f"**{path}")
    page.evaluate("path => fetch(path).then(answer => answer.text())", path)


@pytest.mark.nightly
def test_topics_that_come_late_take_back_nothing_that_was_typed(stage: Shop, pages: Pages) -> None:
    """The page asks the brokers for them, which may take seconds."""
    stage.send(2, "cancelled")
    page = pages.open(stage.service, "#/overview")
    held: list[Route] = []
    page.route("**/v1/topics", lambda route: held.append(route))  # noqa: PLW0108 - it gets an attribute
    page.get_by_role("link", name="Events", exact=True).click()
    page.get_by_label("Type").fill(f"{ORDERS}re*")
    let_go(page, "/v1/topics", held)
    expect(page.get_by_label("Topic")).to_contain_text("log/orders")
    expect(page.get_by_label("Type")).to_have_value(f"{ORDERS}re*")


@pytest.mark.nightly
def test_an_event_that_comes_late_to_explain_takes_back_no_choice(
    stage: Shop, pages: Pages
) -> None:
    """The field stayed empty if a route was chosen before the event had come."""
    page = pages.open(stage.service, "#/overview")
    held: list[Route] = []
    page.route("**/v1/config", lambda route: held.append(route))  # noqa: PLW0108 - it gets an attribute
    page.get_by_role("link", name="Explain", exact=True).click()
    page.get_by_label("Posted to").select_option("orders")
    let_go(page, "/v1/config", held)
    expect(page.get_by_label("An event or a batch, in JSON")).to_have_value(
        re.compile("specversion")
    )
    expect(page.get_by_label("Posted to")).to_have_value("orders")


def test_a_live_tail_shows_wanted_events_as_they_come(stage: Shop, pages: Pages) -> None:
    page = pages.open(
        stage.service, f"#/events?broker=log&topic=orders&type={ORDERS}created&live=1"
    )
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    stage.send(10, "paid")
    stage.send(11)
    expect(row(page, "order-11")).to_be_visible()
    expect(row(page, "order-10")).to_have_count(0)
    page.get_by_role("button", name="Pause").click()
    stage.send(12)
    page.get_by_role("button", name="Continue").click()
    expect(row(page, "order-12")).to_be_visible()


def test_an_event_is_sent_again_to_one_subscription_and_to_its_topic(
    stage: Shop, pages: Pages
) -> None:
    id_ = stage.send(20)
    page = pages.open(stage.service, f"#/events/event?id={id_}")
    page.get_by_role("button", name="Send again").click()
    page.get_by_role("dialog").get_by_role("combobox").select_option("audit")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("audit answered 204")
    page.get_by_role("dialog").get_by_role("combobox").select_option("")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Stored in log/orders")
    _, found = stage.service.ask("GET", f"/v1/events?id={id_}")
    (event,) = found["events"]
    assert len(event["places"]) == 2


@pytest.mark.nightly
def test_the_copied_command_posts_the_event(stage: Shop, pages: Pages) -> None:
    """What is copied has the whole event, with quotes that a shell reads."""
    stage.post("it's one", f"{ORDERS}created", note="it's here")
    page = pages.open(stage.service, "#/events/event?id=it%27s%20one")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.get_by_role("button", name="Copy as curl").click()
    page.wait_for_function("window.copied")
    command = page.evaluate("window.copied")
    assert command.startswith(f"curl 'http://127.0.0.1:{stage.service.events}/events' \\\n")
    assert "it'\\''s one" in command
    assert "-H 'content-type: application/cloudevents+json'" in command


@pytest.mark.nightly
def test_data_that_no_number_of_a_browser_holds_is_shown_and_sent_again_as_it_came(
    stage: Shop, pages: Pages
) -> None:
    data = r'{"\ud83d":"cut \uD83D","n":1e400,"m":[1.10,12345678901234567890]}'
    document = f'{{"specversion":"1.0","id":"odd","source":"/shop","type":"{ORDERS}created","data":{data}}}'
    url = f"http://127.0.0.1:{stage.service.events}/events"
    headers = {
        "content-type": "application/cloudevents+json",
        "authorization": f"Bearer {KEY}",
    }
    sent = httpx.post(url, content=document, headers=headers, trust_env=False, timeout=120)
    assert sent.status_code == 202, sent.text
    page = pages.open(stage.service, "#/events/event?id=odd")
    expect(page.get_by_role("main")).to_contain_text("1e400")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.get_by_role("button", name="Copy as curl").click()
    page.wait_for_function("window.copied")
    assert data in page.evaluate("window.copied")
    page.get_by_role("button", name="Send again").click()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Stored in log/orders")
    records = f"http://127.0.0.1:{stage.service.admin}/v1/topics/log/orders/records?id=odd"
    assert httpx.get(records, trust_env=False, timeout=120).text.count(f'"data":{data}') == 2


@pytest.mark.nightly
def test_explain_and_save_as_a_test(stage: Shop, pages: Pages, tmp_path: Path) -> None:
    """A real event, edited until billing gets it; what is saved passes with the configuration, and fails when
    the configuration sends the event elsewhere."""
    id_ = stage.send(30, "paid")
    page = pages.open(stage.service, f"#/events/event?id={id_}")
    page.get_by_role("main").get_by_role("link", name="Explain").click()
    text = page.get_by_label("An event or a batch, in JSON")
    expect(text).to_have_value(re.compile(id_))
    billing = item(page, "billing")
    expect(billing).to_contain_text("does not")
    text.fill(text.input_value().replace(f"{ORDERS}paid", f"{ORDERS}created"))
    expect(billing).to_contain_text("gets it")
    page.get_by_role("button", name="Save as a test").click()
    cases = tmp_path / "cases.yaml"
    cases.write_text(page.get_by_label("cases.yaml", exact=True).inner_text())
    config = stage.service.file
    done = CliRunner().invoke(app, ["test", str(cases), "--config", str(config)])
    assert done.exit_code == 0, done.output
    other = tmp_path / "other.yaml"
    other.write_text(config.read_text().replace('"topic": "orders"', '"topic": "elsewhere"'))
    assert CliRunner().invoke(app, ["test", str(cases), "--config", str(other)]).exit_code == 1


@pytest.mark.nightly
def test_a_faulty_event_shows_every_fault_while_it_is_written(stage: Shop, pages: Pages) -> None:
    page = pages.open(stage.service, "#/explain")
    page.get_by_label("An event or a batch, in JSON").fill('{"specversion": "1.0", "id": ""')
    expect(page.get_by_role("heading", name="No JSON yet")).to_be_visible()
    page.get_by_label("An event or a batch, in JSON").fill('{"specversion": "1.0", "id": ""}')
    problem = page.get_by_role("alert")
    for fault in ("id", "source", "type"):
        expect(problem.get_by_role("listitem").filter(has_text=fault).first).to_be_visible()


@pytest.mark.nightly
def test_a_sample_that_comes_late_replaces_nothing_that_was_written(
    stage: Shop, pages: Pages
) -> None:
    """The page asks the service for its configuration to make one, which may take a while."""
    page = pages.open(stage.service, "#/overview")
    held: list[Route] = []
    page.route("**/v1/config", lambda route: held.append(route))  # noqa: PLW0108 - it gets an attribute
    page.get_by_role("link", name="Explain").click()
    text = page.get_by_label("An event or a batch, in JSON")
    text.fill("{")
    expect(page.get_by_role("heading", name="No JSON yet")).to_be_visible()
    let_go(page, "/v1/config", held)
    expect(text).to_have_value("{")


@pytest.mark.nightly
def test_producers_show_what_is_refused_and_the_audit_who_did_it(stage: Shop, pages: Pages) -> None:
    assert stage.post("1", "org.other")[0] == 403
    page = pages.open(stage.service, "#/producers")
    expect(row(page, "shop")).to_contain_text("not-allowed 1")
    assert stage.service.ask("POST", "/v1/subscriptions/audit:pause")[0] == 200
    assert stage.service.ask("POST", "/v1/subscriptions/audit:resume")[0] == 200
    page.goto(stage.service.url("#/audit?kind=change"))
    expect(row(page, "pause_subscription")).to_contain_text("audit")
    page.get_by_label("Operation").fill("resume_subscription")
    page.get_by_role("button", name="Search").click()
    expect(row(page, "pause_subscription")).to_have_count(0)
    expect(row(page, "resume_subscription")).to_be_visible()
    wait_until(lambda: "operation=resume_subscription" in page.url, "the address of the search", 10)
