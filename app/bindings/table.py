"""Which binding belongs to which kind of broker: a further broker is a further row."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from app.bindings import kafka, pulsar, rabbitmq
from app.bindings.copying import with_type_in_header, with_type_in_property
from app.bindings.record import Decoded, Record
from app.bindings.transcode import Writing


class Binding(msgspec.Struct, frozen=True):
    """How events and records of one kind of broker become each other.

    ``encode``  event, choices and key to a record. Raises SenderError where it cannot hold the event.
    ``decode``  record to event, liberally. Raises InvalidEvent, NotACloudEvent, SenderError (415).
    ``copied``  a record of any kind, event or not, as one of this kind that says the same. Raises
                SenderError where it would say something else.
    """

    encode: Callable[[Decoded, Writing, bytes | None], Record]
    decode: Callable[[Record], Decoded]
    copied: Callable[[Record], Record]


_KAFKA = Binding(kafka.encode, kafka.decode, with_type_in_header)

BINDINGS: Mapping[str, Binding] = {
    "embedded": _KAFKA,  # its records are Kafka's
    "kafka": _KAFKA,
    "rabbitmq": Binding(rabbitmq.encode, rabbitmq.decode, with_type_in_property),
    "pulsar": Binding(pulsar.encode, pulsar.decode, with_type_in_header),
}
"""By the ``kind`` of a broker in the configuration."""
