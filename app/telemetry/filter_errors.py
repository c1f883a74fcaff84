"""Errors of filter expressions: counted by route or subscription, and logged once a minute with an
example.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Literal

from app.telemetry.counters import Counters

EVERY = 60.0  # seconds
CLIP = 200  # characters of an expression, or of an attribute, that an entry shows
COUNTER = "filter_errors"

_log = logging.getLogger("skybridge.filters")


class FilterErrors:
    """The filter errors of one route or subscription. Use it on the event loop only.

    A log entry names the event. It never quotes the compared values, which may be event data.
    """

    def __init__(
        self,
        counters: Counters,
        of: Literal["route", "subscription"],
        name: str,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._counters = counters
        self._of = of
        self._name = name
        self._now = now
        self._unlogged = 0
        self._quiet_until = -EVERY

    def note(self, attributes: Mapping[str, str], expression: str, reason: str) -> None:
        """Count an error, and log it unless an entry was written in the last minute."""
        self._counters.add(COUNTER, self._of, self._name)
        self._unlogged += 1
        now = self._now()
        if now < self._quiet_until:
            return
        _log.warning(
            "%s %s: a filter expression failed on an event, which then did not match it: %s; example: event %r of "
            "%r, expression %r (%d since the last entry); `skybridge explain` shows its values",
            self._of,
            self._name,
            reason,
            attributes.get("id", "")[:CLIP],
            attributes.get("source", "")[:CLIP],
            expression[:CLIP],
            self._unlogged,
        )
        self._unlogged = 0
        self._quiet_until = now + EVERY
