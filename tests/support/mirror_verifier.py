"""Verify from outside that a mirror copies every acknowledged event of its source, in order.

The verifier uses the journal and the judgement of ``verifier``. Like it, this is a process of its
own
that shares no code with ``app``. It reads the target by other means than the service does. It reads a topic
of Kafka with aiokafka, and the file of the embedded log with the SQLite of Python.

::

    mirror_verifier.py post --events http://HOST:PORT/events --journal FILE --keys 100 ...
    mirror_verifier.py judge --journal FILE --kafka HOST:PORT --topic NAME
    mirror_verifier.py judge --journal FILE --file log.db
    mirror_verifier.py judge --journal FILE --rabbitmq HOST:PORT --topic NAME --partitions 4
    mirror_verifier.py judge --journal FILE --pulsar URL --topic NAME

``post`` ends when every event is acknowledged. It prints how many answers were 503, the time of the
slowest event in seconds and the accepted events per second. ``judge`` prints one line of JSON, and
may run several times while the mirror still copies.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sqlite3
import sys
from dataclasses import asdict
from pathlib import Path

from verifier import (
    PATIENCE,
    Journal,
    Numbered,
    Poster,
    Report,
    events_in,
    judge,
    posting_options,
    read_journal,
    while_moving,
)

Arrival = tuple[Numbered, int]
"""An event and the time at which the target stored it, in ms since the epoch."""


async def post(options: argparse.Namespace) -> None:
    journal = Journal(options.journal)
    writing = asyncio.create_task(journal.run())
    keys = [f"key-{number}" for number in range(options.keys)]
    posters = [
        Poster(
            options.events,
            keys[lane :: options.connections],
            options.per_key,
            journal,
            rate=options.rate * len(keys[lane :: options.connections]) / options.keys,
        )
        for lane in range(options.connections)
    ]
    begun = asyncio.get_running_loop().time()
    posting = asyncio.gather(*(poster.run() for poster in posters))
    await while_moving(posting, lambda: len(journal.events), options.patience)
    seconds = asyncio.get_running_loop().time() - begun
    writing.cancel()
    told = {
        "refused": sum(poster.refused for poster in posters),
        "slowest": max(poster.slowest for poster in posters),
        "rate": len(journal.events) / seconds,
    }
    print(json.dumps(told), flush=True)


async def read_topic(bootstrap_servers: str, topic: str) -> list[Arrival]:
    """Return every event of a Kafka topic by partition, in the order of offsets."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False)
    await consumer.start()
    try:
        numbers = await _partitions(consumer, topic)
        arrivals: list[Arrival] = []
        for partition in [TopicPartition(topic, number) for number in sorted(numbers)]:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=1_000)).values():
                    for record in records:
                        arrivals += [(event, record.timestamp) for event in events_in(record.value)]
        return arrivals
    finally:
        await consumer.stop()


async def _partitions(consumer: object, topic: str) -> set[int]:
    consumer.subscribe([topic])  # else the client fetches the metadata of no topic
    await consumer._client.force_metadata_update()  # type: ignore[attr-defined]
    found = consumer.partitions_for_topic(topic)  # type: ignore[attr-defined]
    consumer.unsubscribe()  # type: ignore[attr-defined]
    return found or set()


async def read_queues(address: str, topic: str, partitions: int) -> list[Arrival]:
    """Take every event out of the queues of a RabbitMQ topic with aio-pika, and return them."""
    import aio_pika

    arrivals: list[Arrival] = []
    connection = await aio_pika.connect(f"amqp://guest:guest@{address}/")
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(1_000)
        for number in range(partitions):
            queue = await channel.get_queue(f"{topic}.{number}")
            left = queue.declaration_result.message_count or 0
            async with queue.iterator() as iterator:
                while left:
                    message = await asyncio.wait_for(anext(iterator), PATIENCE)
                    await message.ack()
                    arrivals += [(event, 0) for event in events_in(message.body)]
                    left -= 1
    return arrivals


def read_pulsar(service_url: str, topic: str) -> list[Arrival]:
    """Return every event of a Pulsar topic by partition, with the blocking client of the library."""
    import pulsar

    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(service_url, logger=logger)
    arrivals: list[Arrival] = []
    try:
        for part in client.get_topic_partitions(topic):
            reader = client.create_reader(part, pulsar.MessageId.earliest)
            while reader.has_message_available():
                message = reader.read_next(timeout_millis=30_000)
                stored = message.publish_timestamp()
                arrivals += [(event, stored) for event in events_in(message.data())]
            reader.close()
    finally:
        client.close()
    return arrivals


def read_file(path: Path) -> list[Arrival]:
    """Return every event in the file of an embedded log by partition, in the order of offsets."""
    stored: list[Arrival] = []
    with contextlib.closing(sqlite3.connect(path)) as database:
        segments = "SELECT id FROM segments ORDER BY topic, partition, base_offset"
        for (number,) in database.execute(segments).fetchall():
            rows = database.execute(f"SELECT time_ms, records FROM s{number:d} ORDER BY rowid")
            stored += [
                (event, time_ms) for time_ms, records in rows for event in events_in(records)
            ]
    return stored


def busiest_second(arrivals: list[Arrival]) -> int:
    times = sorted(time for _, time in arrivals)
    most = first = 0
    for last, time in enumerate(times):
        while times[first] < time - 1_000:
            first += 1
        most = max(most, last - first + 1)
    return most


def verdict(options: argparse.Namespace) -> Report:
    if options.file is not None:
        arrivals = read_file(options.file)
    elif options.rabbitmq is not None:
        arrivals = asyncio.run(read_queues(options.rabbitmq, options.topic, options.partitions))
    elif options.pulsar is not None:
        arrivals = read_pulsar(options.pulsar, options.topic)
    else:
        arrivals = asyncio.run(read_topic(options.kafka, options.topic))
    report = judge(read_journal(options.journal), [event for event, _ in arrivals])
    report.busiest_second = busiest_second(arrivals)
    return report


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    posting = verbs.add_parser("post")
    posting_options(posting)
    posting.add_argument("--rate", type=float, default=float("inf"), help="events a second")
    judging = verbs.add_parser("judge")
    judging.add_argument("--kafka", help="bootstrap servers of the target")
    judging.add_argument("--rabbitmq", help="host and port of the target")
    judging.add_argument("--partitions", type=int, help="queues of a topic of RabbitMQ")
    judging.add_argument("--pulsar", help="service URL of the target")
    judging.add_argument("--topic", help="topic of the target")
    judging.add_argument("--file", type=Path, help="the SQLite file of the target")
    for verb in (posting, judging):
        verb.add_argument("--journal", type=Path, required=True)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    options = options_of(arguments)
    if options.verb == "post":
        asyncio.run(post(options))
    else:
        print(json.dumps(asdict(verdict(options))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
