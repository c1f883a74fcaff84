"""Spans of requests and attempts, and what goes with the record (issue 9, point 5)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler

from app.bindings.record import Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.config.model.config import Config
from app.errors import BrokerUnavailable, SenderError, SetupError
from app.features.tracing import begin_traces
from app.gateway.answers import HttpAnswer
from app.gateway.publish import PublishPolicy
from app.gateway.request import EventRequest
from app.gateway.resource import Done
from app.gateway.traced import TracedPublisher
from app.interfaces import DeliveryRequest, SinkAnswer
from app.model.log_name import LogName
from app.model.message import Message, Partition
from app.model.route import Route
from app.model.subscription import Subscription
from app.routing.plan import Router
from app.sinks.traced import TracedSink
from app.telemetry import Counters
from app.telemetry.traces import Tracing, set_up_traces, traces
from scripted_log import ScriptedLog

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OWN = "00-11111111111111111111111111111111-2222222222222222-01"


class Bench:
    """``records``: what the log was given."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, kind: str = "embedded") -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.traces = Tracing(provider)
        self.log = ScriptedLog("a")
        self.log.at_once = True
        route = Route.model_validate({"name": "all", "to": {"broker": "a", "topic": "t"}})
        self.publisher = TracedPublisher(
            PublishPolicy(
                router=Router([route], kinds={"a": kind}),
                forward=frozenset({b"traceparent", b"tracestate"}),
            ),
            {LogName("a"): self.log},
            Counters(),
            traces=self.traces,
            systems={"a": kind},
        )

    def publish(
        self, *headers: tuple[str, str], kind: str = "t", done: Done = lambda _: None
    ) -> Any:
        fields = [
            ("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", kind),
            ("ce-traceparent", OWN), ("content-type", "application/json"), *headers,
        ]  # fmt: skip
        encoded = [(name.encode(), value.encode()) for name, value in fields]
        return self.publisher.publish(EventRequest(encoded, dict(encoded), b"{}"), done)

    @property
    def records(self) -> list[Record]:
        return [record for each in self.log.submits for record in each.records]

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())


@pytest.mark.parametrize("kind", ["embedded", "kafka", "rabbitmq", "pulsar"])
async def test_our_span_travels_beside_the_event_and_never_in_it(kind):
    """I3: it takes the place of the sender's header, once, and the event has its own attributes alone."""
    bench = Bench(kind=kind)
    assert bench.publish(("traceparent", PARENT), ("tracestate", "v=1")).status == 202
    publish = bench.spans[0]
    (record,) = bench.records
    read = BINDINGS[kind].decode(record)
    assert read.event.attributes == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "traceparent": OWN,
        "datacontenttype": "application/json",
    }  # fmt: skip
    beside = [value for name, value in read.foreign if name.lower() == "traceparent"]
    trace = PARENT.split("-")[1]
    assert beside == [f"00-{trace}-{publish.context.span_id:016x}-01".encode()]
    assert [value for name, value in read.foreign if name.lower() == "tracestate"] == [b"v=1"]
    again = BINDINGS[kind].decode(BINDINGS[kind].encode(read, EncodeOptions(), None))
    assert again.foreign == read.foreign


async def test_a_trace_that_is_not_sampled_stays_so_behind_us():
    """Else the worker would begin another one: half a trace."""
    bench = Bench(ParentBased(ALWAYS_OFF))
    bench.publish()
    assert bench.spans == []
    (record,) = bench.records
    (header,) = [value for name, value in record.headers if name == "traceparent"]
    assert int(header.split(b"-")[3], 16) & 1 == 0


@pytest.mark.parametrize("header", ["", "garbage", "00-0-0-0", "ff-" + PARENT[3:]])
async def test_a_header_that_cannot_be_read_is_as_none(header):
    """W3C Trace Context 4.3: a new trace, and no refusal."""
    bench = Bench()
    assert bench.publish(("traceparent", header)).status == 202
    assert bench.spans[-1].parent is None


async def test_a_refused_request_has_one_failed_span():
    """Its code says why; what was sent is in no attribute."""
    bench = Bench()
    with pytest.raises(SenderError):
        bench.publish(kind="")
    (span,) = bench.spans
    assert span.status.status_code.name == "ERROR"
    assert span.attributes == {
        "http.route": "/events", "http.response.status_code": 400, "error.type": "invalid-event",
    }  # fmt: skip


async def test_an_event_that_is_not_stored_fails_with_its_request():
    """503: the sender is told, and so is who looks at the trace."""
    bench = Bench()
    bench.log.at_once = False
    answers: list[HttpAnswer] = []
    bench.publish(done=answers.append)
    bench.log.settle(0, BrokerUnavailable("away"))
    await asyncio.sleep(0)
    assert [answer.status for answer in answers] == [503]
    assert [span.status.status_code.name for span in bench.spans] == ["ERROR", "ERROR"]


class Target:
    """``seen``: what it was given."""

    def __init__(self, answer: SinkAnswer) -> None:
        self.answer = answer
        self.seen: list[DeliveryRequest] = []

    async def send(self, outgoing: DeliveryRequest) -> SinkAnswer:
        self.seen.append(outgoing)
        return self.answer


@pytest.mark.parametrize(
    "sink", ["https://u.example/hook?key=s3cret", {"broker": "a", "topic": "u"}]
)
async def test_an_attempt_that_fails_says_why_and_tells_no_secret(sink):
    """A URL may hold a credential: host and port alone are told. The record stays as it is."""
    bench = Bench()
    bench.publish(("traceparent", PARENT))
    (record,) = bench.records
    bench.exporter.clear()
    subscription = Subscription.model_validate(
        {"id": "s", "source": {"broker": "a", "topics": ["t"]}, "sink": sink}
    )
    target = Target(SinkAnswer(None, "timeout"))
    traced: Any = TracedSink(target, subscription, bench.traces, "kafka", "group")  # type: ignore[arg-type]
    message = Message(record, Partition("t", 3), "7", 7, 1, 1)
    await traced.send(DeliveryRequest(message, BINDINGS["kafka"].decode(record), 1.0))
    assert [span.attributes["error.type"] for span in bench.spans] == ["timeout"] * len(bench.spans)
    assert "s3cret" not in str([span.to_json() for span in bench.spans])
    way_out = "CLIENT" if isinstance(sink, str) else "PRODUCER"
    assert [span.kind.name for span in bench.spans] == [way_out, "CONSUMER"]
    (given,) = target.seen
    assert given.message.record is record
    plain = BINDINGS["kafka"].decode(record)
    assert given.decoded.event == plain.event
    assert dict(given.decoded.foreign)["traceparent"] != dict(plain.foreign)["traceparent"]


def test_without_the_extra_the_setting_is_refused_with_its_cure(monkeypatch):
    """And nothing is made of it."""
    config = Config.model_validate(
        {
            "version": 1,
            "brokers": {"log": {"kind": "embedded", "path": "log"}},
            "telemetry": {"traces": {"endpoint": "http://127.0.0.1:4318/v1/traces"}},
        }
    )
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(SetupError) as caught:
        begin_traces(config)
    assert caught.value.setting == "telemetry.traces"
    assert "the extra otel" in caught.value.cure
    set_up_traces(None)
    assert traces() is None


def test_without_the_setting_the_library_is_not_even_loaded():
    """It costs nothing: the parts of a service are built without it."""
    code = "import sys, app.runtime.service; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
