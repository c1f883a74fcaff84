"""Decide whether an event is too old for another attempt. Checked before each attempt.

=====================================  ==================================  ========================
event                                  setting of the subscription         result
=====================================  ==================================  ========================
expired: its ``expirytime`` is over    ``expirytime: honour``              finished, ``expired``.
old: entered its log too long ago      ``max_age``                         dead letter ``max-age``.
parked too long                        ``parked.retention``                ``parked-too-long``.
=====================================  ==================================  ========================
"""

from __future__ import annotations

from datetime import datetime

import msgspec

MAX_AGE, PARKED_TOO_LONG = "max-age", "parked-too-long"


class AgeLimits(msgspec.Struct, frozen=True):
    """The age limits of a subscription, in seconds. ``honour`` is True if the event's own ``expirytime`` applies."""

    retention: float
    max_age: float | None = None
    honour: bool = False

    @property
    def matters(self) -> bool:
        """Return True if an event that is not in the store can be too old."""
        return self.honour or self.max_age is not None

    def expired(self, expirytime: str | None, now: float) -> bool:
        """Return True if the event's ``expirytime`` (RFC 3339) is over.

        A value that cannot be read or has no time zone never expires."""
        if not self.honour or expirytime is None:
            return False
        try:
            moment = datetime.fromisoformat(expirytime)
        except ValueError:
            return False
        return moment.tzinfo is not None and moment.timestamp() <= now

    def too_old(self, age: float, parked_for: float | None) -> str:
        """Return the cause of the dead letter for an event that is too old, else "".

        Args:
            age: the seconds since the event entered its log.
            parked_for: the seconds since it was parked; None if it is not in the store.
        """
        if self.max_age is not None and age > self.max_age:
            return MAX_AGE
        if parked_for is not None and parked_for > self.retention:
            return PARKED_TOO_LONG
        return ""
