"""The Avro event format, which needs the extra ``formats``. It has no batch.

Data is always written as bytes. The format also has JSON values, but they do not keep the text of numbers,
and their arrays can contain objects only. When a document is read, data may have any form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from app.errors import Fault, InvalidEvent
from app.event.media_types import MediaType, parse
from app.event.validate import clip
from app.event.value import CloudEvent, DataForm
from app.formats.avro_schema import UnreadableAvro, read_record, write_record
from app.formats.typed import (
    ATTRIBUTES,
    AttributeReader,
    Data,
    attributes_to_write,
    native_value,
    too_many,
)

MEDIA_TYPE = "application/cloudevents+avro"

_BRANCHES = {bool: "boolean", int: "int", str: "string"}
_NOTHING: Data = (None, DataForm.OPAQUE)


def read_event(document: bytes) -> CloudEvent:
    """Return the event in an Avro document. Raises InvalidEvent with every fault, located by attribute name."""
    try:
        record = read_record(document)
    except UnreadableAvro as error:
        fault = Fault("bad-avro", f"The Avro document {error}.", rule="Avro 2.4")
        raise InvalidEvent([fault]) from None
    entries = record["attribute"]
    if len(entries) > ATTRIBUTES:
        raise too_many(len(entries))
    arriving = AttributeReader()
    unset: set[str] = set()
    for entry in entries:
        name, value = entry["name"], entry["value"]
        if name in unset or (value is None and name in arriving.attributes):
            arriving.repeated(name)
        elif value is None:  # null in a union means unset (Avro event format 2.3)
            unset.add(name)
        else:
            arriving.add(name, value)
    return arriving.event(_data(record["data"], arriving))


def peek(document: bytes) -> Mapping[str, object]:
    """Return the attributes of an Avro document that may be no valid event. Raises ValueError if it is not an
    Avro document of this format.
    """
    return {entry["name"]: entry["value"] for entry in read_record(document)["attribute"]}


def write_event(event: CloudEvent) -> bytes:
    """Return the event as an Avro document. Raises NotRepresentable (422) for a version other than 1.0."""
    entries = []
    for name, text in attributes_to_write(event, "Avro").items():
        value = native_value(text, event.types.get(name))
        entries.append({"name": name, "value": (_BRANCHES[type(value)], value)})
    return write_record({"attribute": entries, "data": event.data})


def _data(value: Any, arriving: AttributeReader) -> Data:
    if value is None:
        return _NOTHING
    if isinstance(value, bytes):
        return value, DataForm.OPAQUE
    declared = arriving.attributes.get("datacontenttype")
    media_type = parse(declared) if declared is not None else None
    if declared is None or (media_type is not None and media_type.is_json):
        return _json(value, arriving)
    if media_type is None:  # already a fault of the attribute
        return _NOTHING
    return _text(value, media_type, arriving)


def _json(value: Any, arriving: AttributeReader) -> Data:
    """Return a native value as JSON text. A string becomes a JSON string."""
    plain = {name: _unwrapped(each) for name, each in value.items()} if isinstance(value, dict) else _plain(value)  # fmt: skip
    if not _is_finite(plain):
        detail = "data holds a number that JSON does not have: infinite, or NaN."
        arriving.refuse("data-not-json", detail, "/data", "Avro 3")
        return _NOTHING
    return msgspec.json.encode(plain), DataForm.JSON


def _unwrapped(value: Any) -> Any:
    """Return a member of the outermost object as a plain Python value. An object in this place is an Avro
    record."""
    return _record(value) if isinstance(value, dict) else value


def _record(record: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in record["value"].items()}


def _plain(value: Any) -> Any:
    """Return a value inside a record as a plain Python value. Maps and arrays in this place contain
    records."""
    if isinstance(value, dict):
        return {name: _record(each) for name, each in value.items()}
    return [_record(each) for each in value] if isinstance(value, list) else value


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return all(_is_finite(each) for each in inner)
    return not isinstance(value, float) or math.isfinite(value)


def _text(value: Any, media_type: MediaType, arriving: AttributeReader) -> Data:
    if not isinstance(value, str):
        detail = f"data is neither bytes nor text, but {clip(media_type.essence)} is not JSON."
        arriving.refuse("data-not-text", detail, "/data", "Avro 3")
        return _NOTHING
    try:
        return media_type.encode(value), DataForm.TEXT
    except UnicodeError:
        detail = f"data cannot be encoded in the charset {clip(media_type.charset or 'utf-8')}."
        arriving.refuse("data-not-encodable", detail, "/data", "Avro 3")
        return _NOTHING
