"""The floors of delivery from a broker: what one would write without Skybridge.

``kafka``     aiokafka reads a page, aiohttp posts it with 64 in flight, then its offsets are committed.
``rabbitmq``  aio-pika takes messages, aiohttp posts each, then it is acknowledged; 64 in flight.
``lanes``     aiokafka, and webhooks in order per key on raw transports (``lanes``).

The first two keep no order. Prints one line of JSON with the process's own CPU time a delivery, counted
from the first to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterable
from uuid import uuid4

import aio_pika
import aiohttp
import lanes
import uvloop
from aio_pika.abc import AbstractIncomingMessage
from aiokafka import AIOKafkaConsumer, ConsumerRecord
from bare_client import IN_FLIGHT, Counted


def consumer_of(options: argparse.Namespace) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        options.source,
        bootstrap_servers=options.address,
        group_id=f"floor-{uuid4().hex}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


async def from_kafka(options: argparse.Namespace, counted: Counted) -> None:
    async with consumer_of(options) as consumer, session_of() as session:
        while not counted.all.done():
            found = await consumer.getmany(timeout_ms=500, max_records=500)
            supply = iter([record for records in found.values() for record in records])
            workers = (post_all(session, options.port, supply, counted) for _ in range(IN_FLIGHT))
            await asyncio.gather(*workers)
            if found:
                await consumer.commit()


async def post_all(
    session: aiohttp.ClientSession,
    port: int,
    supply: Iterable[ConsumerRecord[bytes, bytes]],
    counted: Counted,
) -> None:
    for record in supply:
        fields = {name.replace("ce_", "ce-", 1): value.decode() for name, value in record.headers}
        await post(session, port, fields, record.value or b"")
        counted.add()


async def from_rabbitmq(options: argparse.Namespace, counted: Counted) -> None:
    """``source``: names of queues, with commas between them."""
    queues = options.source.split(",")
    async with (
        await aio_pika.connect(f"amqp://guest:guest@{options.address}/") as connection,
        session_of() as session,
    ):
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=IN_FLIGHT // len(queues))

        async def take(message: AbstractIncomingMessage) -> None:
            async with message.process():
                fields = {name: str(value) for name, value in message.headers.items()}
                fields["content-type"] = message.content_type or ""
                await post(session, options.port, fields, message.body)
            counted.add()

        for name in queues:
            await (await channel.get_queue(name)).consume(take)
        await counted.all


async def from_kafka_in_lanes(options: argparse.Namespace, counted: Counted) -> None:
    async with consumer_of(options) as consumer:
        await lanes.deliver(consumer, options.port, counted)


async def post(
    session: aiohttp.ClientSession, port: int, fields: dict[str, str], body: bytes
) -> None:
    async with session.post(f"http://127.0.0.1:{port}/", data=body, headers=fields) as answer:
        await answer.read()
        answer.raise_for_status()


def session_of() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT))


KINDS = {"kafka": from_kafka, "rabbitmq": from_rabbitmq, "lanes": from_kafka_in_lanes}


async def measure(options: argparse.Namespace) -> float:
    counted = Counted(options.requests)
    await KINDS[options.kind](options, counted)
    return await counted.all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("--address", required=True, help="host:port of the broker")
    parser.add_argument("--source", required=True, help="topic, or queues")
    parser.add_argument("--port", type=int, required=True, help="of the webhook")
    parser.add_argument("--requests", type=int, required=True)
    print(json.dumps({"microseconds": uvloop.run(measure(parser.parse_args()))}))


if __name__ == "__main__":
    main()
