"""How many events a caller may send, as a user writes it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.model.duration import Count
from app.model.rates import RateText
from app.model.route import Strict


class EventQuota(Strict):
    """A rate, and what may come at once."""

    events: RateText = Field(description="events in a span of time: 500/s, 600/m, 10000/h")
    burst: Annotated[Count, Field(ge=1)] = Field(
        description="most events at once after a pause; at least limits.max_batch"
    )
