"""A message of a log as JSON: the event in its own JSON format, byte for byte where it is one."""

from __future__ import annotations

import base64

import msgspec

from app.bindings import kafka
from app.errors import SenderError
from app.formats import json
from app.model.message import Message


def to_json(message: Message) -> bytes:
    """See ``answers.MessageView``."""
    record = message.record
    view: dict[str, object] = {
        "topic": message.partition.topic,
        "partition": message.partition.number,
        "position": message.position,
        "time_ms": message.time_ms,
        **_key(record.key),
    }
    try:
        view["event"] = msgspec.Raw(json.write_event(kafka.decode(record).event))
    except SenderError as fault:
        view["fault"] = str(fault)
        view["headers"] = [[name, _text(value)] for name, value in record.headers]
        view["body_base64"] = None if record.body is None else _base64(record.body)
    return msgspec.json.encode(view)


def _key(key: bytes | None) -> dict[str, object]:
    if key is None:
        return {"key": None}
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key": None, "key_base64": _base64(key)}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
