"""The state of one topic: the sizes and keys that the broker rejects there, and the records that may be at fault."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from time import monotonic

from app.bindings.record import Record
from app.brokers.portable import LIMIT_KNOWN, size_of
from app.brokers.topic_resolver import REFUSED_FOR
from app.errors import BrokerError, BrokerRefused

_IDENTITY = frozenset({"ce_id", "ce_source"})
DOUBTS = 1_000  # most doubted records of a topic


class TopicState:
    """The state of one topic, which its batchers share.

    Attributes:
        name: The name of the topic.
        partitions: The number of partitions.
        keyless: The partition of the next records without a key.
        bounded: Whether the broker was seen to reject sizes, or records without a key.
        max_bytes: The most bytes of a wire batch, learnt from a rejection. 0 is unknown.
        too_large: The bytes of the smallest record that was rejected for its size. 0 is unknown.
        taken: The number of wire batches that were stored.
        gone: Why the topic is no longer published to, or None.
    """

    __slots__ = (
        "_doubted", "_keyed", "_keyed_until", "_known_until", "bounded", "gone", "keyless", "max_bytes", "name",
        "partitions", "taken", "too_large",
    )  # fmt: skip

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.partitions = partitions
        self.keyless = 0
        self.bounded = False
        self.max_bytes = self.too_large = 0
        self.taken = 0
        self.gone: BrokerError | None = None
        # By digest of the record: ``taken`` when the record first failed in a batch of one.
        self._doubted: dict[bytes, int] = {}
        self._keyed: BrokerRefused | None = None  # why records without a key are rejected
        self._keyed_until = 0.0
        self._known_until = 0.0

    def count_stored(self, records: Iterable[Record]) -> None:
        """Note that a wire batch was stored. Its records are no longer suspected to be at fault."""
        self.taken += 1
        if self._doubted:
            for record in records:
                self._doubted.pop(_digest(record), None)

    def doubts(self, record: Record) -> bool:
        """Return True if the record has failed alone in a batch before, and the topic has stored other
        batches since then. Otherwise remember this failure. The broker's error code does not name a cause."""
        digest = _digest(record)
        if digest not in self._doubted and len(self._doubted) >= DOUBTS:
            del self._doubted[next(iter(self._doubted))]
        return self.taken > self._doubted.setdefault(digest, self.taken)

    def learn(self, *, too_large: int = 0, max_bytes: int = 0) -> None:
        """Remember size limits of the broker, in bytes, for a while. An operator may raise them at any
        time."""
        self.too_large = too_large or self.too_large
        self.max_bytes = max_bytes or self.max_bytes
        self._known_until = monotonic() + LIMIT_KNOWN
        self.bounded = True

    def demand_keys(self, error: BrokerRefused) -> None:
        """Reject records without a key for a moment, because each attempt to send one costs a wire batch. An
        operator may change the topic at any time."""
        self._keyed, self._keyed_until = error, monotonic() + REFUSED_FOR
        self.bounded = True

    def knows_bounds(self) -> bool:
        """Return True if size limits of the topic are known. A limit is forgotten after a while, so that
        larger records are tried again."""
        if self._keyed is not None and monotonic() >= self._keyed_until:
            self._keyed = None
        self.bounded = self._knows_sizes() or self._keyed is not None
        return self.bounded

    def _knows_sizes(self) -> bool:
        if not (self.too_large or self.max_bytes):
            return False
        if monotonic() >= self._known_until:
            self.too_large = self.max_bytes = 0
            return False
        return True

    def refusal(self, record: Record) -> BrokerRefused | None:
        """Return an error if the topic is known to reject the record, because it is too large or has no key.
        Otherwise return None."""
        if record.key is None and self._keyed is not None:
            return self._keyed
        if not self.too_large or size_of(record) < self.too_large:
            return None
        return BrokerRefused(
            f"topic {self.name} does not accept a record of {size_of(record)} bytes",
            kind="record-too-large",
        )

    def on_batch_sent(self, number: int) -> None:
        """Note that a wire batch of a partition was sent. The next records without a key go to the next
        partition."""
        if number == self.keyless:
            self.keyless = (number + 1) % self.partitions


def _digest(record: Record) -> bytes:
    """Return a digest of the record. Two sendings of one event have the same digest, although their trace
    headers may differ."""
    named = [pair for pair in record.headers if pair[0] in _IDENTITY]
    parts = [record.key, record.body, *(named or record.headers)]
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).digest()
