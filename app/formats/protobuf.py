"""The Protobuf event format with its batch, which needs the extra ``formats``.

Typed attributes become canonical text, and are written with the same type again. When an event is written, a
timestamp that Protobuf cannot hold exactly is refused. Timestamps are written in UTC, because the format has
no offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.errors import Fault, InvalidEvent, SenderError
from app.event.types import is_uri, is_uri_reference
from app.event.validate import clip
from app.event.value import CloudEvent
from app.formats.protobuf_data import read_data, write_data
from app.formats.protobuf_schema import messages
from app.formats.protobuf_time import CannotHold, to_text, to_timestamp
from app.formats.typed import (
    ATTRIBUTES,
    CORE,
    AttributeReader,
    NotRepresentable,
    attributes_to_write,
    native_value,
    place,
    too_many,
)

MEDIA_TYPE = "application/cloudevents+protobuf"
BATCH_MEDIA_TYPE = "application/cloudevents-batch+protobuf"
FAULTS_LISTED = 1000  # after so many faults, reading a batch stops

_FIELDS = {"specversion": "spec_version", "id": "id", "source": "source", "type": "type"}
_KINDS = ("ce_boolean", "ce_integer", "ce_string", "ce_bytes", "ce_uri", "ce_uri_ref", "ce_timestamp")  # fmt: skip
_KIND_OF = {bool: "ce_boolean", int: "ce_integer", str: "ce_string"}


def _is_reference(text: str) -> bool:
    return not text or is_uri_reference(
        text
    )  # an empty reference is valid (RFC 3986 4.2), unless another rule forbids it


_Check = tuple[Callable[[str], bool], str, str]  # accepts, code of the fault, expected form
_URIS: Mapping[str, _Check] = {
    "ce_uri": (is_uri, "bad-uri", "absolute URI"),
    "ce_uri_ref": (_is_reference, "bad-uri-reference", "URI reference"),
}
_ANYTHING: _Check = (lambda _: True, "", "")


def read_event(document: bytes) -> CloudEvent:
    """Return the event in a Protobuf document. Raises InvalidEvent with every fault, located by attribute name."""
    return _event(_parsed(messages().event, document))


def peek(document: bytes) -> Mapping[str, object]:
    """Return the required attributes of a document that may be no valid event. Raises InvalidEvent if the
    document is not Protobuf.
    """
    message = _parsed(messages().event, document)
    return {name: getattr(message, field) for name, field in _FIELDS.items()}


def read_batch(document: bytes, limit: int | None = None) -> list[tuple[CloudEvent, bytes]]:
    """Return each event of a batch with its slice of the document. A batch may be empty.

    Raises:
        InvalidEvent: Events have faults, all of which are listed with their ``index``.
        SenderError: The batch has more than ``limit`` events (413).
    """
    documents = _parsed(messages().batch, document).events
    if limit is not None and len(documents) > limit:
        title = f"The batch has {len(documents)} events; at most {limit} are accepted at once"
        raise SenderError(title, status=413, code="batch-too-large")
    found: list[tuple[CloudEvent, bytes]] = []
    faults: list[Fault] = []
    for index, each in enumerate(documents):
        try:
            found.append((read_event(each), each))
        except InvalidEvent as invalid:
            faults += [
                replace(fault, at=f"/{index}{fault.at}", index=index) for fault in invalid.faults
            ]
        if len(faults) >= FAULTS_LISTED:  # bounds the size of the answer
            break
    if faults:
        raise InvalidEvent(faults)
    return found


def write_event(event: CloudEvent) -> bytes:
    """Return the event as a Protobuf document. Raises NotRepresentable (422) if the format cannot hold it."""
    attributes = attributes_to_write(event, "Protobuf")
    message = messages().event()
    for name, text in attributes.items():
        if name in _FIELDS:
            setattr(message, _FIELDS[name], text)
        else:
            value = message.attributes.add(key=name).value
            _write(value, name, native_value(text, event.types.get(name)))
    write_data(message, event, attributes)
    return bytes(message.SerializeToString(deterministic=True))


def write_batch(documents: Sequence[bytes]) -> bytes:
    """Return a batch that contains these documents unchanged."""
    return bytes(messages().batch(events=documents).SerializeToString(deterministic=True))


def _parsed(kind: Any, document: bytes) -> Any:
    try:
        return kind.FromString(document)
    except messages().unreadable:
        fault = Fault(
            "bad-protobuf", "The document is not a valid Protobuf message.", rule="Protobuf"
        )
        raise InvalidEvent([fault]) from None


def _event(message: Any) -> CloudEvent:
    if len(message.attributes) > ATTRIBUTES:
        raise too_many(len(message.attributes))
    arriving = AttributeReader()
    for name, field in _FIELDS.items():
        text = getattr(message, field)
        if text:  # absent and empty have the same bytes
            arriving.add(name, text)
    for entry in message.attributes:
        _read(entry.key, entry.value, arriving)
    return arriving.event(read_data(message, arriving))


def _read(name: str, value: Any, arriving: AttributeReader) -> None:
    kinds = [kind for kind in _KINDS if value.HasField(kind)]
    if len(kinds) != 1:
        detail = f"{clip(name)} has {len(kinds) or 'no'} values; expected one."
        arriving.refuse("not-one-value", detail, place(name), "Protobuf 2.4")
    elif kinds == ["ce_timestamp"]:
        _read_time(name, value.ce_timestamp, arriving)
    else:
        _read_plain(name, kinds[0], getattr(value, kinds[0]), arriving)


def _read_plain(name: str, kind: str, held: Any, arriving: AttributeReader) -> None:
    """Add an attribute that is not a timestamp. If its value does not have its Protobuf type, add the fault.

    Core attributes are validated by their own rules later.
    """
    accepts, code, expected = _URIS.get(kind, _ANYTHING)
    if name in CORE or accepts(held):
        arriving.add(name, held)
    else:
        detail = f"{clip(name)} is {clip(held)}, which is not a {expected} (RFC 3986)."
        arriving.refuse(code, detail, place(name), "core 1.3")


def _read_time(name: str, timestamp: Any, arriving: AttributeReader) -> None:
    try:
        arriving.add(name, to_text(timestamp.seconds, timestamp.nanos))
    except CannotHold as error:
        detail = f"{clip(name)} is out of range: a Protobuf timestamp {error}."
        arriving.refuse("bad-timestamp", detail, place(name), "core 1.3")


def _write(value: Any, name: str, held: str | bool | int) -> None:
    if name == "time":
        _write_time(value, str(held))
    else:
        setattr(value, "ce_uri" if name == "dataschema" else _KIND_OF[type(held)], held)


def _write_time(value: Any, text: str) -> None:
    try:
        seconds, nanos = to_timestamp(text)
    except CannotHold as error:
        detail = f"time is {clip(text)}, but a Protobuf timestamp {error}."
        fault = Fault("timestamp-not-representable", detail, place("time"), "core 1.3")
        raise NotRepresentable("Protobuf", fault) from None
    value.ce_timestamp.seconds, value.ce_timestamp.nanos = seconds, nanos
    value.ce_timestamp.SetInParent()
