"""The batchers of one topic, and what the broker is known to reject there."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from time import monotonic

from app.bindings.record import Record
from app.brokers.kafka.batcher import Batcher, Entry
from app.brokers.portable import LIMIT_KNOWN, size_of
from app.brokers.topic_resolver import REFUSED_FOR
from app.errors import BrokerError, BrokerRefused
from app.routing.partitions import partition_of

_IDENTITY = frozenset({"ce_id", "ce_source"})
DOUBTS = 1_000  # most doubted records of a topic


class TopicBatchers:
    """The batchers of one topic, and the sizes and keys that the broker is known to reject."""

    __slots__ = (
        "_doubted", "_keyed", "_keyed_until", "_keyless", "_known_until", "batchers", "bounded", "gone", "max_bytes", "name",
        "taken", "too_large",
    )  # fmt: skip

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.bounded = False  # whether the broker was seen to reject sizes or records without a key
        self.max_bytes = 0  # most bytes of a wire batch, learnt from a rejection; 0 is unknown
        self.too_large = 0  # bytes of the smallest record rejected for its size; 0 is unknown
        self.taken = 0  # wire batches stored
        self.gone: BrokerError | None = None  # why the topic is no longer published to
        self.batchers = [Batcher(self, number) for number in range(partitions)]
        # By digest of the record: ``taken`` when the record first failed in a batch of one.
        self._doubted: dict[bytes, int] = {}
        self._keyed: BrokerRefused | None = None  # why records without a key are rejected
        self._keyed_until = 0.0
        self._keyless = 0
        self._known_until = 0.0

    def count_stored(self, entries: Sequence[Entry]) -> None:
        """Note that a wire batch was stored. Its records are no longer suspected to be at fault."""
        self.taken += 1
        if self._doubted:
            for _, _, record in entries:
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

    def batcher(self, key: bytes | None) -> Batcher:
        """Return the batcher for a key. Records without a key stay on one partition until its batch is
        sent."""
        if key is None:
            return self.batchers[self._keyless]
        return self.batchers[partition_of(key, len(self.batchers))]

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

    def on_batch_sent(self, batcher: Batcher) -> None:
        """Note that a wire batch of a partition was sent. The next records without a key go to the next
        partition."""
        if batcher.number == self._keyless:
            self._keyless = (batcher.number + 1) % len(self.batchers)

    def end(self, error: BrokerError) -> None:
        """Fail all records that are not on the wire. Those on the wire fail with ``error`` too, unless the broker
        stores them."""
        self.gone = error
        for batcher in self.batchers:
            batcher.fail_queued(error)

    def grow(self, partitions: int) -> None:
        """Add batchers for partitions that an operator has added."""
        self.batchers += [Batcher(self, number) for number in range(len(self.batchers), partitions)]


def _digest(record: Record) -> bytes:
    """Return a digest of the record. Two sendings of one event have the same digest, although their trace
    headers may differ."""
    named = [pair for pair in record.headers if pair[0] in _IDENTITY]
    parts = [record.key, record.body, *(named or record.headers)]
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).digest()
