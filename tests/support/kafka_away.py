"""A Kafka with the topics of a test, for services that lose it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from kafka_server import KafkaServer


@contextmanager
def kafka_with(topics: Sequence[str]) -> Iterator[KafkaServer]:
    """Run a Kafka with these topics. The block may kill it."""
    server = KafkaServer()
    server.start()
    try:
        with ThreadPoolExecutor(1) as thread:  # Playwright has a loop in this one
            thread.submit(asyncio.run, _make(server.bootstrap_servers, topics)).result()
        yield server
    finally:
        server.stop()


async def _make(servers: str, topics: Sequence[str]) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=servers)
    await client.start()
    await client.create_topics([NewTopic(each, 1, 1) for each in topics])
    await client.close()
