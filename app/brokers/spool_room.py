"""What a spool may take: no more than its bytes, and nothing that its target could never store."""

from __future__ import annotations

from time import monotonic
from typing import Protocol

from app.bindings.record import Record
from app.brokers.portable import LIMIT_KNOWN, size_of
from app.errors import BrokerRefused
from app.interfaces import Log, PublishResult

MEASURE = 0.25  # seconds between measures of the spool's size; what is added in between is counted
KNOWN_LIMITS = 1_000  # topics whose limit is remembered
TOO_LARGE = "record-too-large"


class Waits(Protocol):
    """What is in the spool and not finished, durably."""

    @property
    def partitions(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def waiting(self, number: int) -> int: ...


class SpoolRoom:
    """``most``: bytes that may wait."""

    def __init__(self, target: Log, waits: Waits, most: int) -> None:
        self.most = most
        self._target = target
        self._waits = waits
        self._under_way = self._durable = 0  # bytes
        self._measured = float("-inf")
        self._limits: dict[str, tuple[int, float]] = {}  # as ``learn`` found them, and until when

    def has(self, size: int) -> bool:
        """Whether so many bytes more may wait."""
        now = monotonic()
        if now - self._measured >= MEASURE:
            self._durable, self._measured = self._waits.bytes, now
        return self._durable + self._under_way + size <= self.most

    def add(self, size: int) -> None:
        """They are on their way into the spool."""
        self._under_way += size

    def written(self, size: int) -> None:
        """They are in it, or have failed: counted until it is measured again."""
        self._under_way -= size
        self._durable += size

    def refusal(self, topic: str, record: Record) -> BrokerRefused | None:
        """Why the target could never store it, by what is known of its limits."""
        size, most = size_of(record), self._target.capabilities.max_record
        limit = self._limit(topic)
        if (not most or size <= most) and (not limit or size < limit):
            return None
        return BrokerRefused(
            f"a record of {size} bytes is too large for {topic} on {self._target.name}",
            kind=TOO_LARGE,
            broker=self._target.name,
        )

    def learn(self, topic: str, record: Record, result: PublishResult | None) -> None:
        """What the target answered for a record: the smallest that a topic refused as too large is remembered for
        a while, for an operator may raise the limit."""
        if not isinstance(result, BrokerRefused) or result.kind != TOO_LARGE:
            return
        if topic in self._limits or len(self._limits) < KNOWN_LIMITS:
            size = size_of(record)
            self._limits[topic] = min(size, self._limit(topic) or size), monotonic() + LIMIT_KNOWN

    def _limit(self, topic: str) -> int:
        """0: none is known."""
        limit, until = self._limits.get(topic, (0, 0.0))
        if limit and monotonic() >= until:
            del self._limits[topic]
            return 0
        return limit
