"""Traces where an event does not go alone: requests of several, mirrors, and events that are fetched (issue 9, 5)."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any

import pytest

from collector import Collector, ReceivedSpan
from reload_service import ReloadService
from service_process import ServiceProcess
from status_endpoint import posting_endpoint
from waiting import wait_until

pytestmark = pytest.mark.nightly

WITHIN = 120.0
SENDERS = {f"{number:032x}": f"{number + 0xA0:016x}" for number in (1, 2)}
"""Trace and span of each sender: two events, of two traces."""
CONSUMER = "00-000000000000000000000000000000cc-00000000000000dd-01"


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Its address, and the headers of what it was sent."""
    came: list[dict[str, str]] = []

    def noted(_path: str, headers: Message) -> int:
        came.append({name.lower(): value for name, value in headers.items()})
        return 204

    with posting_endpoint(noted) as address:
        yield f"{address}/hook", came


def send(service: ServiceProcess, trace: str, span: str) -> None:
    headers = {"traceparent": f"00-{trace}-{span}-01"}
    assert service.send(trace, headers=headers)[0] == 202


def fetched(port: int) -> list[dict[str, Any]]:
    """What the consumer gets, who has a trace of its own."""
    url = f"http://127.0.0.1:{port}/v1/subscriptions/pulled:receive"
    headers = {"content-type": "application/json", "traceparent": CONSUMER}
    body = json.dumps({"max_events": 10, "max_wait": 30}).encode()
    with urllib.request.urlopen(
        urllib.request.Request(url, body, headers), timeout=WITHIN
    ) as answer:
        found: list[dict[str, Any]] = json.load(answer)["events"]
    return found


class Told:
    """``spans`` of the service, ``requests`` of the webhook, ``pulled`` events, one list for each answer."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.requests: list[dict[str, str]] = []
        self.pulled: list[list[dict[str, Any]]] = []

    def named(self, name: str, subscription: str = "") -> list[ReceivedSpan]:
        return [
            each
            for each in self.spans
            if each.name == name
            and subscription in ("", each.attributes.get("skybridge.subscription"))
        ]


def subscriptions(url: str) -> list[dict[str, Any]]:
    plain = {"source": {"broker": "log", "topics": ["events"]}, "start": "earliest"}
    copies = {"source": {"broker": "log", "topics": ["copies"]}, "start": "earliest"}
    batch = {"max_events": 2, "max_wait": "1m"}  # it leaves when both are there
    return [
        {
            **plain,
            "id": "batched",
            "sink": url,
            "batch": batch,
            "handshake": "off",
            "timeout": "1m",
        },
        {**plain, "id": "mirror", "sink": {"broker": "log", "topic": "copies"}},
        {**copies, "id": "pulled", "sink": {"pull": {}}},
    ]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Of two events on all three ways."""
    found = Told()
    with webhook() as (url, came), Collector() as collector:
        house = ReloadService(tmp_path_factory.mktemp("traced"))
        house.settings["telemetry"] = {"traces": {"endpoint": collector.url}}
        house.settings["subscriptions"] = subscriptions(url)
        house.write()
        with house.running():
            for trace, span in SENDERS.items():
                send(house.process, trace, span)
            wait_until(lambda: bool(came), "a request of both", WITHIN)
            while sum(map(len, found.pulled)) < 2:
                found.pulled.append(fetched(house.admin))
            assert house.process.stop() == 0
        found.spans, found.requests = collector.spans, came
    return found


def pairs(spans: list[ReceivedSpan]) -> set[tuple[str, str]]:
    return {(each.trace, each.id) for each in spans}


def test_a_request_of_several_events_is_linked_with_each(told: Told) -> None:
    """It is part of no trace of theirs, and the webhook goes on from it."""
    (request,) = told.named("POST")
    (header,) = (each["traceparent"] for each in told.requests)
    *context, flags = header.split("-")
    assert context == ["00", request.trace, request.id]
    assert int(flags, 16) & 1, "sampled"
    assert (request.kind, request.parent) == ("client", "")
    assert request.trace not in SENDERS
    attempts = told.named("process", "batched")
    assert {each.trace for each in attempts} == set(SENDERS)
    assert set(request.links) == pairs(attempts)
    assert request.attributes["messaging.batch.message_count"] == 2
    assert request.attributes["http.response.status_code"] == 204


def test_a_mirror_publishes_in_the_trace_of_its_event(told: Told) -> None:
    """Sender, gateway, attempt, copy: what reads the copy goes on from there."""
    of = {each.id: each for each in told.spans}
    copies = told.named("send copies")
    assert {each.trace for each in copies} == set(SENDERS)
    for copy in copies:
        attempt = of[copy.parent]
        assert (copy.kind, attempt.kind, attempt.name) == ("producer", "consumer", "process events")
        assert of[attempt.parent].name == "send events"
        assert copy.attributes["messaging.destination.name"] == "copies"
        assert copy.attributes["messaging.system"] == "skybridge"
        assert not copy.failed


def test_who_fetches_events_gets_the_trace_of_each_and_is_linked_with_them(told: Told) -> None:
    """The span of the request is of whoever asked: its own trace, with links to what it was given."""
    copies = told.named("send copies")
    carried = {
        each["broker_properties"]["traceparent"] for events in told.pulled for each in events
    }
    assert carried == {f"00-{each.trace}-{each.id}-01" for each in copies}
    spans = told.named("receive copies", "pulled")
    assert {each.trace for each in spans} == {CONSUMER.split("-")[1]}
    assert {each.parent for each in spans} == {CONSUMER.split("-")[2]}
    assert {link for each in spans for link in each.links} == pairs(copies)
    assert sum(each.attributes["messaging.batch.message_count"] for each in spans) == 2
    assert {each.kind for each in spans} == {"server"}
