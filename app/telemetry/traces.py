"""Spans of events by OpenTelemetry (the extra ``otel``, ADR 0025).

Traces are set up once for each process, like logging. A component calls ``traces()`` when it is
built, and creates no spans if the result is None. Spans are exported on a separate thread, so an
unavailable collector costs spans, never events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from app import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanContext, SpanKind, Tracer

    Attributes = Mapping[str, str | int]

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_CARRIED = (TRACEPARENT, TRACESTATE)
_LENGTHS = tuple(map(len, _CARRIED))
NOTHING: Mapping[str, str] = {}


class TraceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of traces.

    Attributes:
        endpoint: The address of the collector, for OTLP over HTTP.
        sample: The share of the traces that begin here and are recorded.
        service: The name of the service.
        installation: The name of the installation.
        headers: Headers of every request to the collector.
        timeout: The time limit of a request in seconds.
    """

    endpoint: str
    sample: float = 1.0
    service: str = "skybridge"
    installation: str = "skybridge"
    headers: Mapping[str, str] = {}
    timeout: float = 5.0


class _Process:
    """The trace settings of this process, and the tracing object built from them."""

    settings: TraceSettings | None = None
    made: Tracing | None = None


def set_up_traces(settings: TraceSettings | None) -> None:
    """Set the trace settings of the process; None turns traces off.

    Nothing is built before the first call of ``traces``, so that the process may still fork.
    """
    _Process.settings, _Process.made = settings, None


def traces() -> Tracing | None:
    """Return the tracing of this process; None if traces are off."""
    if _Process.made is None and _Process.settings is not None:
        _Process.made = Tracing(_provider(_Process.settings))
    return _Process.made


def close_traces() -> None:
    """Send the waiting spans, for at most the time-out of the collector."""
    if _Process.made is not None:
        _Process.made.close()


class Tracing:
    """A factory of spans. The caller ends each span."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind as Kind  # noqa: PLC0415 - the extra
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("skybridge", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._kinds: Mapping[str, SpanKind] = {
            "server": Kind.SERVER, "producer": Kind.PRODUCER, "consumer": Kind.CONSUMER,
            "client": Kind.CLIENT,
        }  # fmt: skip

    def after(self, name: str, kind: str, carried: Mapping[str, str], about: Attributes) -> Span:
        """Start a span whose parent was sent with a message.

        An unreadable parent is ignored (W3C Trace Context 4.3).

        Args:
            name: The name of the span.
            kind: The kind: server, producer, consumer or client.
            carried: The ``traceparent`` and ``tracestate`` of the message.
            about: The attributes of the span.
        """
        return self._begin(name, kind, self._propagator.extract(carried), about)

    def below(self, parent: Span, name: str, kind: str, about: Attributes) -> Span:
        """Start a span whose parent is a span of this process."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        return self._begin(name, kind, set_span_in_context(parent), about)

    def linked(
        self,
        name: str,
        kind: str,
        others: Sequence[SpanContext],
        about: Attributes,
        carried: Mapping[str, str] = NOTHING,
        began: float | None = None,
    ) -> Span:
        """Start a span of several messages, which links to a span of each message.

        Args:
            name: The name of the span.
            kind: The kind: server, producer, consumer or client.
            others: The spans to link to; invalid ones are left out.
            about: The attributes of the span.
            carried: The ``traceparent`` and ``tracestate`` of the caller, whose span becomes the
                parent.
            began: The start in seconds since the epoch; None for now.
        """
        from opentelemetry.trace import Link  # noqa: PLC0415

        links = [Link(each) for each in others if each.is_valid]
        context = self._propagator.extract(carried)
        start = None if began is None else int(began * 1e9)
        return self._tracer.start_span(
            name, context, self._kinds[kind], about, links, start_time=start
        )

    def carried(self, headers: Mapping[str, str]) -> SpanContext:
        """Return the span that was sent with a message, for links; an invalid one if it cannot be
        read.
        """
        from opentelemetry.trace import get_current_span  # noqa: PLC0415

        return get_current_span(self._propagator.extract(headers)).get_span_context()

    def close(self) -> None:
        self._provider.shutdown()

    def _begin(self, name: str, kind: str, context: Context, about: Attributes) -> Span:
        return self._tracer.start_span(name, context, self._kinds[kind], about)


def traceparent(span: Span) -> bytes:
    """Return the value of the header ``traceparent`` for a span.

    The header is needed for a trace that is not sampled too, so that the receiver does not start
    another trace.
    """
    context = span.get_span_context()
    return b"00-%032x-%016x-%02x" % (context.trace_id, context.span_id, context.trace_flags)


def messaging_system(kind: str) -> str:
    """Return ``messaging.system`` for a kind of broker. The conventions have no name for the
    embedded log.
    """
    return "skybridge" if kind == "embedded" else kind


def trace_headers(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """Return the ``traceparent`` and ``tracestate`` among the headers of a record, in
    lower case.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if len(name) in _LENGTHS and value is not None and name.lower() in _CARRIED:
            found[name.lower()] = value.decode("latin-1")
    return found


def mark_failed(span: Span, code: str) -> None:
    """Mark a span as failed with this error code."""
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def about_event(attributes: Mapping[str, str]) -> dict[str, str | int]:
    """Return the span attributes of an event by the CloudEvents conventions. The subject is left
    out, because it may name a person."""
    names = {
        "id": "cloudevents.event_id",
        "source": "cloudevents.event_source",
        "type": "cloudevents.event_type",
    }
    found: dict[str, str | int] = {
        there: attributes[here] for here, there in names.items() if here in attributes
    }
    return found


def _provider(settings: TraceSettings) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider as Provider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ParentBased  # noqa: PLC0415

    from app.telemetry.otlp import exporter_of  # noqa: PLC0415 - the extra
    from app.telemetry.sampling import LinkSampler  # noqa: PLC0415

    resource = Resource.create(
        {
            "service.name": settings.service,
            "service.version": __version__,
            "skybridge.installation": settings.installation,
        }
    )
    # At the end of the process the provider sends the waiting spans.
    provider = Provider(sampler=ParentBased(LinkSampler(settings.sample)), resource=resource)
    exporter = exporter_of(settings.endpoint, settings.headers, settings.timeout)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1_000))
    return provider
