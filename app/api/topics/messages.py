"""Convert a message of a log to JSON, and read messages as events of one subscription.

An event is shown in the JSON event format, even if it is stored in another format. A document that Skybridge
cannot read is shown as its content type and bytes.
"""

from __future__ import annotations

import base64

import msgspec

from app.api.access.redaction import ALL, Redaction
from app.api.asked.brokers import Brokers
from app.bindings.record import Decoded, Native, Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import in_version
from app.bindings.wrapping import RecordLocation, wrap
from app.errors import SenderError
from app.formats import json
from app.model.message import Message
from app.model.subscription import Subscription

WITHHELD: dict[str, object] = {"withheld": "data"}
"""The member that an answer has in place of data that the caller may not see."""


def to_json(message: Message, kind: str, *, raw: bool = False, shown: Redaction = ALL) -> bytes:
    """Return the members of ``answers.MessageView`` as JSON.

    Args:
        message: The message to show.
        kind: The protocol of its broker.
        raw: Whether to add the record in wire format, for callers that may see everything.
        shown: What the caller may see.
    """
    record = message.record
    view: dict[str, object] = {
        "topic": message.partition.topic,
        "partition": message.partition.number,
        "position": message.position,
        "time_ms": message.time_ms,
        **key_json(record.key if shown.shows_everything else None),
    }
    try:
        decoded = BINDINGS[kind].decode(record)
        view |= _opaque(decoded, shown) if decoded.opaque else _event(decoded, shown)
    except SenderError as fault:
        view["fault"] = str(fault)
        view |= _foreign(record) if shown.shows_everything else WITHHELD
    if raw and shown.shows_everything:
        view["record"] = record_json(record)
    return msgspec.json.encode(view)


def one_line(document: bytes) -> bytes:
    """Return the same JSON on one line, because a line end would end the server-sent event. Line ends occur
    only between the tokens of JSON, so they can be removed."""
    return document.replace(b"\r", b" ").replace(b"\n", b" ")


def record_json(record: Record) -> dict[str, object]:
    """Return the members of ``answers.RecordView``: the record in wire format, with values that are not UTF-8
    in base64."""
    return {
        "headers": [
            {
                "name": _printable_name(name),
                **text_or_base64("value", value),
                **_typed(record.natives.get(name)),
            }
            for name, value in record.headers
        ],
        **text_or_base64("body", record.body),
        "content_type": _printable(record.content_type),
        "message_id": _printable(record.message_id),
        "time_ms": record.time_ms,
    }


def _typed(value: Native | None) -> dict[str, object]:
    return {} if value is None or isinstance(value, bytes) else {"typed": value}


def text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    """Return one member: text under ``name``, or base64 under the name with the suffix "_base64" for bytes
    that are not UTF-8."""
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": _base64(value or b"")}


def _event(decoded: Decoded, shown: Redaction) -> dict[str, object]:
    """Return the members that show an event."""
    event, withheld = shown.event(decoded.event)
    return {
        "mode": decoded.mode.value,
        "content_type": _printable(decoded.media_type),
        "event": msgspec.Raw(json.write_event(event)),
        **({"foreign": _pairs(decoded)} if shown.shows_everything else {}),
        **({"withheld": withheld} if withheld else {}),
    }


def _opaque(decoded: Decoded, shown: Redaction) -> dict[str, object]:
    """Return the members that show a document in a format that Skybridge cannot read."""
    more: dict[str, object] = WITHHELD
    if shown.shows_everything:
        body = _base64(decoded.document or b"")
        more = {"body_base64": body, "foreign": _pairs(decoded)}
    return {
        "mode": decoded.mode.value,
        "content_type": _printable(decoded.media_type),
        "attributes": decoded.event.attributes,
        **more,
    }


def _foreign(record: Record) -> dict[str, object]:
    """Return the members that show a record that is not an event."""
    return {
        "headers": [[_printable_name(name), _text(value)] for name, value in record.headers],
        "body_base64": None if record.body is None else _base64(record.body),
    }


def _printable_name(name: str) -> str:
    """Return a header name. Bytes that are not UTF-8, which Kafka allows in names, become replacement
    characters."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _printable(text: str | None) -> str | None:
    """Return a text of the broker with bytes that are not UTF-8 replaced, or None."""
    return None if text is None else _printable_name(text)


def _pairs(decoded: Decoded) -> list[list[str | None]]:
    """Return the headers that do not belong to the event."""
    return [[_printable_name(name), _text(value)] for name, value in decoded.foreign]


def key_json(key: bytes | None) -> dict[str, object]:
    """Return the members that show a key: text, or base64 if it is not UTF-8."""
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


class EventReader:
    """A reader that decodes messages for one subscription, in the CloudEvents version of the subscription.
    Foreign messages are wrapped in an event, as the worker does."""

    def __init__(self, brokers: Brokers, subscription: Subscription) -> None:
        self._subscription = subscription
        self._broker = subscription.source.broker
        self._decode = BINDINGS[brokers.kinds[self._broker]].decode
        self._lasting = brokers.logs[self._broker].capabilities.positions

    def read(self, message: Message, known: Decoded | None = None) -> Decoded | None:
        """Return the event of a message, or None if it has none. ``known`` is the event if a worker has
        already decoded it."""
        decoded = known
        if decoded is None:
            try:
                decoded = self._decode(message.record)
            except SenderError:
                if self._subscription.on_foreign != "wrap":
                    return None
                decoded = wrap(message.record, self._origin(message))
        return in_version(decoded, self._subscription.specversion)

    def _origin(self, message: Message) -> RecordLocation:
        """Return the place of a record, which the event that wraps the record names as its source."""
        topic, number = message.partition.topic, message.partition.number
        if not self._lasting:
            return RecordLocation(self._broker, topic, number)
        return RecordLocation(self._broker, topic, number, message.position, message.time_ms)


def json_of(decoded: Decoded | None) -> bytes | None:
    """Return the event in the JSON event format. Return None without an event, or if its document has a
    format that Skybridge cannot read."""
    return None if decoded is None or decoded.opaque else json.write_event(decoded.event)
