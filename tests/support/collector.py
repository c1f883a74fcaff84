"""A collector of OpenTelemetry on loopback, which takes OTLP over HTTP and parses the spans."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from threaded_http import QuietHandler, ThreadedServer


class ReceivedSpan(NamedTuple):
    """A received span. Ids are in hexadecimal digits, as in headers; each link is a trace id and a
    span id.
    """

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    failed: bool
    service: str
    links: list[tuple[str, str]]


class _Handler(QuietHandler):
    server: Collector

    def post(self) -> None:
        self.server.take(self.body(), {name.lower(): text for name, text in self.headers.items()})
        answer = ExportTraceServiceResponse().SerializeToString()
        self.answer(200, answer, "application/x-protobuf")


class Collector(ThreadedServer):
    """An OTLP server that records ``spans`` in order of arrival and the ``headers`` of each
    request.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.spans: list[ReceivedSpan] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"{self.address}/v1/traces"

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        if headers.get("content-encoding") == "gzip":
            body = zlib.decompress(body, wbits=31)
        request = ExportTraceServiceRequest.FromString(body)
        self.headers.append(headers)
        for resource in request.resource_spans:
            service = _plain(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_seen(span, service) for span in scope.spans]


def _seen(span: Span, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _plain(span.attributes),
        span.status.code == 2,
        service,
        [(each.trace_id.hex(), each.span_id.hex()) for each in span.links],
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
