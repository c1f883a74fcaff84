"""A span of several messages is told of when one of them is; nobody begins half a trace."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased

from app.telemetry.sampling import LinkSampler
from app.telemetry.traces import Tracing, traceparent

TOLD, NOT_TOLD = (f"00-{'1' * 32}-{'2' * 16}-{flag}" for flag in ("01", "00"))


def linked(share: float, *parents: str, asked: str = "") -> tuple[int, int]:
    """How many spans are told, and whether what goes out says so."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ParentBased(LinkSampler(share)))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Tracing(provider)
    events = [traces.carried({"traceparent": each}) for each in parents]
    span = traces.linked("POST", "client", events, {}, {"traceparent": asked})
    span.end()
    return len(exporter.get_finished_spans()), int(traceparent(span)[-2:], 16) & 1


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize(
    ("parents", "told"),
    [((TOLD,), 1), ((NOT_TOLD,), 0), ((NOT_TOLD, TOLD), 1), ((NOT_TOLD, NOT_TOLD), 0)],
)
def test_the_events_decide_whatever_the_share_is(share, parents, told):
    assert linked(share, *parents) == (told, told)


@pytest.mark.parametrize("share", [0, 1])
def test_the_share_decides_where_no_event_has_a_trace(share):
    """What cannot be read is as if nothing had come."""
    assert linked(share, "", "rubbish") == (share, share)


def test_who_asks_with_a_trace_decides_about_it():
    """A consumer that fetches: its own trace, told or not."""
    assert linked(1.0, TOLD, asked=NOT_TOLD) == (0, 0)
    assert linked(0.0, NOT_TOLD, asked=TOLD) == (1, 1)
