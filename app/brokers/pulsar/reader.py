"""Reading without a group: for peek, tail, replay and pull."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pulsar

from app.brokers.positions import out_of_range
from app.brokers.pulsar.admin import Admin
from app.brokers.pulsar.answers import Internal
from app.brokers.pulsar.connection import Connection
from app.brokers.pulsar.errors import AdminError, client_error
from app.brokers.pulsar.messages import message_of
from app.brokers.pulsar.positions import Position, place_of, read_position
from app.errors import PositionOutOfRange
from app.libraries.httpx_client import httpx
from app.model.message import Message, Partition

READ_WITHIN = 10.0  # seconds for a message that the broker says it has
BUNDLE = 100  # messages of one turn in a thread


async def read(
    admin: Admin, connection: Connection, partition: Partition, start: str, until: str | None
) -> AsyncGenerator[Message, None]:
    """From ``start`` up to but not including ``until``, or the end as it is now."""
    wire = await wire_of(admin, partition)
    held = await admin.internal(wire)
    first = read_position(start)
    end = held.latest if until is None else min(read_position(until), held.latest)
    if not held.earliest <= first <= held.latest:
        raise out_of_range(partition, start, held.earliest.text, held.latest.text)
    if first >= end or _empty(held):
        return
    reader = await connection.reader(wire, first.message_id())
    try:
        async for place, raw in _messages(connection, reader, first):
            if place >= end:
                return
            yield message_of(raw, place, place.offset, partition, epoch=0)
    finally:
        await connection.bridge.ask(reader.close, within=READ_WITHIN)


async def _messages(
    connection: Connection, reader: Any, first: Position
) -> AsyncGenerator[tuple[Position, Any], None]:
    """What there is, also in a batch of which only a part was asked for."""
    while await connection.bridge.ask(reader.has_message_available, within=READ_WITHIN):
        for raw in await asyncio.to_thread(_at_hand, reader):
            place = place_of(raw.message_id())
            if place >= first:
                yield place, raw


def _at_hand(reader: Any) -> list[Any]:
    """In a thread, by calls that block: those that do not can turn messages round.
    Raises ClientError, or TimeoutError when the first one does not come."""
    found: list[Any] = []
    wait = round(READ_WITHIN * 1000)
    try:
        while len(found) < BUNDLE:
            found.append(reader.read_next(wait))
            wait = 0
    except pulsar.Timeout as late:
        if not found:  # else no more is at hand
            raise TimeoutError from late
    except pulsar.PulsarException as error:
        raise client_error(error) from error
    return found


async def wire_of(admin: Admin, partition: Partition) -> str:
    """What a partition is called. Raises PositionOutOfRange where there is none."""
    try:
        wires = await admin.wires(partition.topic)
    except AdminError as error:
        if error.status == httpx.codes.NOT_FOUND:
            raise PositionOutOfRange(f"there is no topic {partition.topic}") from error
        raise
    if partition.number not in wires:
        raise PositionOutOfRange(f"there is no partition {partition}")
    return wires[partition.number]


def _empty(held: Internal) -> bool:
    return held.earliest > held.last
