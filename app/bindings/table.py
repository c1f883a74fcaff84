"""Which binding belongs to which kind of broker: a further broker is a further row.

Records that are carried on unread keep key, headers and body; the content type goes where that kind of
broker has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from app.bindings import kafka, pulsar, rabbitmq
from app.bindings.content_coding import CONTENT
from app.bindings.profile import Profile
from app.bindings.reading import names_in
from app.bindings.record import Decoded, Record
from app.bindings.run import Run
from app.bindings.transcode import Writing
from app.errors import SenderError
from app.event.validate import clip

EncodeRun = Callable[[Run, Writing, Iterable[bytes | None]], Iterable[Record] | None]


def one_by_one(_run: Run, _writing: Writing, _keys: Iterable[bytes | None]) -> None:
    """Of a binding that has no shorter way."""


class Decode(Protocol):
    """``bound``: bytes that a body may grow to when its content coding is undone."""

    def __call__(self, record: Record, *, bound: int = CONTENT) -> Decoded: ...


class Binding(msgspec.Struct, frozen=True):
    """How events and records of one kind of broker become each other.

    ``encode``  event, choices and key to a record. Raises SenderError where it cannot hold the event.
    ``decode``  record to event, liberally. Raises InvalidEvent, NotACloudEvent, SenderError (413, 415).
    ``names``   id, source and type of a record that is no valid event, as far as it has them.
    ``copied``  a record of any kind, event or not, as one of this kind that says the same. Raises
                SenderError where it would say something else.
    ``encode_run``  ``encode`` for events that look alike; None where each has to be looked at.
    """

    encode: Callable[[Decoded, Writing, bytes | None], Record]
    decode: Decode
    names: Callable[[Record], Mapping[str, str]]
    copied: Callable[[Record], Record]
    encode_run: EncodeRun = one_by_one


def with_type_in_header(record: Record) -> Record:
    """For brokers without a property of that name; a header that is there already is the sender's. Nor have
    they typed values: one without a text goes as null, but of an attribute, which null would unset.

    Raises SenderError for such a one: what is no event would become one.
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
    """For RabbitMQ: what a header says is said by the property too, where it fits."""
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
    ),
    "pulsar": Binding(
        pulsar.encode, pulsar.decode, _names(pulsar.profile(pulsar.LIBERAL)), with_type_in_header
    ),
}
"""By the ``kind`` of a broker in the configuration."""
