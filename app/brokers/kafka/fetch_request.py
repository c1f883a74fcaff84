"""Build a fetch request for one node, and read the partitions of its answer."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, for_code

from app.brokers.aiokafka_adapter import fetch_request
from app.brokers.kafka.records import FetchedRecords

MOST_BYTES = 2 << 20  # most bytes of an answer, of which three copies exist while it is read
MOST_OF_PARTITION = 256 << 10
_ABORTED_FIRST = (
    11  # first answer version with the preferred read replica after the aborted transactions
)


class PendingFetch(NamedTuple):
    """A pending request for the records of one partition from a position on. It has the future for the
    answer."""

    place: TopicPartition
    position: int
    answer: asyncio.Future[FetchedRecords]


class FetchedPartition(NamedTuple):
    """The records of one partition in an answer: the batches as bytes, and the list of aborted
    transactions."""

    raw: bytes
    aborted: Any

    def begin(self, want: PendingFetch) -> FetchedRecords:
        """Return an iterator over the records from the requested position."""
        return FetchedRecords(self.raw, self.aborted, want.position)


def request_for(wants: dict[TopicPartition, list[PendingFetch]], wait: float) -> Any:
    """Build one fetch request for all partitions in ``wants``. The node may wait for records for at most
    ``wait`` seconds."""
    topics: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for place, (want, *_) in wants.items():
        topics[place.topic].append((place.partition, want.position, MOST_OF_PARTITION))
    return fetch_request(topics, round(wait * 1000), MOST_BYTES)


def found_in(answer: Any) -> dict[TopicPartition, FetchedPartition | KafkaError]:
    """Return the records, or the error, of each partition in an answer."""
    found: dict[TopicPartition, FetchedPartition | KafkaError] = {}
    for topic, partitions in answer.topics:
        for number, code, _, *rest in partitions:
            aborted = rest[2 if answer.API_VERSION >= _ABORTED_FIRST else -2] if rest[1:] else None
            kind = for_code(code)
            found[TopicPartition(topic, number)] = (
                kind(topic) if code else FetchedPartition(bytes(rest[-1] or b""), aborted)
            )
    return found
