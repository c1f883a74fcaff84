"""Spans of events, by OpenTelemetry (the extra ``otel``, ADR 0025).

Set up once a process, as logging is; who has events to tell of asks ``traces()`` when it is built, and does
nothing about spans where that is None. Exporting has a thread of its own: a collector that is away costs
spans, never events.
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
    """``endpoint`` of OTLP over HTTP; ``sample``: share of the traces that begin here; ``timeout``: seconds."""

    endpoint: str
    sample: float = 1.0
    service: str = "skybridge"
    installation: str = "skybridge"
    headers: Mapping[str, str] = {}
    timeout: float = 5.0


class _Process:
    """Of this process: what it was told, and what was made of it."""

    settings: TraceSettings | None = None
    made: Tracing | None = None


def set_up_traces(settings: TraceSettings | None) -> None:
    """Nothing is made before somebody asks, so that a process may still fork."""
    _Process.settings, _Process.made = settings, None


def traces() -> Tracing | None:
    if _Process.made is None and _Process.settings is not None:
        _Process.made = Tracing(_provider(_Process.settings))
    return _Process.made


def close_traces() -> None:
    """Sends what waits, for at most the time-out of the collector."""
    if _Process.made is not None:
        _Process.made.close()


class Tracing:
    """Begins spans. The caller ends each one."""

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
        """A span whose parent came with a message: ``carried`` has its ``traceparent`` and ``tracestate``.
        What cannot be read is as if nothing had come (W3C Trace Context 4.3)."""
        return self._begin(name, kind, self._propagator.extract(carried), about)

    def below(self, parent: Span, name: str, kind: str, about: Attributes) -> Span:
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
        """A span of several messages, which is linked with one of each and a child of none; ``carried``: of
        the caller; ``began``: seconds since the epoch, None for now."""
        from opentelemetry.trace import Link  # noqa: PLC0415

        links = [Link(each) for each in others if each.is_valid]
        context = self._propagator.extract(carried)
        start = None if began is None else int(began * 1e9)
        return self._tracer.start_span(
            name, context, self._kinds[kind], about, links, start_time=start
        )

    def carried(self, headers: Mapping[str, str]) -> SpanContext:
        """What came with a message, to be linked with; not valid where that cannot be read."""
        from opentelemetry.trace import get_current_span  # noqa: PLC0415

        return get_current_span(self._propagator.extract(headers)).get_span_context()

    def close(self) -> None:
        self._provider.shutdown()

    def _begin(self, name: str, kind: str, context: Context, about: Attributes) -> Span:
        return self._tracer.start_span(name, context, self._kinds[kind], about)


def traceparent(span: Span) -> bytes:
    """As the header has it; also of a trace that is not sampled, so that nobody behind us begins another."""
    context = span.get_span_context()
    return b"00-%032x-%016x-%02x" % (context.trace_id, context.span_id, context.trace_flags)


def messaging_system(kind: str) -> str:
    """``messaging.system`` of a kind of broker. The embedded log has no name there but its own."""
    return "skybridge" if kind == "embedded" else kind


def carried_by(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """What stands beside an event in its record, as ``Tracing`` takes it."""
    found: dict[str, str] = {}
    for name, value in headers:
        if len(name) in _LENGTHS and value is not None and name.lower() in _CARRIED:
            found[name.lower()] = value.decode("latin-1")
    return found


def failed(span: Span, code: str) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def about_event(attributes: Mapping[str, str]) -> dict[str, str | int]:
    """The semantic conventions of CloudEvents. No subject: it may name a person."""
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
    from app.telemetry.sampling import AsItsLinks  # noqa: PLC0415

    resource = Resource.create(
        {
            "service.name": settings.service,
            "service.version": __version__,
            "skybridge.installation": settings.installation,
        }
    )
    provider = Provider(
        sampler=ParentBased(AsItsLinks(settings.sample)), resource=resource
    )  # ends with the process, and sends what waits then
    exporter = exporter_of(settings.endpoint, settings.headers, settings.timeout)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1_000))
    return provider
