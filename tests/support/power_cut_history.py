"""The history of a log whose power is cut, for the checker of ``proof``.

The requests are the publishes before the cut. The deliveries are what a later start of the log finds, in its order.
"""

from __future__ import annotations

import time

from proof.checker import Judgement, judge_lines
from proof.history import Delivery, Event, Fault, Record, Request, Terms, digest, in_memory

READER = "reader"
TOPIC = "events"


class CutHistory:
    """Write what was promised until the power went off, and what was there afterwards, as a history."""

    def __init__(self) -> None:
        self._records: list[Record] = [Terms({READER: TOPIC})]
        self._begun = time.monotonic()
        self.acknowledged = 0

    def sent(
        self,
        event: str,
        key: str,
        body: bytes,
        start: float,
        receipt: str | None,
        status: int | None,
    ) -> None:
        """Record a publish that began at ``start`` and ends now. ``status`` is 202, or None if its outcome is unknown."""
        one = Event(event, key, digest(body), receipt=receipt)
        self._records.append(Request("log", start, time.monotonic(), status, (one,), TOPIC))
        self.acknowledged += status == 202

    def found(self, event: str, key: str, body: bytes) -> None:
        """Record the next event in the order of the log. Call it after all publishes."""
        start = time.monotonic()
        one = Event(event, key, digest(body))
        self._records.append(Delivery(READER, READER, start, start, 204, (one,)))

    def may_repeat(self) -> None:
        """Allow that what was on its way at the cut comes again."""
        self._records.append(Fault("power cut", "disk", self._begun, time.monotonic()))

    def judge(self) -> Judgement:
        return judge_lines(in_memory(self._records))
