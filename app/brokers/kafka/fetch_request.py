"""A request for records of one node, and what its answer says of each partition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, for_code

from app.brokers.aiokafka_adapter import fetch_request
from app.brokers.kafka.records import FetchedRecords

MOST_BYTES = 2 << 20  # of one answer, which is in memory three times while it is read
MOST_OF_PARTITION = 256 << 10
_ABORTED_FIRST = 11  # the version of the answer from which the read replica stands behind them


class Want(NamedTuple):
    place: TopicPartition
    position: int
    answer: asyncio.Future[FetchedRecords]


class Found(NamedTuple):
    raw: bytes
    aborted: Any

    def begin(self, want: Want) -> FetchedRecords:
        return FetchedRecords(self.raw, self.aborted, want.position)


def request_for(wants: dict[TopicPartition, list[Want]], wait: float) -> Any:
    topics: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for place, (want, *_) in wants.items():
        topics[place.topic].append((place.partition, want.position, MOST_OF_PARTITION))
    return fetch_request(topics, round(wait * 1000), MOST_BYTES)


def found_in(answer: Any) -> dict[TopicPartition, Found | KafkaError]:
    found: dict[TopicPartition, Found | KafkaError] = {}
    for topic, partitions in answer.topics:
        for number, code, _, *rest in partitions:
            aborted = rest[2 if answer.API_VERSION >= _ABORTED_FIRST else -2] if rest[1:] else None
            kind = for_code(code)
            found[TopicPartition(topic, number)] = (
                kind(topic) if code else Found(bytes(rest[-1] or b""), aborted)
            )
    return found
