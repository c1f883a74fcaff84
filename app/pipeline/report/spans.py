"""The range of time of a report, and its bins.

Times are ``record_time``, the broker's clock: the ``time`` of producers may be wrong, or old on
purpose.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

MOST: Final = 60  # largest number of bins that can be distinguished on a phone

STEPS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
        *(3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000),
    )
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Span(msgspec.Struct, frozen=True):
    """A range of time from ``begin`` to before ``end``, both aware and in UTC."""

    begin: datetime
    end: datetime

    @property
    def middle(self) -> datetime:
        return self.begin + (self.end - self.begin) / 2

    @property
    def step(self) -> timedelta:
        """Return the length of a bin: the shortest step that gives at most ``MOST`` bins, or a
        multiple of a year.
        """
        length = self.end - self.begin
        for step in STEPS:
            if length <= step * (MOST - 1):
                return step
        return STEPS[-1] * -(-length // (STEPS[-1] * (MOST - 1)))

    def bins(self) -> list[datetime]:
        """Return the start of each bin, which is a multiple of the step since 1970."""
        step = self.step
        first = self.begin - (self.begin - _EPOCH) % step
        count = max(1, -((first - self.end) // step))
        return [first + step * n for n in range(count)]
