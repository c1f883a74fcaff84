"""One event, one trace: producer, gateway, publish, worker, webhook (issue 9, point 5)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from collector import Collector, ReceivedSpan
from configuration import configuration, route, subscription
from free_ports import free_ports
from service_process import ServiceProcess
from status_endpoint import posting_endpoint
from waiting import wait_until

WITHIN = 120.0
OWN = "00-11111111111111111111111111111111-2222222222222222-01"  # of the event: the sender's own


@contextmanager
def webhook() -> Iterator[tuple[str, list[list[tuple[str, str]]]]]:
    """Its address, and the headers of what it was sent."""
    came: list[list[tuple[str, str]]] = []

    def noted(_path: str, headers: Message) -> int:
        came.append([(name.lower(), value) for name, value in headers.items()])
        return 204

    with posting_endpoint(noted) as address:
        yield f"{address}/hook", came


class House:
    """A service with one route and one webhook."""

    def __init__(
        self,
        folder: Path,
        broker: dict[str, Any],
        sink: str,
        traces: dict[str, Any],
    ) -> None:
        self.topic = f"traced-{uuid4().hex[:8]}"
        settings = configuration(
            folder,
            installation=self.topic,
            brokers={"log": None, "main": broker},
            routes=[route(self.topic, broker="main")],
            subscriptions=[subscription("billing", sink, self.topic, broker="main")],
            timeouts={"drain": "2s"},
            telemetry={"traces": traces},
        )
        self.service = ServiceProcess(settings, folder)

    def send(self, headers: dict[str, str]) -> None:
        event = {"source": "/shop", "type": "com.example.order", "traceparent": OWN}
        assert self.service.send("e-1", b'{"price": 7}', headers, **event)[0] == 202


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


WAYS = [
    "embedded",
    pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.nightly]),
]


@pytest.fixture(params=WAYS)
def way(request) -> str:
    return request.param


@pytest.fixture
def broker(request, way, tmp_path) -> dict[str, Any]:
    if way != "kafka":
        return {"kind": "embedded", "path": str(tmp_path / "log"), "partitions": 1}
    servers = request.getfixturevalue("kafka")
    topics = {"create": True, "partitions": 1, "replication": 1}
    return {"kind": "kafka", "bootstrap_servers": servers, "topics": topics}


def test_one_event_is_one_trace_of_five_spans(way, broker, tmp_path, collector):
    """Each the child of the one before it, told by five parties' own words: the sender's span is made by
    OpenTelemetry itself."""
    sender = TracerProvider(resource=Resource({"service.name": "sender"}))
    sender.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(collector.url)))
    with webhook() as (url, came):
        traces = {"endpoint": collector.url, "headers": {"authorization": "Bearer c0llect"}}
        house = House(tmp_path, broker, url, traces)
        house.service.start()
        try:
            with sender.get_tracer("test").start_as_current_span("order", kind=SpanKind.PRODUCER):
                carrier = {"tracestate": "vendor=1"}
                TraceContextTextMapPropagator().inject(carrier)
                house.send(carrier)
            wait_until(lambda: bool(came), "delivery", WITHIN)
        finally:
            assert house.service.stop() == 0, "what waits is sent before the end"
            sender.shutdown()
    five = chain(collector.spans)
    assert len(collector.spans) == 5
    assert [(span.kind, span.service) for span in five] == [
        ("producer", "sender"),
        ("server", "skybridge"),
        ("producer", "skybridge"),
        ("consumer", "skybridge"),
        ("client", "skybridge"),
    ]
    assert len({span.trace for span in five}) == 1
    assert not any(span.failed for span in five)
    judge_attributes(five, house.topic, broker["kind"])
    headers = dict(came[0])
    assert [name for name, _ in came[0]].count("traceparent") == 1
    version, trace, parent, flags = headers["traceparent"].split("-")
    assert (version, trace, parent) == ("00", five[4].trace, five[4].id)
    assert int(flags, 16) & 1, "sampled"
    assert headers["ce-traceparent"] == OWN
    assert sorted(name for name in headers if name.startswith("ce-")) == [
        "ce-id", "ce-source", "ce-specversion", "ce-traceparent", "ce-type",
    ]  # fmt: skip
    assert {each.get("authorization") for each in collector.headers} == {None, "Bearer c0llect"}


def test_a_collector_that_is_away_costs_spans_and_no_events(tmp_path):
    """Nor the end of the service: it waits for the collector's time-out, and no longer."""
    (nobody,) = free_ports(1)
    log = {"kind": "embedded", "path": str(tmp_path / "log"), "partitions": 1}
    with webhook() as (url, came):
        traces = {"endpoint": f"http://127.0.0.1:{nobody}/v1/traces", "timeout": "1s"}
        house = House(tmp_path, log, url, traces)
        house.service.start()
        house.send({})
        wait_until(lambda: bool(came), "delivery", WITHIN)
        begun = time.monotonic()
        assert house.service.stop() == 0
    assert time.monotonic() - begun < 30
    assert "did not stop" not in house.service.log.read_text()


def judge_attributes(five: list[ReceivedSpan], topic: str, kind: str) -> None:
    """The semantic conventions of CloudEvents, messaging and HTTP; no data, no subject."""
    _, server, publish, process, client = five
    event = {
        "cloudevents.event_id": "e-1",
        "cloudevents.event_source": "/shop",
        "cloudevents.event_type": "com.example.order",
        "cloudevents.event_spec_version": "1.0",
    }
    system = {"embedded": "skybridge"}.get(kind, kind)
    assert server.attributes == {"http.route": "/events", "http.response.status_code": 202}
    assert (publish.name, process.name) == (f"send {topic}", f"process {topic}")
    assert publish.attributes == event | {
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.system": system,
        "messaging.destination.name": topic,
        "skybridge.route": "all",
    }
    partition = process.attributes.pop("messaging.destination.partition.id")
    assert partition.isdecimal()
    assert process.attributes == event | {
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.system": system,
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": f"skybridge.{topic}.billing",
        "skybridge.subscription": "billing",
        "http.response.status_code": 204,
    }
    port = client.attributes.pop("server.port")
    assert isinstance(port, int)
    assert client.attributes == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "http.response.status_code": 204,
    }


def chain(spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
    """From the one without a parent to the one without a child."""
    by_parent = {span.parent: span for span in spans}
    assert len(by_parent) == len(spans), "two spans have one parent"
    found = [by_parent[""]]
    while found[-1].id in by_parent:
        found.append(by_parent[found[-1].id])
    return found
