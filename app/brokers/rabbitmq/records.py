"""A delivery as a record and a message."""

from __future__ import annotations

import time

from msgspec import structs

from app.bindings.amqp_table import Table, from_table
from app.bindings.record import NO_NATIVES, Record
from app.brokers.rabbitmq.underlay import DeliveredMessage
from app.model.message import Message, Partition

STREAM_OFFSET = "x-stream-offset"
_OF_THE_BROKER = ("x-delivery-count", STREAM_OFFSET)
"""Headers that the broker adds to a delivery; the record that was published has none of them."""


def record_of(delivered: DeliveredMessage) -> Record:
    """With the publisher's headers alone. A long string that is no UTF-8 is a string all the same."""
    properties = delivered.header.properties
    table: Table = properties.headers or {}  # type: ignore[assignment]  # both list what AMQP has
    if any(name in table for name in _OF_THE_BROKER):
        table = {name: value for name, value in table.items() if name not in _OF_THE_BROKER}
    moment = properties.timestamp
    time_ms = None if moment is None else round(moment.timestamp() * 1000)
    record = from_table(
        table, properties.content_type, delivered.body, properties.message_id, time_ms
    )
    if record.natives:
        natives = {n: v for n, v in record.natives.items() if type(v) is not bytes}
        record = structs.replace(record, natives=natives or NO_NATIVES)
    return record


def message_of(
    delivered: DeliveredMessage, partition: Partition, offset: int, position: str, epoch: int
) -> Message:
    """RabbitMQ notes no time of its own: without the publisher's it is the time of arrival here."""
    record = record_of(delivered)
    time_ms = time.time_ns() // 1_000_000 if record.time_ms is None else record.time_ms
    return Message(record, partition, position, offset, time_ms, epoch)
