"""Produce records for tests of the archive, and count what must result independently of the code
under test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Producer

import kafka_librdkafka

Header = tuple[str, bytes | None]


@dataclass
class Produced:
    """The produced records: their count, the distinct (source, id) of valid events, and the count
    of invalid ones.
    """

    records: int = 0
    events: set[tuple[str, str]] = field(default_factory=set)
    invalid: int = 0


def make_topic(bootstrap_servers: str, topic: str, partitions: int = 4) -> None:
    kafka_librdkafka.make_topic(bootstrap_servers, topic, partitions)


def produce(
    bootstrap_servers: str,
    topic: str,
    count: int,
    *,
    seed: int = 1,
    doubtful: float = 0.05,
    size: int = 60,
) -> Produced:
    """Produce ``count`` records: most are binary events, 1 in 100 is repeated, and 1 in 200 is
    invalid.

    Args:
        bootstrap_servers: The Kafka servers.
        topic: The topic.
        count: The count of records.
        seed: The seed of the random choices.
        doubtful: The share of structured events.
        size: Bytes of padding in the data of an event.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    sent = Produced()
    for key, value, headers in _records(random.Random(seed), count, doubtful, size, sent):
        while True:
            try:
                producer.produce(topic, key=key, value=value, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        sent.records += 1
        producer.poll(0)
    assert producer.flush(120) == 0
    return sent


def _records(
    chance: random.Random, count: int, doubtful: float, size: int, sent: Produced
) -> Iterator[tuple[bytes, bytes, list[Header]]]:
    run = chance.randrange(1 << 32)
    for n in range(count):
        number = chance.randrange(n) if n and chance.random() < 0.01 else n
        source, name = f"/shop/{number % 7}", f"{run:x}-{number}"
        data = json.dumps({"n": number, "pad": "x" * size}).encode()
        kind = chance.random()
        key = str(number % 1000).encode()
        if kind < 0.005:
            sent.invalid += 1
            yield key, data, [("ce_specversion", b"1.0"), ("ce_id", b"x"), ("ce_type", b"t")]
            continue
        sent.events.add((source, name))
        if kind < 0.005 + doubtful:
            event = {
                "specversion": "1.0", "id": name, "source": source, "type": "com.example.shop",
                "datacontenttype": "application/json", "data": {"n": number},
            }  # fmt: skip
            yield (
                key,
                json.dumps(event).encode(),
                [("content-type", b"application/cloudevents+json")],
            )
            continue
        yield key, data, [
            ("ce_specversion", b"1.0"),
            ("ce_id", name.encode()),
            ("ce_source", source.encode()),
            ("ce_type", b"com.example.shop"),
            ("ce_subject", str(number % 100).encode()),
            ("content-type", b"application/json"),
        ]  # fmt: skip
