"""The sink of a subscription whose consumer cannot be called: events wait until they are pulled."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.model.duration import Count, Duration
from app.model.route import Strict

LONGEST_LOCK = 3600.0  # seconds

HANDED_OUT = "handed-out"
"""The outcome of an attempt by which a consumer gets an event, as metrics have it."""


class PullSettings(Strict):
    """How events are handed out, with the terms of Event Grid."""

    lock: Annotated[Duration, Field(ge=1, le=LONGEST_LOCK)] = Field(
        "60s",
        validate_default=True,
        description="time for which a received event is locked; if it is not finished by then, "
        "it is handed out again; 1s to 1h",
    )
    max_deliveries: Annotated[Count, Field(ge=1, le=1_000)] = Field(
        10,
        description="how often an event is handed out before it becomes a dead letter, cause "
        "max-deliveries",
    )
    max_waiting: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        1_000, description="most events that wait in the store; further events stay in the log"
    )


class Pull(Strict):
    """``{pull: {}}``: nothing is sent; consumers fetch events with ``:receive`` and ``:acknowledge``."""

    pull: PullSettings = Field(description="how events are handed out")


NOT_FOR_PULL = (
    *("content_mode", "format", "forward_headers", "timeout", "response_limit", "retry"),
    *("concurrency", "rate_limit", "batch", "reply"),
)
"""Settings of a subscription that say how it sends."""
