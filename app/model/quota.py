"""The setting of a quota: the most events that a caller may send."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.model.duration import Count
from app.model.rates import RateText
from app.model.route import Strict


class EventQuota(Strict):
    """The rate at which a caller may send events, and the most events at once."""

    events: RateText = Field(description="most events in a span of time: 500/s, 600/m, 10000/h")
    burst: Annotated[Count, Field(ge=1)] = Field(
        description="most events at once after a pause; at least limits.max_batch"
    )
