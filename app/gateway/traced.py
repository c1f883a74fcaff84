"""A publisher with tracing: one span for each request, and a child span for each event that is
published.

The record gets the trace context of the event's span as the header ``traceparent``. This replaces the
``traceparent`` of the sender, which is the parent of the request's span. The event's own attribute
``ce-traceparent`` belongs to the sender, and is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.bindings.forwarding import with_foreign_header
from app.bindings.record import Decoded
from app.errors import SenderError
from app.gateway.answers import HttpAnswer
from app.gateway.conclude import Publications
from app.gateway.publish import Publisher
from app.gateway.request import EventRequest
from app.gateway.resource import Done
from app.routing.publications import Publication
from app.telemetry.traces import (
    TRACEPARENT,
    TRACESTATE,
    Tracing,
    about_event,
    mark_failed,
    traceparent,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SERVER_FAULT = 500


class TracedRequest:
    """The spans of one request: the span of the request itself, and those of its events in order."""

    def __init__(self, traces: Tracing, request: EventRequest, systems: Mapping[str, str]) -> None:
        carried = {
            name: value.decode("latin-1")
            for name in (TRACEPARENT, TRACESTATE)
            if (value := request.named.get(name.encode())) is not None
        }
        path = "/events" if request.route is None else "/events/{route}"
        if request.event is not None:
            path = "/in/{name}"
        self._traces = traces
        self._systems = systems
        self._span = traces.after(path, "server", carried, {"http.route": path})
        self._events: list[Span] = []

    def event(self, decoded: Decoded) -> Decoded:
        """Begin the span of the next event. Return the event with the trace context of that
        span.
        """
        event = decoded.event
        about = about_event(event.attributes)
        about |= {
            "cloudevents.event_spec_version": event.version,
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
        }
        span = self._traces.below(self._span, "send", "producer", about)
        self._events.append(span)
        return with_foreign_header(decoded, TRACEPARENT, traceparent(span))

    def set_destination(self, index: int, publication: Publication) -> None:
        """Set the topic and the route in the span of an event."""
        span = self._events[index]
        broker = publication.broker
        span.update_name(f"send {publication.topic}")
        span.set_attribute("messaging.system", self._systems.get(broker, broker))
        span.set_attribute("messaging.destination.name", publication.topic)
        span.set_attribute("skybridge.route", publication.route)

    def finish(self, answer: HttpAnswer) -> HttpAnswer:
        """End all spans of the request and return the answer. With a status of 500 or more, all spans are
        marked as failed, including those of events that were stored.
        """
        self._span.set_attribute("http.response.status_code", answer.status)
        if answer.status >= SERVER_FAULT:
            for span in (*self._events, self._span):
                mark_failed(span, str(answer.status))
        self._end()
        return answer

    def fail(self, status: int, code: str) -> None:
        """End the spans as failed, because no event of the request was published."""
        self._span.set_attribute("http.response.status_code", status)
        for span in (*self._events, self._span):
            mark_failed(span, code)
        self._end()

    def _end(self) -> None:
        for span in (*self._events, self._span):
            span.end()


class TracedPublisher(Publisher):
    """A publisher with tracing. ``systems`` has the kind of each broker by its name."""

    def __init__(
        self, *args: Any, traces: Tracing, systems: Mapping[str, str], **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._traces = traces
        self._systems = systems
        self._current: TracedRequest | None = None

    def publish(self, request: EventRequest, done: Done) -> HttpAnswer | None:
        traced = self._current = TracedRequest(self._traces, request, self._systems)
        try:
            answer = super().publish(request, lambda later: done(traced.finish(later)))
        except SenderError as error:
            traced.fail(error.status, error.code)
            raise
        except Exception as error:
            traced.fail(SERVER_FAULT, type(error).__name__)
            raise
        finally:
            self._current = None
        return answer if answer is None else traced.finish(answer)

    def _plan_row(self, *_: object) -> None:
        """Return None, because each event gets a span and a header of its own."""

    def _decode(self, request: EventRequest) -> Sequence[Decoded]:
        assert self._current is not None  # noqa: S101 - set by publish, which does not await
        return [self._current.event(each) for each in super()._decode(request)]

    def _submit_one(self, publication: Publication, wants: bool, done: Done) -> HttpAnswer | None:
        self._set_destinations([(0, publication)])
        return super()._submit_one(publication, wants, done)

    def _submit_many(
        self, publications: Publications, request: EventRequest, done: Done
    ) -> HttpAnswer | None:
        self._set_destinations(publications)
        return super()._submit_many(publications, request, done)

    def _set_destinations(self, publications: Sequence[tuple[int, Publication]]) -> None:
        assert self._current is not None  # noqa: S101 - set by publish, which does not await
        for index, publication in publications:
            self._current.set_destination(index, publication)
