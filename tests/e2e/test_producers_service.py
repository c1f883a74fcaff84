"""Producers of a service that runs: a reload changes who may send, on HTTP and on the Kafka listener."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from free_ports import free_ports
from reload_service import WITHIN, ReloadService
from waiting import wait_until

FIRST, SECOND = "the-first-key-of-the-shop", "the-second-key-of-the-shop"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ReloadService]:
    folder = tmp_path
    service = ReloadService(folder, watch="200ms")
    (kafka,) = free_ports(1)

    def guarded(settings: dict[str, Any]) -> None:
        settings["server"]["events"]["access"] = "producers"
        settings["brokers"]["log"]["kafka_listener"] = f"127.0.0.1:{kafka}"
        settings["producers"] = [
            {"name": "shop", "keys": [f"${{file:{folder}/shop}}"], "may": {"sources": ["/shop/*"]}},
            {"name": "scanner", "kafka": {"password": f"${{file:{folder}/scanner}}", "write": ["scans"]}},
        ]  # fmt: skip

        shape = {"file": str(folder / "order.json")}
        settings["routes"].append(
            {"name": "shaped", "to": {"broker": "log", "topic": "shaped"}, "schema": shape}
        )

    (folder / "order.json").write_text("true")
    (folder / "shop").write_text(FIRST)
    (folder / "scanner").write_text("the first password")
    service.change(guarded)
    service.kafka = kafka  # type: ignore[attr-defined]
    with service.running():
        yield service


def outcome(service: ReloadService) -> str:
    return service.ask("GET", "/status")[1]["configuration"]["last"]["outcome"]


class Sender:
    """One connection that stays."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def post(self, key: str, source: str = "/shop/1", route: str = "") -> int:
        event = {"specversion": "1.0", "id": "1", "source": source, "type": "t"}
        headers = {f"ce-{name}": value for name, value in event.items()}
        headers |= {"content-type": "application/json", "authorization": f"Bearer {key}"}
        self._connection.request("POST", f"/events{route}", b"1", headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status


def once(service: ReloadService, key: str, source: str = "/shop/1", route: str = "") -> int:
    """On a connection of its own."""
    sender = Sender(service.events)
    try:
        return sender.post(key, source, route)
    finally:
        sender.close()


def test_a_key_file_that_changes_holds_from_then_on(service: ReloadService) -> None:
    """Nobody reloads: the old key is refused on the connection that it came by, the new one taken."""
    sender = Sender(service.events)
    assert sender.post(FIRST) == 202
    assert sender.post(FIRST, "/other") == 403
    (service.folder / "shop").write_text(SECOND)
    wait_until(lambda: once(service, SECOND) == 202, "the new key", WITHIN)
    assert sender.post(FIRST) == 401
    sender.close()
    (shop, _) = service.ask("GET", "/status")[1]["producers"]
    assert (shop["name"], shop["refused"]) == ("shop", 1)
    assert shop["events"] >= 3
    log = (service.folder / "service.log").read_text()
    assert FIRST not in log
    assert SECOND not in log
    (service.folder / "shop").write_text("short")
    wait_until(lambda: outcome(service) == "refused", "a refusal", WITHIN)
    assert once(service, SECOND) == 202


def test_a_schema_file_that_changes_holds_from_then_on(service: ReloadService) -> None:
    """One that is no schema leaves the old one in force."""
    schema = service.folder / "order.json"
    assert once(service, FIRST, route="/shaped") == 202
    schema.write_text("false")
    wait_until(lambda: once(service, FIRST, route="/shaped") == 422, "the new schema", WITHIN)
    schema.write_text('{"type": 1}')
    wait_until(lambda: outcome(service) == "refused", "a refusal", WITHIN)
    assert once(service, FIRST, route="/shaped") == 422


def produced(service: ReloadService, password: str, told: list[KafkaError | None]) -> Producer:
    client = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{service.kafka}",  # type: ignore[attr-defined]
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "scanner",
            "sasl.password": password,
            "message.timeout.ms": 5_000,
        }
    )
    send(client, told)
    return client


def send(client: Producer, told: list[KafkaError | None]) -> None:
    client.produce("scans", b"x", on_delivery=lambda error, _: told.append(error))
    client.flush(60)


def test_a_password_that_changes_ends_what_was_open(service: ReloadService) -> None:
    """The client that has the old one is let go at its next request."""
    clients: list[Producer] = []

    def is_taken(password: str) -> bool:
        found: list[KafkaError | None] = []
        clients.append(produced(service, password, found))
        return found == [None]

    wait_until(lambda: is_taken("the first password"), "the password", WITHIN)
    old = clients[-1]
    (service.folder / "scanner").write_text("the second password")
    wait_until(lambda: is_taken("the second password"), "the new password", WITHIN)
    told: list[KafkaError | None] = []
    send(old, told)
    assert told[0] is not None


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        (lambda s: s["producers"][0]["may"].update(sources=["/other/*"]), "/other/1"),
        (lambda s: s["producers"][0].pop("may"), "/any"),
    ],
    ids=["other rights", "every right"],
)
def test_rights_change_with_a_reload(
    service: ReloadService, change: Callable[[Any], None], allowed: str
) -> None:
    service.change(change)
    status, said = service.reload()
    assert status == 200, said
    assert any("producers.shop" in each for each in said["changes"])
    assert once(service, FIRST, allowed) == 202


def test_configuration_shows_no_key(service: ReloadService) -> None:
    """Neither as it is in force, nor as it is written."""
    shown = json.dumps(service.ask("GET", "/v1/config")[1])
    assert "the-first" not in shown
    assert "${file:" in shown
