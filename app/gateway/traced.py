"""The publisher with spans: one of each request, and below it one of each event that is published.

The span of an event goes with its record, as the ``traceparent`` beside the event: in the place of the
sender's, which is the parent of the request's. What the event itself carries (``ce-traceparent``) is the
sender's own, and stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.bindings.forwarding import beside
from app.bindings.record import Decoded
from app.errors import SenderError
from app.gateway.answers import Answer
from app.gateway.conclude import Publications
from app.gateway.publish import Publisher
from app.gateway.request import Request
from app.gateway.resource import Done
from app.routing.publications import Publication
from app.telemetry.traces import TRACEPARENT, TRACESTATE, Tracing, about_event, failed, traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SERVER_FAULT = 500


class TracedRequest:
    """One request on its way: its own span, and those of its events in their order."""

    def __init__(self, traces: Tracing, request: Request, systems: Mapping[str, str]) -> None:
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
        """Begins the span of the next event. The event with that span beside it."""
        event = decoded.event
        about = about_event(event.attributes)
        about |= {
            "cloudevents.event_spec_version": event.version,
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
        }
        span = self._traces.below(self._span, "send", "producer", about)
        self._events.append(span)
        return beside(decoded, TRACEPARENT, traceparent(span))

    def goes(self, index: int, publication: Publication) -> None:
        span = self._events[index]
        broker = publication.broker
        span.update_name(f"send {publication.topic}")
        span.set_attribute("messaging.system", self._systems.get(broker, broker))
        span.set_attribute("messaging.destination.name", publication.topic)
        span.set_attribute("skybridge.route", publication.route)

    def ended(self, answer: Answer) -> Answer:
        """A part of a request that could not be stored is told by its answer, not by its span."""
        self._span.set_attribute("http.response.status_code", answer.status)
        if answer.status >= SERVER_FAULT:
            for span in (*self._events, self._span):
                failed(span, str(answer.status))
        self._end()
        return answer

    def refused(self, status: int, code: str) -> None:
        """Nothing of it was published."""
        self._span.set_attribute("http.response.status_code", status)
        for span in (*self._events, self._span):
            failed(span, code)
        self._end()

    def _end(self) -> None:
        for span in (*self._events, self._span):
            span.end()


class TracedPublisher(Publisher):
    """``systems``: the kind of each broker, by its name."""

    def __init__(
        self, *args: Any, traces: Tracing, systems: Mapping[str, str], **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._traces = traces
        self._systems = systems
        self._at_hand: TracedRequest | None = None

    def publish(self, request: Request, done: Done) -> Answer | None:
        traced = self._at_hand = TracedRequest(self._traces, request, self._systems)
        try:
            answer = super().publish(request, lambda later: done(traced.ended(later)))
        except SenderError as error:
            traced.refused(error.status, error.code)
            raise
        except Exception as error:
            traced.refused(SERVER_FAULT, type(error).__name__)
            raise
        finally:
            self._at_hand = None
        return answer if answer is None else traced.ended(answer)

    def _decode(self, request: Request) -> Sequence[Decoded]:
        assert self._at_hand is not None  # noqa: S101 - nothing in between awaits
        return [self._at_hand.event(each) for each in super()._decode(request)]

    def _submit_one(self, publication: Publication, wants: bool, done: Done) -> Answer | None:
        self._goes([(0, publication)])
        return super()._submit_one(publication, wants, done)

    def _submit_many(
        self, publications: Publications, request: Request, done: Done
    ) -> Answer | None:
        self._goes(publications)
        return super()._submit_many(publications, request, done)

    def _goes(self, publications: Sequence[tuple[int, Publication]]) -> None:
        assert self._at_hand is not None  # noqa: S101 - as above
        for index, publication in publications:
            self._at_hand.goes(index, publication)
