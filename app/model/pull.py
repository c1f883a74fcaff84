"""The sink of a subscription whose consumers fetch events themselves: events wait until they are pulled."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.model.duration import Count, Duration
from app.model.route import Strict

LONGEST_LOCK = 3600.0  # seconds

HANDED_OUT = "handed-out"
"""The outcome, in metrics, of an attempt that gives an event to a consumer."""


class PullSettings(Strict):
    """The settings of a pull queue, in the terms of Azure Event Grid."""

    lock: Annotated[Duration, Field(ge=1, le=LONGEST_LOCK)] = Field(
        "60s",
        validate_default=True,
        description="time for which a received event is locked; if it is not acknowledged by then, "
        "it is handed out again; 1s to 1h",
    )
    max_deliveries: Annotated[Count, Field(ge=1, le=1_000)] = Field(
        10,
        description="most times that an event is handed out before it becomes a dead letter with the cause "
        "max-deliveries",
    )
    max_waiting: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        1_000, description="most events that wait in the store; further events stay in the log"
    )


class Pull(Strict):
    """The sink ``{pull: {}}``: nothing is sent, and consumers fetch events with ``:receive`` and ``:acknowledge``."""

    pull: PullSettings = Field(description="settings of the pull queue")


NOT_FOR_PULL = (
    *("content_mode", "format", "forward_headers", "timeout", "response_limit", "retry"),
    *("concurrency", "rate_limit", "batch", "reply"),
)
"""The settings about sending, which have no meaning for a pull queue."""
