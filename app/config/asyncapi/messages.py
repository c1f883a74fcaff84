"""The messages of the AsyncAPI document: headers and payload of an event in each content mode, by
kind of broker.
"""

from __future__ import annotations

from typing import Any

from app.config.model.brokers import Broker, PulsarBroker

Part = dict[str, Any]

_REQUIRED = ("specversion", "id", "source", "type")
_OPTIONAL = ("subject", "time", "dataschema")
_MEANING = {
    "specversion": "the version of CloudEvents",
    "id": "identifies the event, together with source",
    "source": "the origin of the event: a URI reference",
    "type": "what happened",
    "subject": "the subject within the source",
    "time": "when: RFC 3339",
    "dataschema": "URI of the schema of the data",
}
_SPELLINGS = {"ce_": "underscore", "ce-": "hyphen", "CE-": "capitals"}
_MEDIA_TYPES = {
    "json": "application/cloudevents+json",
    "protobuf": "application/cloudevents+protobuf",
    "avro": "application/cloudevents+avro",
}


def prefix_of(broker: Broker) -> str:
    """Return the prefix of attribute names in the headers or properties of the broker."""
    if isinstance(broker, PulsarBroker):
        return broker.names
    return "ce-" if broker.kind == "rabbitmq" else "ce_"


def binary(prefix: str) -> Part:
    """Return the message of binary mode: attributes in headers, data as the value."""
    spelled = {name: _spelled(prefix, name) for name in (*_REQUIRED, *_OPTIONAL)}
    headers: Part = {
        "type": "object",
        "required": [spelled[name] for name in _REQUIRED],
        "properties": {
            there: {"type": "string", "description": _MEANING[name]}
            for name, there in spelled.items()
        },
    }
    headers["properties"][spelled["specversion"]]["examples"] = ["1.0"]
    return {
        "name": f"event-binary-{_SPELLINGS[prefix]}",
        "title": "A CloudEvent in binary mode",
        "summary": f"Attributes are headers that begin with {prefix}; the data is the unchanged value.",
        "headers": headers,
        "payload": {},
    }


def structured(format_: str) -> Part:
    """Return the message of structured mode. ``format_`` is ``as_received`` or a format."""
    message = {
        "name": f"event-structured-{format_.replace('_', '-')}",
        "title": "A CloudEvent in structured mode",
        "summary": ("The document holds the whole event; its media type names the format."),
        "payload": _document() if format_ == "json" else {},
    }
    if format_ in _MEDIA_TYPES:
        message["contentType"] = _MEDIA_TYPES[format_]
    return message


def _document() -> Part:
    """Return the JSON Schema of an event in the JSON format (JSON event format 3)."""
    properties: Part = {
        name: {"type": "string", "minLength": 1, "description": _MEANING[name]}
        for name in (*_REQUIRED, *_OPTIONAL)
    }
    properties["datacontenttype"] = {"type": "string", "description": "the media type of the data"}
    properties["data"] = {"description": "the data, as JSON"}
    properties["data_base64"] = {"type": "string", "description": "the data, if it is not JSON"}
    return {"type": "object", "required": list(_REQUIRED), "properties": properties}


def _spelled(prefix: str, name: str) -> str:
    return prefix + (name[0].upper() + name[1:] if prefix == "CE-" else name)
