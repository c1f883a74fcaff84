"""Which traces are told of, where a span has no parent but links: of a request of several events."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision as Sampling
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes


class AsItsLinks(Sampler):
    """A span that is linked is told of when one that it is linked with is; of others a ``share``."""

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
        told = any(each.context.trace_flags.sampled for each in links)
        return SamplingResult(Sampling.RECORD_AND_SAMPLE if told else Sampling.DROP, attributes)

    def get_description(self) -> str:
        return f"AsItsLinks{{{self._others.get_description()}}}"
