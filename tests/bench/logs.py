"""The logs that the benches publish to, each with its server and the plain floor that stands beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aio_pika
import httpx
import lab
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from kafka_server import KafkaServer
from pulsar_server import PulsarServer
from rabbitmq_server import RabbitServer

NAMES = {"embedded": "embedded log", "kafka": "Kafka", "rabbitmq": "RabbitMQ", "pulsar": "Pulsar"}


class Log:
    """``address``: of its server; empty where it is a folder. ``floor``: the words of ``floors.py``, which
    ``floor_name`` tells of."""

    def __init__(
        self, kind: str, broker: dict[str, Any], floor_name: str, floor: str, address: str = ""
    ) -> None:
        self.kind, self.name = kind, NAMES[kind]
        self._broker = broker
        self.floor_name, self.address = floor_name, address
        self._floor = (floor, f"--address={address}", f"--topic={lab.FLOOR_TOPIC}")

    def broker(self, folder: Path) -> dict[str, Any]:
        """As a configuration has it; an embedded one in this folder, which may not be there yet."""
        path = {"path": str(folder)} if self.kind == "embedded" else {}
        return {**self._broker, **path}

    def floor(self, *more: str) -> lab.Server:
        return lab.Server("floors.py", *self._floor, *more)

    def forget(self) -> None:
        """What a round has left behind is deleted, where nobody reads it and the server would fill up."""


class Rabbit(Log):
    def forget(self) -> None:
        asyncio.run(self._purge())

    async def _purge(self) -> None:
        async with await aio_pika.connect(f"amqp://guest:guest@{self.address}/") as connection:
            for topic in (lab.TOPIC, lab.FLOOR_TOPIC):
                for number in range(lab.PARTITIONS):
                    await self._empty(connection, f"{topic}.{number}")

    async def _empty(self, connection: aio_pika.abc.AbstractConnection, queue: str) -> None:
        """A queue that is not there ends the channel that names it, so each has a channel of its own."""
        with contextlib.suppress(aio_pika.exceptions.ChannelNotFoundEntity):
            async with connection.channel() as channel:
                await (await channel.get_queue(queue)).purge()


def create_topics(bootstrap_servers: str) -> None:
    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics(
                [
                    NewTopic(name, lab.PARTITIONS, 1)
                    for name in (lab.TOPIC, lab.FLOOR_TOPIC, lab.MIRROR_TOPIC)
                ]
            )
        finally:
            await admin.close()

    asyncio.run(create())


def stored(bootstrap_servers: str, topic: str) -> int:
    """How many records have been stored in a topic so far."""

    async def count() -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)
        await consumer.start()
        try:
            places = [TopicPartition(topic, number) for number in range(lab.PARTITIONS)]
            return sum((await consumer.end_offsets(places)).values())
        finally:
            await consumer.stop()

    return asyncio.run(count())


def _embedded(_: Any) -> Log:
    return Log("embedded", {"kind": "embedded"}, "bare ASGI, stores nothing", "nothing")


def _kafka(server: KafkaServer) -> Log:
    address = server.bootstrap_servers
    create_topics(address)
    broker = {"kind": "kafka", "bootstrap_servers": address}
    return Log("kafka", broker, "bare ASGI, await producer.send", "kafka", address)


def _rabbitmq(server: RabbitServer) -> Log:
    broker = {
        "kind": "rabbitmq",
        "addresses": server.address,
        "queue": "{topic}.{partition}",
        "topics": {"create": True, "partitions": lab.PARTITIONS},
    }
    return Rabbit("rabbitmq", broker, "bare ASGI, aio-pika's publish", "rabbitmq", server.address)


def _pulsar(server: PulsarServer) -> Log:
    topic = f"{server.admin_url}/admin/v2/persistent/public/default/{lab.FLOOR_TOPIC}/partitions"
    httpx.put(topic, json=lab.PARTITIONS, timeout=60, trust_env=False).raise_for_status()
    broker = {
        "kind": "pulsar",
        "service_url": server.service_url,
        "admin_url": server.admin_url,
        "topics": {"create": True, "partitions": lab.PARTITIONS},
    }
    return Log("pulsar", broker, "bare ASGI, send_async", "pulsar", server.service_url)


@dataclass(frozen=True)
class _Kind:
    make: Any
    server: Any = None


_KINDS = {
    "embedded": _Kind(_embedded),
    "kafka": _Kind(_kafka, lambda: KafkaServer(brief=False)),
    "rabbitmq": _Kind(_rabbitmq, RabbitServer),
    "pulsar": _Kind(_pulsar, PulsarServer),
}


@contextlib.contextmanager
def standing(kind: str, remarks: list[str]) -> Iterator[Log | None]:
    """With its server, which is stopped at the end. None, with a remark, where that is missing."""
    of = _KINDS[kind]
    server = of.server() if of.server else None
    started = [] if server is None else lab.attempt(server, NAMES[kind], remarks)
    with lab.stopping(started):
        yield None if server and not started else of.make(server)
