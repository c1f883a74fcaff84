"""A subscription as a user writes it, in the file and over the API alike."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from app.model.duration import Count, Duration, Size
from app.model.route import AttributeName, Filter, Name, Strict, Target

DEFAULT_SCHEDULE = ("100ms", "500ms", "2s", "10s", "1m", "5m", "30m", "2h", "5h", "10h", "24h")


class Source(Strict):
    """Where the messages come from."""

    broker: Name = Field(description="a name under brokers")
    topics: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] = Field(
        description="topics to read; names, not patterns"
    )


def _instant(text: str) -> str:
    """RFC 3339 with its zone; kept as it was written."""
    try:
        zoned = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        zoned = False
    if not zoned:
        raise ValueError("is no time with a zone: write for example 2026-01-01T00:00:00Z")
    return text


Position = Annotated[
    str, BeforeValidator(lambda value: str(value) if type(value) is int else value)
]
"""Opaque text of the log; a number is taken as its text."""


class Start(Strict):
    """``{time: 2026-01-01T00:00:00Z}`` or ``{position: {0: "123"}}``."""

    time: Annotated[str, AfterValidator(_instant)] | None = Field(
        None, description="the first message stored at this time or later"
    )
    position: dict[Annotated[int, Field(ge=0)], Position] | None = Field(
        None, description="partition number to the position of the first message"
    )

    @model_validator(mode="after")
    def one_way(self) -> Start:
        if (self.time is None) == (self.position is None):
            raise ValueError("start takes earliest, latest, {time: ...} or {position: {...}}")
        return self


def _start_form(value: object) -> str:
    return "mapping" if isinstance(value, dict | Start) else "word"


StartSetting = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")] | Annotated[Start, Tag("mapping")],
    Discriminator(_start_form),
]


class Retry(Strict):
    """When a failed attempt is tried again (rules 4 and 7)."""

    schedule: Annotated[tuple[Duration, ...], Field(min_length=1)] = Field(
        DEFAULT_SCHEDULE,
        validate_default=True,
        description="the waits between attempts, each drawn anew between 0 and its value",
    )
    hold: Annotated[Count, Field(ge=0)] = Field(
        3, description="how many of the waits hold the lane of the key"
    )
    retry_after_max: Duration = Field(
        "24h", validate_default=True, description="the longest Retry-After that is honoured"
    )
    statuses: tuple[Annotated[Count, Field(ge=400, le=599)], ...] = Field(
        (404, 408, 409, 425, 429),
        description="answers that are tried again; 5xx, time-outs and network faults always are",
    )


class Subscription(Strict):
    """Messages of a log, on to a webhook."""

    id: Name = Field(description="name of the subscription, part of its group's name")
    source: Source = Field(description="where the messages come from")
    start: StartSetting = Field(
        "latest", description="earliest, latest, {time: ...} or {position: {...}}; used once"
    )
    filters: tuple[Filter, ...] = Field((), description="all must match; none matches everything")
    sink: Annotated[str, Field(pattern=r"^https?://[^/?#]")] = Field(
        description="URL that events are posted to"
    )
    content_mode: Literal["binary", "structured"] = Field(
        "binary", description="how the event is written into the request"
    )
    ordering: Literal["per_key", "none"] = Field(
        "per_key", description="one attempt a key at a time, or no order at all (rule 3)"
    )
    order_by: AttributeName | None = Field(
        None, description="attribute that stands for the key; without it the record key"
    )
    retry: Retry = Field(Retry(), description="when a failed attempt is tried again")
    timeout: Duration = Field(
        "15s", validate_default=True, description="for one attempt, answer included"
    )
    concurrency: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        64, description="most attempts at once"
    )
    window: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        10_000, description="most messages between the commit position and the newest taken"
    )
    response_limit: Size = Field(
        "64KiB", validate_default=True, description="most bytes read of an answer"
    )
    on_foreign: Literal["dead_letter", "skip"] = Field(
        "dead_letter", description="what becomes of a record that is no CloudEvent"
    )
    dead_letter: Target | None = Field(None, description="also copy dead letters to this topic")
    paused: bool = Field(False, description="keep its place, deliver nothing")

    @model_validator(mode="after")
    def order_fits(self) -> Subscription:
        if self.order_by == "data":
            raise ValueError("order_by names an attribute, not data")
        if self.order_by is not None and self.ordering == "none":
            raise ValueError("order_by has no meaning with ordering: none")
        return self
