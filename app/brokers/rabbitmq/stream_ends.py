"""Find the first and last offset of a stream, and messages at an offset. AMQP has no request for this, so a
few messages are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel, DeliveryChannel
from app.brokers.rabbitmq.connection import RabbitConnection, close_channel
from app.brokers.rabbitmq.queue_ownership import ignored
from app.brokers.rabbitmq.read_frames import STREAM_OFFSET, Delivered

CHUNK = 10_000  # more messages than one chunk of a stream can have


class StreamEnds(NamedTuple):
    """The first offset of a stream, and the offset of the next message. They are equal if the stream is
    empty."""

    earliest: int
    latest: int


async def ends_of(connection: RabbitConnection, queue: str) -> StreamEnds:
    """Return the first and the next offset of a stream, by reading its first message and its last chunk."""
    first = await peek(connection, queue, "first", 1)
    last = await peek(connection, queue, "last", CHUNK) if first else []
    return StreamEnds(offset_in(first[0]), offset_in(last[-1]) + 1) if last else StreamEnds(0, 0)


async def offset_at(connection: RabbitConnection, queue: str, time_ms: int) -> int:
    """Return the offset of the first message stored at ``time_ms`` or later, or up to a second before.

    AMQP has whole seconds, and the server compares the times of chunks. If no message is that new, return
    the offset of the next message.
    """
    moment = datetime.fromtimestamp(max(0, time_ms) // 1_000, UTC)
    found = await peek(connection, queue, moment, 1)
    return offset_in(found[0]) if found else (await ends_of(connection, queue)).latest


async def peek(
    connection: RabbitConnection, queue: str, place: str | int | datetime, most: int
) -> list[Delivered]:
    """Return up to ``most`` messages from a place of the stream on, without waiting for new ones.

    The server sends existing messages before it answers the next request on the channel.
    """
    found: list[Delivered] = []
    channel = await connection.open_channel(DeliveryChannel(found.append))
    try:
        await consume_from(channel, queue, place, most)
        await channel.basic_qos(prefetch_count=most)
    finally:
        await close_channel(channel)
    return found


async def consume_from(
    channel: AbstractChannel, queue: str, place: str | int | datetime, prefetch: int
) -> None:
    await channel.basic_qos(prefetch_count=prefetch)
    await channel.basic_consume(queue, ignored, arguments={STREAM_OFFSET: place})


def offset_in(delivered: Delivered) -> int:
    if delivered.offset is None:
        raise ValueError("a delivery of a stream has no offset")
    return delivered.offset
