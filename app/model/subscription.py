"""A subscription as a user writes it, in the file and over the API alike."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from app.model.duration import Duration, Size
from app.model.route import AttributeName, Filter, Name, Strict, Target

DEFAULT_SCHEDULE = ("100ms", "500ms", "2s", "10s", "1m", "5m", "30m", "2h", "5h", "10h", "24h")


class Source(Strict):
    """Where the messages come from."""

    broker: Name
    topics: Annotated[tuple[str, ...], Field(min_length=1)]


class Start(Strict):
    """``{time: 2026-01-01T00:00:00Z}`` or ``{position: {0: "123"}}``."""

    time: str | None = None
    position: dict[int, str] | None = None

    @model_validator(mode="after")
    def one_way(self) -> Start:
        if (self.time is None) == (self.position is None):
            raise ValueError("start takes earliest, latest, {time: ...} or {position: {...}}")
        return self


class Retry(Strict):
    """``schedule``: the waits between attempts, each drawn anew between 0 and its value (full jitter).

    ``hold``            how many of them hold the lane of the key.
    ``retry_after_max`` the longest Retry-After that is honoured.
    ``statuses``        which answers are tried again; 5xx, time-outs and network faults always are.
    """

    schedule: Annotated[tuple[Duration, ...], Field(min_length=1)] = Field(
        DEFAULT_SCHEDULE, validate_default=True
    )
    hold: Annotated[int, Field(ge=0)] = 3
    retry_after_max: Duration = Field("24h", validate_default=True)
    statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = (404, 408, 409, 425, 429)


class Subscription(Strict):
    """Messages of a log, on to a webhook."""

    id: Name
    source: Source
    start: Literal["earliest", "latest"] | Start = "latest"
    filters: tuple[Filter, ...] = ()
    sink: Annotated[str, Field(pattern=r"^https?://")]
    content_mode: Literal["binary", "structured"] = "binary"
    ordering: Literal["per_key", "none"] = "per_key"
    order_by: AttributeName | None = None
    retry: Retry = Retry()
    timeout: Duration = Field("15s", validate_default=True)
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    window: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    response_limit: Size = Field("64KiB", validate_default=True)
    on_foreign: Literal["dead_letter", "skip"] = Field(
        "dead_letter", description="what becomes of a record that is no CloudEvent"
    )
    dead_letter: Target | None = Field(None, description="also copy dead letters to this topic")
    paused: bool = False

    @field_validator("order_by")
    @classmethod
    def not_data(cls, value: str | None) -> str | None:
        if value == "data":
            raise ValueError("order_by names an attribute, not data")
        return value
