"""A sink with tracing: one span for each attempt at an event, and a child span for the request that
carries it.

The attempt's span continues the trace that came with the record. The outgoing request carries the
trace context of the request's span, if the subscription forwards ``traceparent``. A webhook gets it
as a header, a mirror as a record header. A request with several events starts a trace of its own
and links to the attempts (OpenTelemetry messaging conventions, batches).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from app.bindings.forwarding import with_foreign_header
from app.bindings.record import Decoded, Header
from app.delivery.request_batching import DocumentPiece
from app.interfaces import DeliveryRequest, Sink, SinkAnswer
from app.interfaces.sink import BatchSink
from app.model.message import Message
from app.model.outlet import RequestTemplates
from app.model.pull import Pull
from app.model.route import Exchange, Target
from app.model.subscription import Subscription
from app.telemetry.traces import (
    TRACEPARENT,
    Tracing,
    about_event,
    mark_failed,
    trace_headers,
    traceparent,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

REFUSED = 300


class TracedSink(BatchSink):
    """A sink that adds spans to another sink.

    Args:
        inner: the sink that sends.
        subscription: the subscription.
        traces: creates the spans.
        system: the kind of broker that the events come from.
        group: the consumer group at that broker.
        to_system: the kind of broker that a mirror publishes to; else "".
    """

    def __init__(
        self,
        inner: Sink,
        subscription: Subscription,
        traces: Tracing,
        system: str,
        group: str,
        to_system: str = "",
    ) -> None:
        self._inner = inner
        self._traces = traces
        self._about = {
            "messaging.system": system,
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.consumer.group.name": group,
            "skybridge.subscription": subscription.id,
        }
        self._joins = subscription.batch is not None
        self._request = _request_span(subscription, to_system)

    def pace(self) -> float:
        return self._inner.pace()

    def when_ready(self, ready: Callable[[], None]) -> None:
        self._inner.when_ready(ready)

    async def stop(self) -> None:
        await self._inner.stop()

    async def send(self, outgoing: DeliveryRequest) -> SinkAnswer:
        piece = self.piece(outgoing) if self._joins else None
        if piece is not None:
            return await self.send_together((piece,), outgoing.timeout)
        with _ending(self._begin(outgoing.decoded, outgoing.message)) as process:
            if outgoing.decoded is None:
                answer = await self._inner.send(outgoing)
            else:
                with _ending(self._traces.below(process, *self._request)) as request:
                    decoded = with_foreign_header(
                        outgoing.decoded, TRACEPARENT, traceparent(request)
                    )
                    answer = await self._inner.send(replace(outgoing, decoded=decoded))
                    _conclude(request, answer)
            _conclude(process, answer)
        return answer

    def piece(self, outgoing: DeliveryRequest) -> DocumentPiece | None:
        sink = cast("BatchSink", self._inner)
        return cast("DocumentPiece | None", sink.piece(outgoing))

    async def send_together(
        self,
        pieces: Sequence[DocumentPiece],
        within: float,
        with_foreign_header: Sequence[Header] = (),
    ) -> SinkAnswer:
        spans = [self._begin(piece.decoded, None) for piece in pieces]
        name, kind, about = self._request
        about = {**about, "messaging.batch.message_count": len(pieces)}
        contexts = [span.get_span_context() for span in spans]
        request = self._traces.linked(name, kind, contexts, about)
        carried = (*with_foreign_header, (TRACEPARENT, traceparent(request)))
        try:
            sink = cast("BatchSink", self._inner)
            answer = await sink.send_together(pieces, within, carried)
            for span in (*spans, request):
                _conclude(span, answer)
        finally:
            for span in (*spans, request):
                span.end()
        return answer

    def _begin(self, decoded: Decoded | None, message: Message | None) -> Span:
        about: dict[str, str | int] = dict(self._about)
        name = "process"
        if message is not None:
            name = f"process {message.partition.topic}"
            about["messaging.destination.name"] = message.partition.topic
            about["messaging.destination.partition.id"] = str(message.partition.number)
        if decoded is None:
            carried = {} if message is None else trace_headers(message.record.headers)
        else:
            carried = trace_headers(decoded.foreign)
            about |= about_event(decoded.event.attributes)
            about["cloudevents.event_spec_version"] = decoded.event.version
        return self._traces.after(name, "consumer", carried, about)


def _request_span(
    subscription: Subscription, to_system: str
) -> tuple[str, str, Mapping[str, str | int]]:
    """Return name, kind and attributes of the span of the outgoing request."""
    sink = subscription.sink
    if not isinstance(sink, Target | Exchange | Pull):
        url = urlsplit(subscription.webhook_url)
        port = url.port or (443 if url.scheme == "https" else 80)
        server: dict[str, str | int] = {"server.address": url.hostname or "", "server.port": port}
        request = subscription.request
        method = request.method if isinstance(request, RequestTemplates) else "POST"
        return method, "client", {"http.request.method": method, **server}
    place = subscription.sink_text if isinstance(sink, Pull) else sink.place
    kind = "template" if "{" in place else "name"
    return f"send {place}", "producer", {
        "messaging.system": to_system,
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        f"messaging.destination.{kind}": place,
    }  # fmt: skip


@contextmanager
def _ending(span: Span) -> Iterator[Span]:
    try:
        yield span
    finally:
        span.end()


def _conclude(span: Span, answer: SinkAnswer) -> None:
    if answer.status is not None:
        span.set_attribute("http.response.status_code", answer.status)
    if answer.fault or answer.status is None or answer.status >= REFUSED:
        mark_failed(span, answer.fault or str(answer.status or "unknown"))
