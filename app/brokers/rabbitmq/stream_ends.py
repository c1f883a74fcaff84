"""Find where a stream begins and ends, and which message is at an offset. AMQP has no question for it, so a few
messages are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel, DeliveredMessage, Deliveries
from app.brokers.rabbitmq.connection import Wire, close_channel
from app.brokers.rabbitmq.owned_partition import STREAM_OFFSET
from app.brokers.rabbitmq.queue_ownership import handed_on

CHUNK = 10_000  # more messages than the server puts into one chunk of a stream


class Ends(NamedTuple):
    """The first offset held, and the one that the next message gets; equal when nothing is held."""

    earliest: int
    latest: int


async def ends_of(wire: Wire, queue: str) -> Ends:
    """AMQP does not tell; the first message and the last chunk do."""
    first = await peek(wire, queue, "first", 1)
    last = await peek(wire, queue, "last", CHUNK) if first else []
    return Ends(offset_in(first[0]), offset_in(last[-1]) + 1) if last else Ends(0, 0)


async def offset_at(wire: Wire, queue: str, time_ms: int) -> int:
    """Of the first message stored at a time (since the epoch) or later, or up to a second before: AMQP
    asks in whole seconds, and the server looks at the times of its chunks. Where nothing is that new, the
    offset of the next message."""
    moment = datetime.fromtimestamp(max(0, time_ms) // 1_000, UTC)
    found = await peek(wire, queue, moment, 1)
    return offset_in(found[0]) if found else (await ends_of(wire, queue)).latest


async def peek(
    wire: Wire, queue: str, place: str | int | datetime, most: int
) -> list[DeliveredMessage]:
    """What is there now: the server sends it before it answers the next question on the channel."""
    found: list[DeliveredMessage] = []
    channel = await wire.open_channel(Deliveries(found.append))
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
    await channel.basic_consume(queue, handed_on, arguments={STREAM_OFFSET: place})


def offset_in(delivered: DeliveredMessage) -> int:
    table = delivered.header.properties.headers or {}
    return int(table[STREAM_OFFSET])  # type: ignore[arg-type]  # every delivery of a stream has one
