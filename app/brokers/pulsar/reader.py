"""Read a partition without a subscription, for peek, tail, replay and pull."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pulsar

from app.brokers.positions import out_of_range
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.answers import PartitionInternals
from app.brokers.pulsar.connection import PulsarConnection
from app.brokers.pulsar.ends import ends_for
from app.brokers.pulsar.errors import AdminError, client_error
from app.brokers.pulsar.messages import message_of
from app.brokers.pulsar.positions import BEGINNING, Position, place_of, read_position
from app.errors import PositionOutOfRange
from app.libraries.httpx_client import httpx
from app.model.message import Message, Partition

READ_WITHIN = 10.0  # seconds to wait for a message that the broker has announced
BUNDLE = 100  # most messages that one call in a thread reads


async def read(
    admin: PulsarAdmin,
    connection: PulsarConnection,
    partition: Partition,
    start: str,
    until: str | None,
) -> AsyncGenerator[Message, None]:
    """Yield messages from ``start`` up to but not including ``until``.

    Without ``until``, reading ends at the current end of the partition.
    """
    wire = await wire_of(admin, partition)
    first = read_position(start)
    asked = None if until is None else read_position(until)
    held = await ends_for(admin, wire, first, asked or first)
    end = held.latest if asked is None else min(asked, held.latest)
    if not held.earliest <= first <= held.latest:
        raise out_of_range(partition, start, held.earliest.text, held.latest.text)
    if first >= end or _empty(held):
        return
    reader = await connection.reader(wire, first.message_id())
    try:
        async for place, raw in _to_end(admin, wire, connection, reader, first, held.last):
            if place >= end:
                return
            yield message_of(raw, place, place.offset, partition, epoch=0)
    finally:
        await connection.bridge.ask(reader.close, within=READ_WITHIN)


async def _to_end(
    admin: PulsarAdmin,
    wire: str,
    connection: PulsarConnection,
    reader: Any,
    first: Position,
    last: Position,
) -> AsyncGenerator[tuple[Position, Any], None]:
    """Yield the messages from ``first`` on. A reader that ends before ``last`` counts only after the owner is confirmed.

    Its connection may lead to a broker that has lost the partition. A confirmed owner may end there too, because entries of
    transactions are no messages.
    """
    seen, confirmed = BEGINNING, False
    while True:
        async for place, raw in _messages(connection, reader, first):
            seen = place
            yield place, raw
        if confirmed or seen >= last:
            return
        await admin.confirm_owner(wire)
        confirmed = True


async def _messages(
    connection: PulsarConnection, reader: Any, first: Position
) -> AsyncGenerator[tuple[Position, Any], None]:
    """Yield the available messages from ``first`` on, also if ``first`` is inside a batch."""
    while await connection.bridge.ask(reader.has_message_available, within=READ_WITHIN):
        for raw in await asyncio.to_thread(_at_hand, reader):
            place = place_of(raw.message_id())
            if place >= first:
                yield place, raw


def _at_hand(reader: Any) -> list[Any]:
    """Return the messages that a reader has already, by blocking calls in a thread. The library's calls that
    do not block can change the order.

    Raises ClientError, or TimeoutError if the first message does not arrive.
    """
    found: list[Any] = []
    wait = round(READ_WITHIN * 1000)
    try:
        while len(found) < BUNDLE:
            found.append(reader.read_next(wait))
            wait = 0
    except pulsar.Timeout as late:
        if not found:  # otherwise all available messages were read
            raise TimeoutError from late
    except pulsar.PulsarException as error:
        raise client_error(error) from error
    return found


async def wire_of(admin: PulsarAdmin, partition: Partition) -> str:
    """Return the full name of a partition. Raise PositionOutOfRange if there is no such partition."""
    try:
        wires = await admin.wires(partition.topic)
    except AdminError as error:
        if error.status == httpx.codes.NOT_FOUND:
            raise PositionOutOfRange(f"there is no topic {partition.topic}") from error
        raise
    if partition.number not in wires:
        raise PositionOutOfRange(f"there is no partition {partition}")
    return wires[partition.number]


def _empty(held: PartitionInternals) -> bool:
    return held.earliest > held.last
