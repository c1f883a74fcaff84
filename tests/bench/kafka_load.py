"""Load for a Kafka listener by librdkafka: produces, or reads as a member of a group, and says how long it took.

::

    python tests/bench/kafka_load.py produce --servers=127.0.0.1:9092 --topic=t --events=100000 --codec=lz4
    python tests/bench/kafka_load.py read --servers=127.0.0.1:9092 --topic=t --events=100000

A producer as people have it: acks of all, idempotent, batches as librdkafka makes them by default. One line
of JSON: events, seconds from the first to the last, its own CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from random import Random
from uuid import uuid4

from bench_events import KEYS, attributes
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

SIZE = 1_000  # bytes of key, value and headers together
BODIES = 512  # different ones
PATIENCE = 120.0
Headers = list[tuple[str, str | bytes | None]]


def headers(number: int) -> Headers:
    """The attributes of a CloudEvent in binary mode (Kafka binding 3.2.3)."""
    told = attributes(number)
    return [
        *((f"ce_{name}", value.encode()) for name, value in told.items()),
        ("content-type", b"application/json"),
    ]


def body(number: int, size: int) -> bytes:
    """JSON that shrinks to about a half, as data does: half of it is digits of chance."""
    chance = Random(number)
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        lines.append(f'{{"sku":"SKU-{chance.randrange(16**12):012x}","quantity":1,"cents":4999}}')
    return f"[{','.join(lines)}]"[:size].encode()


def records() -> list[tuple[bytes, bytes, Headers]]:
    """One a key."""
    taken = [
        (attributes(number)["partitionkey"].encode(), headers(number)) for number in range(KEYS)
    ]
    overhead = len(taken[0][0]) + sum(len(n) + len(v or b"") for n, v in taken[0][1])
    bodies = [body(number, SIZE - overhead) for number in range(BODIES)]
    return [(key, bodies[n % BODIES], head) for n, (key, head) in enumerate(taken)]


def produce(servers: str, topic: str, events: int, codec: str) -> float:
    """Seconds until all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": codec,
            "partitioner": "murmur2_random",
        }
    )
    of, errors = records(), list[KafkaError]()

    def told(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    producer.list_topics(topic, timeout=PATIENCE)
    begun = time.monotonic()
    for number in range(events):
        key, value, head = of[number % KEYS]
        while True:
            try:
                producer.produce(topic, value, key, headers=head, on_delivery=told)
                break
            except BufferError:  # its queue is full: as fast as the server takes it
                producer.poll(0.05)
        if not number % 1_000:
            producer.poll(0)
    left = producer.flush(PATIENCE)
    if left or errors:
        raise RuntimeError(f"{left} not sent, {len(errors)} refused: {errors[:1]}")
    return time.monotonic() - begun


def read(servers: str, topic: str, events: int, fetch: int) -> float:
    """Seconds from the first event to the last, in a group of its own that begins at the earliest.
    ``fetch``: bytes of a partition that one answer may hold."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bench-{uuid4().hex}",
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": fetch,
        }
    )
    consumer.subscribe([topic])
    begun, count, until = 0.0, 0, time.monotonic() + PATIENCE
    while count < events:
        found = consumer.consume(1_000, 1.0)
        begun = begun or (time.monotonic() if found else 0.0)
        for message in found:
            error = message.error()
            if error is not None:
                raise KafkaException(error)
        count += len(found)
        if time.monotonic() > until:
            raise RuntimeError(f"{count} of {events} read")
    took = time.monotonic() - begun
    consumer.close()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=["produce", "read"])
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--fetch", type=int, default=1 << 20)
    options = parser.parse_args()
    if options.verb == "produce":
        seconds = produce(options.servers, options.topic, options.events, options.codec)
    else:
        seconds = read(options.servers, options.topic, options.events, options.fetch)
    own = sum(os.times()[:2])
    print(json.dumps({"events": options.events, "seconds": seconds, "cpu": own}))


if __name__ == "__main__":
    main()
