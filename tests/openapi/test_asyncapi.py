"""``skybridge asyncapi``: a document that AsyncAPI's own schema accepts, of what the bindings really write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import asyncapi_install
from app.bindings.http import decode
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.config.asyncapi import document
from app.config.model.config import Config
from kafka_install import Missing
from skipping import skip_or_fail

EVENT = [
    (b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"),
    (b"ce-subject", b"x"), (b"content-type", b"application/json"),
]  # fmt: skip

CONFIG = {
    "version": 1,
    "installation": "shop",
    "brokers": {
        "log": {"kind": "embedded", "path": "log", "kafka_listener": "127.0.0.1:19092"},
        "plain": {"kind": "embedded", "path": "plain"},
        "main": {
            "kind": "kafka",
            "bootstrap_servers": "a:9092, b:9092",
            "topics": {"create": True, "partitions": 3, "replication": 2},
            "security": {
                "tls": {},
                "sasl": {"mechanism": "SCRAM-SHA-512", "username": "sky", "password": "s3cret"},
            },
        },
        "rabbit": {
            "kind": "rabbitmq",
            "addresses": "r:5672",
            "security": {"username": "u", "password": "s3cret"},
        },
        "pulsar": {
            "kind": "pulsar",
            "service_url": "pulsar+ssl://p:6651",
            "admin_url": "https://p:8443",
        },
    },
    "routes": [
        {"name": "orders", "to": {"broker": "main", "topic": "orders.{type}"}},
        {
            "name": "docs",
            "content_mode": "structured",
            "format": "json",
            "to": [
                {"broker": "log", "topic": "docs"},
                {"broker": "rabbit", "exchange": "x", "routing_key": "k.{type}"},
            ],
        },
        {
            "name": "all",
            "content_mode": "as_received",
            "to": [
                {"broker": "pulsar", "topic": "acme/shop/events"},
                {"broker": "rabbit", "topic": "queue:legacy"},
                {"broker": "plain", "topic": "events"},
            ],
        },
    ],
    "subscriptions": [
        {
            "id": "billing",
            "source": {"broker": "log", "topics": ["docs", "more"]},
            "sink": "https://billing.example/hook?key=s3cret",
            "dead_letter": {"broker": "main", "topic": "dead"},
        },
        {
            "id": "copies",
            "source": {"broker": "plain", "topics": ["events"]},
            "sink": {"broker": "main", "topic": "copies"},
        },
    ],
    "operator_events": {"broker": "log", "topic": "operators"},
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    found: dict[str, Any] = document(Config.model_validate(CONFIG))
    return found


@pytest.fixture(scope="module")
def official() -> dict[str, Any]:
    try:
        return asyncapi_install.schema("3.0.0")
    except Missing as missing:
        skip_or_fail(missing)


def test_the_official_schema_accepts_it(described, official):
    """Every kind of broker, content mode and role of a topic."""
    validator = jsonschema.Draft7Validator(official)
    assert [
        f"{error.json_path}: {error.message}" for error in validator.iter_errors(described)
    ] == []
    broken = {**described, "asyncapi": "4"}
    assert list(validator.iter_errors(broken)), "a schema that accepts anything proves nothing"


def test_every_reference_leads_somewhere(described):
    """The schema does not look."""
    for reference in references(described):
        found: Any = described
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if "$ref" in part else []
        return own + [each for value in part.values() for each in references(value)]
    if isinstance(part, list):
        return [each for value in part for each in references(value)]
    return []


def test_routes_send_and_subscriptions_receive(described):
    """As Skybridge performs them; every place of the configuration has one channel."""
    operations = described["operations"]
    done = {(name, each["action"], address(described, each)) for name, each in operations.items()}
    assert done == {
        ("send-orders", "send", "orders.{type}"),
        ("send-docs", "send", "docs"),
        ("send-docs-2", "send", "k.{type}"),
        ("send-all", "send", "acme/shop/events"),
        ("send-all-2", "send", "queue:legacy"),
        ("send-all-3", "send", "events"),
        ("receive-billing", "receive", "docs"),
        ("receive-billing-2", "receive", "more"),
        ("dead-letter-billing", "send", "dead"),
        ("receive-copies", "receive", "events"),
        ("mirror-copies", "send", "copies"),
        ("operator-events", "send", "operators"),
    }
    group = operations["receive-billing"]["bindings"]["kafka"]["groupId"]["enum"]
    assert group == ["skybridge.shop.billing"]
    assert described["channels"]["main.orders.-type"]["parameters"].keys() == {"type"}
    assert len(described["channels"]) == 10


def address(described: dict[str, Any], operation: dict[str, Any]) -> str:
    name = operation["channel"]["$ref"].rpartition("/")[2]
    found: str = described["channels"][name]["address"]
    return found


def test_no_credential_is_in_it(described):
    """It is made to be given away."""
    assert "s3cret" not in json.dumps(described)
    assert described["servers"]["main-2"]["security"] == [{"type": "scramSha512"}]


@pytest.mark.parametrize(
    ("broker", "kind"),
    [("main", "kafka"), ("log", "embedded"), ("rabbit", "rabbitmq"), ("pulsar", "pulsar")],
)
def test_a_binary_message_has_the_headers_that_the_binding_writes(broker, kind):
    """Else a reader would look for headers that nobody sends."""
    (event,) = decode(EVENT, b"{}")
    record = BINDINGS[kind].encode(event, EncodeOptions(), None)
    written = {name for name, _ in record.headers if name.lower().startswith("ce")}
    (message,) = document(one_route(broker))["components"]["messages"].values()
    assert set(message["headers"]["required"]) <= written
    others = written - set(message["headers"]["properties"])
    assert others <= {"CE-ContentType", "ce_datacontenttype"}


def test_brokers_that_spell_headers_differently_share_no_message(described):
    """One of them would be described with the other's names."""
    names = described["components"]["messages"]
    assert {name for name in names if name.startswith("event-binary")} == {
        "event-binary-underscore", "event-binary-hyphen", "event-binary-capitals",
    }  # fmt: skip


def one_route(broker: str) -> Config:
    brokers = {broker: CONFIG["brokers"][broker]}  # type: ignore[index]
    route = {"name": "all", "to": {"broker": broker, "topic": "t"}}
    return Config.model_validate({"version": 1, "brokers": brokers, "routes": [route]})


def test_the_verb_prints_it(tmp_path, described):
    """The same document, for a file as for a pipe."""
    file = tmp_path / "skybridge.json"
    file.write_text(json.dumps(CONFIG))
    skybridge = Path(sys.executable).with_name("skybridge")
    done = subprocess.run(
        [str(skybridge), "asyncapi", "--config", str(file)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert json.loads(done.stdout) == described
