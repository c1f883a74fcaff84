"""Read the queues of RabbitMQ with the high-level client of aio-pika, which shares no code with the
driver."""

from __future__ import annotations

import asyncio

import aio_pika

from waiting import PATIENCE


async def read_back(address: str, queue: str) -> list[aio_pika.abc.AbstractIncomingMessage]:
    """Take all messages out of a queue, and return them in order."""
    connection = await aio_pika.connect(f"amqp://guest:guest@{address}/")
    try:
        channel = await connection.channel()
        await channel.set_qos(1_000)
        found = await channel.get_queue(queue)
        left = found.declaration_result.message_count or 0
        messages: list[aio_pika.abc.AbstractIncomingMessage] = []
        async with found.iterator() as iterator:
            while len(messages) < left:
                message = await asyncio.wait_for(anext(iterator), PATIENCE)
                await message.ack()
                messages.append(message)
        return messages
    finally:
        await connection.close()


async def read_topic(address: str, topic: str, partitions: int) -> list[list[bytes]]:
    """Take all messages out of a topic, and return their bodies by partition, in order."""
    queues = [await read_back(address, f"{topic}.{number}") for number in range(partitions)]
    return [[message.body for message in queue] for queue in queues]
