"""A collector of OpenTelemetry on loopback: it takes OTLP over HTTP, and reads it with its own messages."""

from __future__ import annotations

import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Seen(NamedTuple):
    """One span, with ids in hexadecimal digits as headers have them. ``links``: trace and span of each."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    failed: bool
    service: str
    links: list[tuple[str, str]]


class Collector:
    """``spans`` in the order they came; ``headers``: of each request."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(body, {name.lower(): value for name, value in self.headers.items()})
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        if headers.get("content-encoding") == "gzip":
            body = zlib.decompress(body, wbits=31)
        request = ExportTraceServiceRequest.FromString(body)
        self.headers.append(headers)
        for resource in request.resource_spans:
            service = _plain(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_seen(span, service) for span in scope.spans]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _seen(span: Span, service: str) -> Seen:
    return Seen(
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
