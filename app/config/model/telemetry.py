"""The settings of telemetry apart from metrics and the log: traces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from app.model.duration import Duration
from app.model.route import Strict


class Traces(Strict):
    """Traces of events as OpenTelemetry spans (the extra ``otel``)."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^/]")] = Field(
        description="the collector, OTLP over HTTP, path included: http://collector:4318/v1/traces"
    )
    sample: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0,
        description="sampled share of the traces that begin here; the sender decides for its "
        "own traces",
    )
    service: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        "skybridge", description="service.name of the spans"
    )
    headers: dict[str, SecretStr] = Field(
        {}, description='headers of each request to the collector; secrets best as "${env:NAME}"'
    )
    timeout: Annotated[Duration, Field(gt=0)] = Field(
        5.0,
        description="for the collector's answer; spans that it does not accept in time are dropped",
    )


class Telemetry(Strict):
    """Data for a collector. Metrics are at /metrics, and the log has its own section."""

    traces: Traces | None = Field(None, description="spans to a collector; without it, none")
