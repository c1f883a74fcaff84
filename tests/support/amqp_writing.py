"""Encode records as the header tables that a RabbitMQ client would send, and exchanges as the text
of a target.
"""

from __future__ import annotations

from app.bindings.amqp_table import KEY_HEADER, TableValue
from app.bindings.record import Record
from app.model.route import Exchange
from app.routing.places import fixed_place


def at_exchange(exchange: str, routing_key: str) -> str:
    return fixed_place(Exchange(broker="rabbit", exchange=exchange, routing_key=routing_key))


def to_table(record: Record) -> dict[str, TableValue]:
    """Return the AMQP header table of a record: text, or bytes where the value is not UTF-8.

    A table cannot repeat a name, so the first value of a repeated header is kept.
    """
    table: dict[str, TableValue] = {}
    natives = record.natives
    for name, value in record.headers:
        table.setdefault(name, natives[name] if name in natives else _string_of(value))
    if record.key is not None:
        table[KEY_HEADER] = _string_of(record.key)
    return table


def _string_of(value: bytes | None) -> TableValue:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
