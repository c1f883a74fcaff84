"""Answer the questions for the SDKs with the code of Skybridge."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from app.bindings import http, kafka
from app.bindings.record import ContentMode, Decoded, Record
from app.bindings.transcode import EncodeOptions
from app.errors import InvalidEvent, SenderError
from app.event.convert import as_version
from app.event.media_types import declares_json
from app.event.value import AttributeType, CloudEvent, DataForm

NAME = "skybridge"
_FORMS = {"json": DataForm.JSON, "text": DataForm.TEXT, "base64": DataForm.OPAQUE}


class Skybridge:
    """Skybridge in the place of an SDK that answers questions."""

    name = NAME

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            if question["do"] == "read":
                return {"events": [seen(each.event) for each in decoded(question)]}
            return {"message": _written(question)}
        except (SenderError, InvalidEvent) as refusal:
            return {"error": str(refusal)}


def decoded(question: Mapping[str, Any]) -> list[Decoded]:
    message = question["message"]
    if question["binding"] == "kafka":
        headers = tuple((name, _bytes(value)) for name, value in message["headers"])
        return [kafka.decode(Record(_bytes(message["key"]), headers, _bytes(message["value"])))]
    pairs = [(name.lower().encode(), _bytes(value) or b"") for name, value in message["headers"]]
    return http.decode(pairs, _bytes(message["body"]) or b"", **question.get("switches", {}))


def seen(event: CloudEvent) -> dict[str, Any]:
    attributes = {**event.attributes, "specversion": event.version}
    return {"attributes": attributes, "data": _data(event)}


def _data(event: CloudEvent) -> dict[str, str] | None:
    return None if event.data is None else {"base64": b64encode(event.data).decode()}


def event_of(given: Mapping[str, Any], version: str = "1.0") -> CloudEvent:
    """Return the event that a question describes as a ``CloudEvent`` of the given version."""
    attributes = {
        name: text_of(value) for name, value in given["attributes"].items() if name != "specversion"
    }
    if "schemaurl" in attributes:
        attributes["dataschema"] = attributes.pop("schemaurl")
    types = {
        name: AttributeType.BOOLEAN if isinstance(value, bool) else AttributeType.INTEGER
        for name, value in given["attributes"].items()
        if isinstance(value, bool | int)
    }
    data, form = None, DataForm.OPAQUE
    if given["data"] is not None:
        ((name, text),) = given["data"].items()
        data, form = b64decode(text) if name == "base64" else text.encode(), _FORMS[name]
    event = CloudEvent({"specversion": "1.0", **attributes}, data, form, types)
    return as_version(event, version)


def text_of(value: Any) -> str:
    """Return the canonical text of an attribute (core 1.3). For a Map of an older version, return
    compact JSON."""
    if isinstance(value, bool | int | dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _written(question: Mapping[str, Any]) -> dict[str, Any]:
    event = event_of(question["events"][0], question["version"])
    whole = Decoded(event, ContentMode.BINARY)
    if question["binding"] == "kafka":
        record = kafka.encode(whole, EncodeOptions(mode=question["mode"]), None)
        headers = [[name, _base64(value)] for name, value in record.headers]
        return {"key": None, "headers": headers, "value": _base64(record.body)}
    if question["mode"] == "batch":
        message = http.encode_batch([whole])
    else:
        message = http.encode(whole, EncodeOptions(mode=question["mode"]))
    headers = [[name, _base64(value.encode())] for name, value in message.headers]
    return {"headers": headers, "body": _base64(message.body)}


def is_json(event: CloudEvent) -> bool:
    """Return True if the data bytes are one JSON value."""
    return event.data_form is DataForm.JSON or declares_json(event.datacontenttype)


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else b64decode(value)


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()
