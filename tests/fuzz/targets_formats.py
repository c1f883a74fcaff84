"""Events in Protobuf and Avro: read, written again, and read as the same event."""

from __future__ import annotations

from types import ModuleType

from app.bindings.record import ContentMode, Decoded
from app.errors import SenderError
from app.formats import avro, protobuf
from fuzz.target import Target
from reading_checks import answered
from valid_wire import EVENTS


def _check(form: ModuleType, data: bytes) -> None:
    answered(lambda: [Decoded(form.read_event(data), ContentMode.STRUCTURED)])
    try:
        event = form.read_event(data)
    except SenderError:
        return
    again = form.read_event(form.write_event(event))
    assert (again.attributes, again.types, again.data) == (
        event.attributes,
        event.types,
        event.data,
    )


def check_protobuf(data: bytes) -> None:
    """Read one event, and a batch."""
    _check(protobuf, data)
    answered(
        lambda: [Decoded(event, ContentMode.BATCH) for event, _ in protobuf.read_batch(data, 50)]
    )


def check_avro(data: bytes) -> None:
    """Read one event."""
    _check(avro, data)


_PROTOBUF = [protobuf.write_event(event) for event in EVENTS]
TARGETS = (
    Target("protobuf-event", check_protobuf, [*_PROTOBUF, protobuf.write_batch(_PROTOBUF)]),
    Target("avro-event", check_avro, [avro.write_event(event) for event in EVENTS]),
)
