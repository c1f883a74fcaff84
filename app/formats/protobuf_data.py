"""The three forms of data in the Protobuf format: bytes, text, and a message with the name of its type.

A message becomes the bytes of the payload with the content type ``application/protobuf``. Its type URL
becomes ``dataschema``. So both are kept if the event is converted to another format. A type URL without a
scheme means https, so https is added in ``dataschema``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.event.media_types import MediaType, parse
from app.event.types import is_uri
from app.event.validate import clip
from app.event.value import CloudEvent, DataForm
from app.formats.typed import AttributeReader, Data

_FORMS = ("binary_data", "text_data", "proto_data")
_MESSAGE = "application/protobuf"
_MESSAGES = frozenset(
    {_MESSAGE, "application/x-protobuf", "application/vnd.google.protobuf"}
)  # media types in use for Protobuf messages
_SCHEME = "https://"
_NOTHING: Data = (None, DataForm.OPAQUE)


def read_data(message: Any, arriving: AttributeReader) -> Data:
    """Return the payload and its form. Faults, and attributes that follow from the form of the data, are
    added to ``arriving``."""
    there = [form for form in _FORMS if message.HasField(form)]
    if len(there) > 1:
        detail = f"{' and '.join(there)} exclude each other."
        arriving.refuse("several-data", detail, "/data", "Protobuf 3")
    elif there == ["binary_data"]:
        return message.binary_data, DataForm.OPAQUE
    elif there == ["text_data"]:
        return _from_text(message.text_data, arriving)
    elif there:
        return _from_message(message.proto_data, arriving)
    return _NOTHING


def _from_text(text: str, arriving: AttributeReader) -> Data:
    declared = arriving.attributes.get("datacontenttype")
    if declared is None:
        return text.encode(), DataForm.TEXT
    media_type = parse(declared)
    if media_type is None:  # already a fault of the attribute
        return _NOTHING
    try:
        data = media_type.encode(text)
    except UnicodeError:
        detail = f"text_data cannot be encoded in the charset {clip(media_type.charset or '')}."
        arriving.refuse("data-not-encodable", detail, "/data", "Protobuf 3")
        return _NOTHING
    return data, DataForm.OPAQUE if media_type.is_json else DataForm.TEXT


def _from_message(packed: Any, arriving: AttributeReader) -> Data:
    attributes = arriving.attributes
    if not _is_message(attributes.setdefault("datacontenttype", _MESSAGE)):
        detail = f"proto_data is not a {clip(attributes['datacontenttype'])}."
        arriving.refuse("data-not-as-declared", detail, "/data", "Protobuf 3")
    if packed.type_url:
        _name_type(packed.type_url, arriving)
    return packed.value, DataForm.OPAQUE


def _name_type(type_url: str, arriving: AttributeReader) -> None:
    absolute = type_url if is_uri(type_url) else _SCHEME + type_url
    schema = arriving.attributes.get("dataschema")
    if schema not in {None, type_url, absolute}:
        detail = f"dataschema {clip(schema or '')} is not the type URL {clip(type_url)}."
        arriving.refuse("data-not-as-declared", detail, "/dataschema", "Protobuf 3")
    else:
        arriving.attributes["dataschema"] = absolute


def _is_message(datacontenttype: str) -> bool:
    media_type = parse(datacontenttype)
    return media_type is not None and media_type.essence in _MESSAGES


def write_data(message: Any, event: CloudEvent, attributes: Mapping[str, str]) -> None:
    """Write the payload into the message. It is written as text if the text is exact, as a message if its
    type is known, or else as bytes."""
    data, declared = event.data, attributes.get("datacontenttype")
    if data is None:
        return
    text = _text_of(data, event.data_form, parse(declared) if declared is not None else None)
    if text is not None:
        message.text_data = text
    elif declared is not None and _is_message(declared) and "dataschema" in attributes:
        message.proto_data.type_url = attributes["dataschema"].removeprefix(_SCHEME)
        message.proto_data.value = data
    else:
        message.binary_data = data


def _text_of(data: bytes, form: DataForm, media_type: MediaType | None) -> str | None:
    try:
        if media_type is None:
            return data.decode() if form is DataForm.TEXT else None
        if not (form is DataForm.TEXT or media_type.is_text or media_type.is_json):
            return None
        text = media_type.decode(data)
        return text if media_type.encode(text) == data else None
    except UnicodeError:
        return None
