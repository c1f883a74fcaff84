"""The sampling of spans that have links and no parent. The span of a request with several events is
such a span."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision as Sampling
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes


class LinkSampler(Sampler):
    """A sampler that records a span with links if a linked span is recorded, and a ``share`` of all
    others.
    """

    def __init__(self, share: float) -> None:
        self._others = TraceIdRatioBased(share)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        if not links:
            return self._others.should_sample(
                parent_context, trace_id, name, kind, attributes, links, trace_state
            )
        sampled = any(each.context.trace_flags.sampled for each in links)
        return SamplingResult(Sampling.RECORD_AND_SAMPLE if sampled else Sampling.DROP, attributes)

    def get_description(self) -> str:
        return f"AsItsLinks{{{self._others.get_description()}}}"
