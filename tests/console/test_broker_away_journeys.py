"""Journeys with Kafka away: each page says so, and nothing vanishes in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from app.cli.commands import app
from configuration import Settings
from console import WITHIN_MS, ConsoleService, Pages
from kafka_away import kafka_with
from kafka_server import KafkaServer
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]  # a Kafka of its own
WITHIN = WITHIN_MS / 1000


@pytest.fixture
def making() -> Iterator[KafkaServer]:
    with kafka_with(["orders", "payments"]) as server:
        yield server


@pytest.fixture
def away(
    kafka: str, making: KafkaServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleService]:
    """Run a service whose Kafka was there at the start and is killed. (``kafka`` skips where there
    is none to be had.)
    """

    def change(settings: Settings) -> None:
        settings["brokers"]["main"] = {
            "kind": "kafka",
            "bootstrap_servers": making.bootstrap_servers,
        }
        settings["routes"].insert(
            0,
            {
                "name": "orders",
                "filters": [{"prefix": {"type": "order."}}],
                "to": {"broker": "main", "topic": "orders"},
            },
        )
        settings["subscriptions"] = [
            {
                "id": name,
                "source": {"broker": broker, "topics": [topic]},
                "sink": {"pull": {}},
            }
            for name, broker, topic in (("billing", "main", "payments"), ("here", "log", "events"))
        ]

    with ConsoleService(tmp_path_factory.mktemp("away"), change).running() as service:
        making.kill()
        wait_until(lambda: not _healthy(service), "a broker that is away", WITHIN)
        yield service


def _healthy(service: ConsoleService) -> bool:
    found: bool = service.ask("GET", "/status")[1]["brokers"]["main"]["healthy"]
    return found


def test_with_kafka_away_its_topics_stay_and_its_subscriptions_say_so(
    away: ConsoleService, pages: Pages
) -> None:
    page = pages.open(away, "#/events")
    topics = page.get_by_role("combobox", name="Topic")
    for name in ("orders", "payments"):
        option = topics.get_by_role("option", name=f"main/{name} (broker away)")
        expect(option).to_be_attached()
    expect(page.locator(".needs", has_text="Broker main does not answer")).to_be_visible()
    page.goto(away.url("#/subscriptions"))
    row = page.get_by_role("row").filter(has_text="billing")
    expect(row).to_contain_text("broker away")
    expect(page.get_by_role("row").filter(has_text="events")).to_contain_text("running")
    page.goto(away.url("#/flow"))
    expect(page.get_by_role("link", name=re.compile("^Subscription billing: "))).to_have_class(
        re.compile("failing")
    )

    told = CliRunner().invoke(
        app, ["find", "order-1", "--server", f"http://127.0.0.1:{away.admin}"]
    )
    lines = [line for line in told.output.splitlines() if "looked in main" in line]
    assert len(lines) == 1, told.output
    assert lines[0].count("KafkaConnectionError") <= 1
