"""The limits of a spool: its size in bytes, and the largest record that its target can store."""

from __future__ import annotations

from time import monotonic
from typing import Protocol

from app.bindings.record import Record
from app.brokers.portable import LIMIT_KNOWN, size_of
from app.errors import BrokerRefused
from app.interfaces import Log, PublishResult

MEASURE = (
    0.25  # seconds between measurements of the spool's size; added bytes are counted in between
)
KNOWN_LIMITS = 1_000  # most topics whose limit is remembered
TOO_LARGE = "record-too-large"


class SpoolBacklog(Protocol):
    """The stored records in the spool that have not been published to the target."""

    @property
    def partitions(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def waiting(self, number: int) -> int: ...


class SpoolCapacity:
    """The capacity of one spool. ``most`` is the most bytes that may wait in it."""

    def __init__(self, target: Log, waits: SpoolBacklog, most: int) -> None:
        self.most = most
        self._target = target
        self._waits = waits
        self._under_way = self._durable = 0  # bytes
        self._measured = float("-inf")
        self._limits: dict[
            str, tuple[int, float]
        ] = {}  # smallest rejected size by topic, and until when it is valid

    def has(self, size: int) -> bool:
        """Return True if ``size`` more bytes fit into the spool."""
        now = monotonic()
        if now - self._measured >= MEASURE:
            self._durable, self._measured = self._waits.bytes, now
        return self._durable + self._under_way + size <= self.most

    def add(self, size: int) -> None:
        """Count ``size`` bytes that are being written to the spool."""
        self._under_way += size

    def written(self, size: int) -> None:
        """Count ``size`` bytes as no longer being written, because they were stored or failed. The next
        measurement corrects the total."""
        self._under_way -= size
        self._durable += size

    def refusal(self, topic: str, record: Record) -> BrokerRefused | None:
        """Return an error if the record is larger than the target is known to accept, else None."""
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
        """Remember the limit that the target's result for a record shows.

        The smallest size that a topic rejects as too large is remembered for a while. An operator may raise
        the topic's limit at any time.
        """
        if not isinstance(result, BrokerRefused) or result.kind != TOO_LARGE:
            return
        if topic in self._limits or len(self._limits) < KNOWN_LIMITS:
            size = size_of(record)
            self._limits[topic] = min(size, self._limit(topic) or size), monotonic() + LIMIT_KNOWN

    def _limit(self, topic: str) -> int:
        """Return the smallest size in bytes that the topic has rejected, or 0 if it has rejected none."""
        limit, until = self._limits.get(topic, (0, 0.0))
        if limit and monotonic() >= until:
            del self._limits[topic]
            return 0
        return limit
