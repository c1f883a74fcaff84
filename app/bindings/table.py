"""The table of bindings by kind of broker. A new kind of broker is a new row.

A record that is copied to another broker without decoding keeps its key, headers and body. Its content type
moves to the place that the target broker uses for it: a header or a property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from app.bindings import kafka, pulsar, rabbitmq
from app.bindings.content_coding import CONTENT
from app.bindings.profile import Profile
from app.bindings.reading import names_in
from app.bindings.record import Decoded, Header, Record, RecordForm
from app.bindings.run import EventColumns
from app.bindings.transcode import EncodeOptions
from app.errors import SenderError
from app.event.validate import clip

EncodeRun = Callable[[EventColumns, EncodeOptions, Iterable[bytes | None]], Iterable[Record] | None]


def no_columns(_run: EventColumns, _writing: EncodeOptions, _keys: Iterable[bytes | None]) -> None:
    """Return None, because the binding cannot encode a whole batch by column. The caller then encodes each
    event."""


FormOf = Callable[[tuple[str, ...], str | None, EncodeOptions, Sequence[Header]], RecordForm | None]


class Decode(Protocol):
    """The signature of a binding's decode function.

    Args:
        record: The record to read.
        bound: The most bytes that the body may have after its content coding is undone.
    """

    def __call__(self, record: Record, *, bound: int = CONTENT) -> Decoded: ...


class Binding(msgspec.Struct, frozen=True):
    """The functions that convert between events and the records of one kind of broker.

    Attributes:
        encode: Make a record from an event, the encoding options and the key. Raises SenderError if the
            record cannot hold the event.
        decode: Make an event from a record, accepting all deviations. Raises InvalidEvent, NotACloudEvent or
            SenderError (413, 415).
        names: Return id, source and type of a record that is no valid event. Attributes that cannot be read
            are left out.
        copied: Convert any record, event or not, to the form of this kind of broker. Raises SenderError if
            its meaning would change.
        record_form: Return the function that makes the records of events with the same attribute names. Returns
            None if each event must be encoded on its own.
        encode_run: Encode the events of a batch by column. Returns None if each event must be encoded on its
            own.
    """

    encode: Callable[[Decoded, EncodeOptions, bytes | None], Record]
    decode: Decode
    names: Callable[[Record], Mapping[str, str]]
    copied: Callable[[Record], Record]
    record_form: FormOf
    encode_run: EncodeRun = no_columns


def with_type_in_header(record: Record) -> Record:
    """Return the record with its content type in the header ``content-type``, for brokers without such a
    property.

    A content-type header that the sender set stays as it is. These brokers have no typed header values, so a
    value without a text form becomes null.

    Raises:
        SenderError: A value without a text form is in a header that would be read as an attribute. Null would
            unset the attribute, so the meaning of the record would change.
    """
    lost = [name for name, text in record.headers if text is None and name in record.natives]
    for name in filter(rabbitmq.FOREIGN.claims, lost):
        kind = type(record.natives[name]).__name__
        raise SenderError(f"header {clip(name)} is of type {kind}, which this broker does not have")
    named = record.content_type
    if named is None:
        return record
    headers = record.headers
    if all(name.lower() != kafka.CONTENT_TYPE for name, _ in headers):
        headers = (*headers, (kafka.CONTENT_TYPE, named.encode("utf-8", "surrogateescape")))
    return replace(record, headers=headers, content_type=None)


def with_type_in_property(record: Record) -> Record:
    """Return the record for RabbitMQ. The value of its content-type header is also set as the property, if it
    is short enough."""
    if record.content_type is not None:
        return record
    given = next(
        (value for name, value in record.headers if name.lower() == kafka.CONTENT_TYPE), None
    )
    if not given or len(given) > rabbitmq.SHORT_STRING:
        return record
    return replace(record, content_type=given.decode("utf-8", "surrogateescape"))


def _names(profile: Profile) -> Callable[[Record], Mapping[str, str]]:
    return lambda record: names_in(record, profile)


_KAFKA = Binding(
    kafka.encode,
    kafka.decode,
    _names(kafka.profile(kafka.LIBERAL)),
    with_type_in_header,
    kafka.record_form,
    kafka.encode_run,
)

BINDINGS: Mapping[str, Binding] = {
    "embedded": _KAFKA,  # its records are Kafka's
    "kafka": _KAFKA,
    "rabbitmq": Binding(
        rabbitmq.encode,
        rabbitmq.decode,
        _names(rabbitmq.profile(rabbitmq.LIBERAL)),
        with_type_in_property,
        rabbitmq.record_form,
    ),
    "pulsar": Binding(
        pulsar.encode,
        pulsar.decode,
        _names(pulsar.profile(pulsar.LIBERAL)),
        with_type_in_header,
        pulsar.record_form,
    ),
}
"""The binding of each broker, by the ``kind`` of the broker in the configuration."""
