"""Whether an event is too old to be tried at all; looked at before each attempt.

=====================================  ==================================  ========================
of the event                           and the subscription says           then
=====================================  ==================================  ========================
its ``expirytime`` is over             ``expirytime: honour``              finished, ``expired``
it came into its log too long ago      ``max_age``                         dead letter ``max-age``
it waits in the store for too long     ``parked.retention``                ``parked-too-long``
=====================================  ==================================  ========================
"""

from __future__ import annotations

from datetime import datetime

import msgspec

MAX_AGE, PARKED_TOO_LONG = "max-age", "parked-too-long"


class Ages(msgspec.Struct, frozen=True):
    """What a subscription says of age, in seconds. ``honour``: the event's own ``expirytime``."""

    retention: float
    max_age: float | None = None
    honour: bool = False

    @property
    def matters(self) -> bool:
        """Whether the age of an event that does not wait in the store is looked at."""
        return self.honour or self.max_age is not None

    def expired(self, expirytime: str | None, now: float) -> bool:
        """``expirytime`` is RFC 3339; one that cannot be read, or has no zone, expires nothing."""
        if not self.honour or expirytime is None:
            return False
        try:
            moment = datetime.fromisoformat(expirytime)
        except ValueError:
            return False
        return moment.tzinfo is not None and moment.timestamp() <= now

    def too_old(self, came_ms: int, parked_ms: int | None, now: float) -> str:
        """The cause of its dead letter, or "". ``came_ms``: when it came into its log; ``parked_ms``: since
        when it waits in the store, None where it does not."""
        if self.max_age is not None and now - came_ms / 1000 > self.max_age:
            return MAX_AGE
        if parked_ms is not None and now - parked_ms / 1000 > self.retention:
            return PARKED_TOO_LONG
        return ""
