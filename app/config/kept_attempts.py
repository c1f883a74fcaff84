"""How much of the attempt log the store keeps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.model.duration import Count, Duration
from app.model.route import Strict


class KeptAttempts(Strict):
    """Attempts to deliver, as rows of the store. Rows deleted by a bound are counted."""

    keep: Literal["failures", "all"] = Field(
        "failures",
        description="failures, and the last success of each subscription; or all, a row an attempt",
    )
    retention: Annotated[Duration, Field(gt=0)] = Field(
        "7d", validate_default=True, description="older ones are dropped"
    )
    max_rows: Annotated[Count, Field(ge=1)] = Field(
        1_000_000, description="most rows; beyond them the oldest are dropped"
    )
