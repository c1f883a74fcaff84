"""A sink with spans: one of each attempt at an event, and below it one of the request that carries it.

The first is the child of what came beside the event in its record, whoever wrote it there. A webhook gets the
``traceparent`` of its request, where its subscription forwards that header at all; a topic gets the record as
it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from app.bindings.forwarding import beside
from app.bindings.record import Decoded, Header
from app.delivery.gathering import Piece
from app.interfaces import Outgoing, Sink, SinkAnswer
from app.interfaces.sink import JoiningSink
from app.model.message import Message
from app.model.subscription import Subscription
from app.telemetry.traces import TRACEPARENT, TRACESTATE, Traces, about_event, failed, traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Span

REFUSED = 300


class TracedSink:
    """Fills ``interfaces.Sink`` around another. ``system``: the kind of the broker that events come from;
    ``group`` in it."""

    def __init__(
        self, inner: Sink, subscription: Subscription, traces: Traces, system: str, group: str
    ) -> None:
        self._inner = inner
        self._subscription = subscription
        self._traces = traces
        self._about = {
            "messaging.system": system,
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.consumer.group.name": group,
            "skybridge.subscription": subscription.id,
        }
        sink = subscription.sink
        url = urlsplit(sink) if isinstance(sink, str) else None
        self._to: dict[str, str | int] | None = None if url is None else {
            "http.request.method": "POST",
            "server.address": url.hostname or "",
            "server.port": url.port or (443 if url.scheme == "https" else 80),
        }  # fmt: skip

    def pace(self) -> float:
        return self._inner.pace()

    async def stop(self) -> None:
        await self._inner.stop()

    async def send(self, outgoing: Outgoing) -> SinkAnswer:
        with self._process(outgoing.decoded, outgoing.message) as process:
            if self._to is None or outgoing.decoded is None:
                answer = await self._inner.send(outgoing)
            else:
                with _ended(self._traces.below(process, "POST", "client", self._to)) as request:
                    decoded = beside(outgoing.decoded, TRACEPARENT, traceparent(request))
                    answer = await self._inner.send(replace(outgoing, decoded=decoded))
                    _conclude(request, answer)
            _conclude(process, answer)
        return answer

    def piece(self, outgoing: Outgoing) -> Piece | None:
        return cast("JoiningSink", self._inner).piece(outgoing)

    async def send_together(self, pieces: Sequence[Piece], within: float) -> SinkAnswer:
        """One request, which is part of as many traces as it has events: it carries none of them."""
        spans = [self._begin(piece.decoded, None) for piece in pieces]
        try:
            answer = await cast("JoiningSink", self._inner).send_together(pieces, within)
            for span in spans:
                span.set_attribute("messaging.batch.message_count", len(pieces))
                _conclude(span, answer)
        finally:
            for span in spans:
                span.end()
        return answer

    @contextmanager
    def _process(self, decoded: Decoded | None, message: Message) -> Iterator[Span]:
        with _ended(self._begin(decoded, message)) as span:
            yield span

    def _begin(self, decoded: Decoded | None, message: Message | None) -> Span:
        about: dict[str, str | int] = dict(self._about)
        name = "process"
        if message is not None:
            name = f"process {message.partition.topic}"
            about["messaging.destination.name"] = message.partition.topic
            about["messaging.destination.partition.id"] = str(message.partition.number)
        if decoded is None:
            carried = {} if message is None else _carried(message.record.headers)
        else:
            carried = _carried(decoded.foreign)
            about |= about_event(decoded.event.attributes)
            about["cloudevents.event_spec_version"] = decoded.event.version
        return self._traces.after(name, "consumer", carried, about)


def _carried(headers: Sequence[Header]) -> dict[str, str]:
    return {
        name.lower(): value.decode("latin-1")
        for name, value in headers
        if value is not None and name.lower() in (TRACEPARENT, TRACESTATE)
    }


@contextmanager
def _ended(span: Span) -> Iterator[Span]:
    try:
        yield span
    finally:
        span.end()


def _conclude(span: Span, answer: SinkAnswer) -> None:
    if answer.status is not None:
        span.set_attribute("http.response.status_code", answer.status)
    if answer.fault or answer.status is None or answer.status >= REFUSED:
        failed(span, answer.fault or str(answer.status or "unknown"))
