"""Journeys of an operator through overview and subscriptions, each on a real service with real traffic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.store.encryption import new_key
from configuration import Settings
from console import READER, WITHIN_MS, ConsoleService, Pages, with_tokens
from console_stage import Stage, Targets, on_stage
from tcp_relay import TcpRelay
from threaded_http import ThreadedServer
from waiting import wait_until

WITHIN = WITHIN_MS / 1000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("stage")) as found:
        yield found


def figure(page: Page, name: str) -> str:
    """What a figure of the page shows."""
    return page.locator(".figure", has_text=name).locator(".figure-value").inner_text()


def number(text: str) -> float:
    """``1,234.5 /s`` of an English browser."""
    found = re.match(r"[\d,.]+", text)
    return float(found[0].replace(",", "")) if found else 0.0


def test_the_overview_moves_and_names_what_needs_a_person(stage: Stage, pages: Pages) -> None:
    """Rates come by a stream: no reload of the page, and another number a second later."""
    page = pages.open(stage.service)
    wait_until(lambda: number(figure(page, "Events in")) > 0, "a rate", WITHIN)
    wait_until(lambda: number(figure(page, "Deliveries out")) > 0, "deliveries", WITHIN)
    events = page.get_by_role("img", name="Events a second")
    first = events.get_attribute("aria-label")
    wait_until(lambda: events.get_attribute("aria-label") != first, "another rate", WITHIN)
    needs = page.get_by_role("list", name="What needs a person")
    expect(needs).to_contain_text("Dead letters (status-422")
    needs.get_by_role("link", name="Show and redrive").click()
    expect(page.get_by_role("heading", level=1, name="Dead letters")).to_be_visible()
    expect(page).to_have_url(re.compile("subscription=billing"))


def test_the_button_of_the_overview_resumes_what_a_person_paused(
    stage: Stage, pages: Pages
) -> None:
    cause = {"cause": "the index is rebuilt"}
    assert stage.service.ask("POST", "/v1/subscriptions/search-index:pause", cause)[0] == 200
    page = pages.open(stage.service)
    needs = page.get_by_role("list", name="What needs a person")
    expect(needs).to_contain_text("the index is rebuilt")
    page.get_by_role("button", name="Resume search-index").click()
    expect(needs).not_to_contain_text("search-index")
    wait_until(
        lambda: state_of(stage.service, "search-index") == "running", "a resumed one", WITHIN
    )


def state_of(service: ConsoleService, name: str) -> str:
    state: str = service.ask("GET", f"/v1/subscriptions/{name}/status")[1]["health"]["state"]
    return state


_SECONDS_AGO = """(seconds) => {
    const now = new Date();
    return new Date(now - seconds * 1000 - now.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}"""
"""As a field for local time takes it."""


def test_pause_replay_resume(stage: Stage, pages: Pages) -> None:
    """While it is paused its lag grows; a replay from a time waits with it, and both end after the resume."""
    page = pages.open(stage.service, "#/subscriptions")
    expect(page.get_by_role("searchbox")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("tracking")
    page.get_by_role("link", name="tracking").click()
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the target moves")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator(".needs")).to_contain_text("the target moves")
    wait_until(lambda: number(figure(page, "Lag")) > 5, "a lag that grows", WITHIN)

    page.get_by_role("button", name="Replay").click()
    dialog.get_by_label("Stored at or after").fill(page.evaluate(_SECONDS_AGO, 20))
    dialog.get_by_role("button", name="Count the events").click()
    expect(dialog.get_by_role("status")).to_contain_text("record")
    dialog.get_by_role("button", name=re.compile("^Replay")).click()
    expect(page.get_by_role("progressbar", name="Progress of the replay")).to_be_visible()

    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("running")
    expect(page.get_by_role("progressbar", name="Progress of the replay")).to_be_hidden()
    wait_until(lambda: number(figure(page, "Delivered")) > 0, "deliveries", WITHIN)
    assert stage.service.ask("GET", "/v1/subscriptions/tracking/replays")[1] == []


@pytest.mark.nightly
def test_the_charts_of_a_subscription_begin_with_the_history_of_the_service(
    stage: Stage, pages: Pages
) -> None:
    """A page that was just opened shows what came before it."""
    status = "/v1/subscriptions/tracking/history"
    wait_until(lambda: len(stage.service.ask("GET", status)[1]["points"]) >= 2, "points", WITHIN)
    page = pages.open(stage.service, "#/overview")
    with page.expect_response(lambda answer: answer.url.endswith(status)) as asked:
        page.evaluate("location.hash = '#/subscriptions/tracking'")
    assert asked.value.json()["points"][-1]["delivered"] > 0
    chart = page.get_by_role("img", name=re.compile("^Delivered a second"))
    expect(chart).to_be_visible()
    wait_until(lambda: float(chart.get_attribute("data-seconds") or 0) >= 10, "a span", WITHIN)


def test_a_test_event_shows_the_answer_of_the_target(stage: Stage, pages: Pages) -> None:
    page = pages.open(stage.service, "#/subscriptions/ledger")
    page.get_by_role("button", name="Test event").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_contain_text("not delivered")
    expect(dialog).to_contain_text("503")
    expect(dialog).to_contain_text("closed for the night")


def test_settings_are_yaml_as_in_the_file(stage: Stage, pages: Pages) -> None:
    """What the page shows can be pasted there: ``check`` takes it."""
    page = pages.open(stage.service, "#/subscriptions/mail/settings")
    text = page.get_by_label(re.compile("^Settings of mail")).inner_text()
    assert text.startswith("- id: mail\n  source:\n")
    assert "rate_limit: 20/s" in text


def test_make_a_subscription_and_see_its_first_event_arrive(
    console: ConsoleService, pages: Pages
) -> None:
    """Faults stand beside the form while it is written, as ``check`` says them; the event comes without a reload."""
    with ThreadedServer(Targets) as targets:
        page = pages.open(console, "#/subscriptions")
        expect(page.get_by_label(re.compile("^The same in"))).to_contain_text("{broker: log,")
        page.get_by_role("link", name="Create the first one").click()
        page.get_by_role("textbox", name=re.compile("^Name")).fill("billing")
        page.get_by_label("Topics").fill("events")
        page.get_by_label("URL", exact=True).fill("ftp://billing.example")
        faults = page.get_by_role("list", name="What the check finds")
        expect(faults).to_contain_text("Begin the value with https://")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("sink")
        page.get_by_label("URL", exact=True).fill(f"{targets.address}/ok")
        page.get_by_text("Other settings, as YAML").first.click()
        page.get_by_label("Other settings, as YAML").fill("handshake: off")
        expect(page.get_by_label("As in the configuration file", exact=True)).to_contain_text(
            'handshake: "off"'
        )
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("running")
        expect(page.get_by_text("Waiting for the first event")).to_be_visible()

        assert console.post(71, "com.example.first")[0] == 200
        row = page.get_by_role("row", name=re.compile("com.example.first"))
        expect(row).to_contain_text("delivered")
        expect(row).to_contain_text("204")


def _with_a_key(settings: Settings) -> None:
    settings["store"]["encryption"] = {"key": new_key()}


@pytest.fixture
def keeping_secrets(tmp_path: Path) -> Iterator[Stage]:
    with on_stage(tmp_path, _with_a_key) as found:
        yield found


@pytest.mark.nightly
def test_a_new_subscription_picks_topics_signs_and_groups_its_filters(
    keeping_secrets: Stage, pages: Pages
) -> None:
    """All of it is in the fields: other settings are for what is rare."""
    stage = keeping_secrets
    page = pages.open(stage.service, "#/subscriptions?make=1")
    page.get_by_role("textbox", name=re.compile("^Name")).fill("signed")
    picks = page.get_by_role("group", name="Pick from log")
    for topic in ("orders", "parcels"):
        picks.get_by_role("button", name=topic, exact=True).click()
    expect(page.get_by_label("Topics")).to_have_value("orders, parcels")
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Value of filter 1", exact=True).fill("com.example.cart.left")
    page.get_by_label("Kind of filter 1", exact=True).select_option("not")
    page.get_by_role("button", name="Add a filter", exact=True).click()
    page.get_by_label("Value of filter 2", exact=True).fill("customer-1")
    page.get_by_label("Attribute of filter 2", exact=True).fill("subject")
    page.get_by_label("Kind of filter 2", exact=True).select_option("any")
    page.get_by_role("button", name="Add a filter to 2").click()
    page.get_by_label("Attribute of filter 2.2", exact=True).fill("subject")
    page.get_by_label("Value of filter 2.2", exact=True).fill("customer-2")
    page.get_by_label("URL", exact=True).fill(f"{stage.targets}/ok")
    page.get_by_label("Credentials").select_option("bearer")
    page.get_by_label("Token", exact=True).fill("the-token-of-the-target")
    page.get_by_label(re.compile("^Sign requests")).check()
    page.get_by_role("button", name="Make a secret").click()
    page.get_by_text("Other settings, as YAML").first.click()
    page.get_by_label("Other settings, as YAML").fill(
        "handshake: off\nretry:\n  schedule: [1s, 1m]"
    )
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("running")
    document = stage.service.ask("GET", "/v1/subscriptions/signed")[1]
    assert document["source"]["topics"] == ["orders", "parcels"]
    assert document["filters"] == [
        {"not": {"exact": {"type": "com.example.cart.left"}}},
        {"any": [{"exact": {"subject": "customer-1"}}, {"exact": {"subject": "customer-2"}}]},
    ]
    assert (document["auth"]["kind"], "secret" in document["signing"]) == ("bearer", True)
    assert document["retry"]["schedule"]
    page.goto(stage.service.url("#/subscriptions/signed/change"))
    expect(page.get_by_label("Value of filter 2.2", exact=True)).to_have_value("customer-2")
    expect(page.get_by_label("Credentials")).to_have_value("bearer")
    assert stage.service.ask("DELETE", "/v1/subscriptions/signed")[0] == 200


def test_a_subscription_is_changed_and_deleted_by_its_typed_name(
    console: ConsoleService, pages: Pages
) -> None:
    document = {
        "id": "short-lived",
        "source": {"broker": "log", "topics": ["events"]},
        "sink": {"pull": {}},
    }
    assert console.ask("POST", "/v1/subscriptions", document)[0] == 201
    page = pages.open(console, "#/subscriptions/short-lived/change")
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Value of filter 1").fill("com.example.wanted")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("short-lived")
    page.get_by_role("link", name="Settings").click()
    expect(page.locator("pre")).to_contain_text("type: com.example.wanted")

    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_role("textbox").fill("short-lived")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("#/subscriptions$"))
    assert console.ask("GET", "/v1/subscriptions/short-lived")[0] == 404


@pytest.mark.nightly
@pytest.mark.rabbitmq
def test_a_broker_that_goes_and_comes_back_is_seen(
    rabbitmq: str, tmp_path: Path, pages: Pages
) -> None:
    """Without a reload of the page, once the service itself knows."""
    with TcpRelay(rabbitmq) as relay:
        broker = {"kind": "rabbitmq", "addresses": relay.address}
        service = ConsoleService(tmp_path, lambda found: found["brokers"].update(rabbit=broker))
        with service.running():
            page = pages.open(service)
            shown = page.locator("[data-broker=rabbit]")
            expect(shown).to_contain_text("healthy")
            relay.cut()
            wait_until(lambda: not healthy(service, "rabbit"), "a broker that is away", WITHIN)
            expect(shown).to_contain_text("broker away")
            needs = page.get_by_role("list", name="What needs a person")
            expect(needs).to_contain_text("Broker rabbit")
            relay.mend()
            wait_until(lambda: healthy(service, "rabbit"), "a broker that is back", WITHIN)
            expect(shown).to_contain_text("healthy")
            expect(needs).to_be_hidden()


def healthy(service: ConsoleService, broker: str) -> bool:
    found: bool = service.ask("GET", "/status")[1]["brokers"][broker]["healthy"]
    return found


_OPERATOR = "the-token-of-the-operator"


def _with_an_operator(settings: Settings) -> None:
    with_tokens(settings)
    owner = {"owner": "kubernetes", "token": _OPERATOR, "scopes": ["read", "configure"]}
    settings["server"]["admin"]["tokens"].append({"name": "kubernetes", **owner})


@pytest.mark.nightly
def test_a_session_that_only_reads_sees_no_button_that_changes(
    tmp_path: Path, pages: Pages
) -> None:
    """It sees also which object of Kubernetes declares a subscription (issue 46)."""
    with ConsoleService(tmp_path, _with_an_operator).running() as service:
        page = pages.open(service)
        page.get_by_label("Admin token").fill("no such token at all")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Admin token").fill(READER)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press("s")
        expect(page.get_by_text("No subscription yet")).to_be_visible()
        expect(page.get_by_role("link", name="New subscription")).to_have_count(0)
        expect(page.get_by_role("link", name="Create the first one")).to_have_count(0)
        source = {"broker": "log", "topics": ["events"]}
        document = {"id": "team-billing.hook", "source": source, "sink": {"pull": {}}}
        assert service.ask("POST", "/v1/subscriptions", document, _OPERATOR)[0] == 201
        page.goto(service.url("#/subscriptions/team-billing.hook/settings"))
        declared = "declared by the Kubernetes object team-billing/hook of kind Subscription"
        expect(page.locator(".note", has_text=declared)).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Admin token")).to_be_visible()


def test_the_keyboard_reaches_pages_search_and_help(console: ConsoleService, pages: Pages) -> None:
    page = pages.open(console)
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Subscriptions")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", level=1, name="Flow")).to_be_visible()
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.tagName")
    assert focused != "BODY"
