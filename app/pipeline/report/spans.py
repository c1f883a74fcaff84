"""The range of time that is looked at, and its bins. By ``record_time``, the broker's clock: producers
lie about ``time``, and backfill.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

MOST: Final = 60  # bins of a chart: more cannot be told apart on a phone

STEPS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
        *(3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000),
    )
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Span(msgspec.Struct, frozen=True):
    """``begin`` and the first moment that is no longer in it; aware, in UTC."""

    begin: datetime
    end: datetime

    @property
    def middle(self) -> datetime:
        return self.begin + (self.end - self.begin) / 2

    @property
    def step(self) -> timedelta:
        """The shortest that makes few enough bins; a year, or as many as it takes."""
        length = self.end - self.begin
        for step in STEPS:
            if length <= step * (MOST - 1):
                return step
        return STEPS[-1] * -(-length // (STEPS[-1] * (MOST - 1)))

    def bins(self) -> list[datetime]:
        """Where each begins: at a full step since 1970."""
        step = self.step
        first = self.begin - (self.begin - _EPOCH) % step
        count = max(1, -((first - self.end) // step))
        return [first + step * n for n in range(count)]
