"""Records that are carried on unread: the same key, headers and body, and the content type where that
kind of broker has it.
"""

from __future__ import annotations

from msgspec.structs import replace

from app.bindings.kafka_names import CONTENT_TYPE
from app.bindings.rabbitmq_names import FOREIGN
from app.bindings.record import Record
from app.errors import SenderError
from app.event.validate import clip

LONGEST = 255  # bytes of the property (AMQP 0-9-1, 4.2.5.3)


def with_type_in_header(record: Record) -> Record:
    """For brokers without a property of that name; a header that is there already is the sender's. Nor have
    they typed values: one without a text goes as null, but of an attribute, which null would unset.

    Raises SenderError for such a one: what is no event would become one.
    """
    lost = [name for name, text in record.headers if text is None and name in record.natives]
    for name in filter(FOREIGN.claims, lost):
        kind = type(record.natives[name]).__name__
        raise SenderError(f"header {clip(name)} is of type {kind}, which this broker has not")
    named = record.content_type
    if named is None:
        return record
    headers = record.headers
    if all(name.lower() != CONTENT_TYPE for name, _ in headers):
        headers = (*headers, (CONTENT_TYPE, named.encode("utf-8", "surrogateescape")))
    return replace(record, headers=headers, content_type=None)


def with_type_in_property(record: Record) -> Record:
    """For RabbitMQ: what a header says is said by the property too, where it fits."""
    if record.content_type is not None:
        return record
    given = next((value for name, value in record.headers if name.lower() == CONTENT_TYPE), None)
    if not given or len(given) > LONGEST:
        return record
    return replace(record, content_type=given.decode("utf-8", "surrogateescape"))
