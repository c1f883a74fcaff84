"""A few valid documents and messages of every kind, which property tests mutate."""

from __future__ import annotations

from typing import NamedTuple

from app.bindings import http
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.event.convert import as_version
from app.event.value import AttributeType, CloudEvent, DataForm
from app.event.versions import VERSIONS
from app.formats import avro, json, protobuf

_REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
_ALL = _REQUIRED | {
    "time": "2026-11-20T10:00:00.5Z", "subject": "gr\u00fcn %20", "dataschema": "urn:schema:1",
    "flag": "true", "number": "-5", "text": '"quoted"',
}  # fmt: skip
_TYPES = {"flag": AttributeType.BOOLEAN, "number": AttributeType.INTEGER}

EVENTS = [
    CloudEvent(_REQUIRED),
    CloudEvent(_ALL, b'{"a":[1.10,null,"\\u00e9"]}', DataForm.JSON, _TYPES),
    CloudEvent(_ALL | {"datacontenttype": "text/csv; charset=iso-8859-1"}, b"\xe9", DataForm.TEXT),
    CloudEvent(_ALL | {"datacontenttype": "image/png"}, b"\x00\xff", DataForm.OPAQUE, _TYPES),
    CloudEvent(_REQUIRED | {"datacontenttype": "application/json"}, b"null"),
]
OF_EVERY_VERSION = [as_version(event, version) for event in EVENTS for version in VERSIONS]
_OLD = [
    (
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/","eventType":"t","contentType":"a/b",'
        b'"extensions":{"a":1,"b":{"c":[]}},"data":"AA=="}'
    ),
    b'{"specversion":"0.2","id":"1","source":"/","type":"t","m":{"a":1},"data":{"b":2}}',
    (
        b'{"specversion":"0.3","id":"1","source":"/","type":"t","datacontentencoding":"base64",'
        b'"datacontenttype":"a/b","data":"AA=="}'
    ),
]
_JSON = [json.write_event(event) for event in OF_EVERY_VERSION]
DOCUMENTS = [
    *_JSON,
    *_OLD,
    json.write_batch(_JSON[:3]),
    json.write_batch(_OLD[:1]),
    *(protobuf.write_event(event) for event in EVENTS),
    protobuf.write_batch([protobuf.write_event(event) for event in EVENTS]),
    *(avro.write_event(event) for event in EVENTS),
]


class BinaryMessage(NamedTuple):
    """A message in binary mode. ``content_type`` is the content-type property of a broker that has
    one."""

    headers: tuple[Header, ...]
    body: bytes | None
    content_type: str | None = None


def _sent(event: CloudEvent) -> BinaryMessage:
    message = http.encode(Decoded(event, ContentMode.BINARY), EncodeOptions())
    headers = tuple((name.lower(), value.encode()) for name, value in message.headers)
    return BinaryMessage(headers, message.body)


def _stored(kind: str, event: CloudEvent, writing: EncodeOptions) -> BinaryMessage:
    record: Record = BINDINGS[kind].encode(Decoded(event, ContentMode.BINARY), writing, None)
    return BinaryMessage(record.headers, record.body, record.content_type)


REQUESTS = [_sent(event) for event in OF_EVERY_VERSION]
MESSAGES = {
    kind: [
        _stored(kind, event, writing)
        for event in OF_EVERY_VERSION
        for writing in (EncodeOptions(), EncodeOptions(names="ce_"), EncodeOptions(strings="json"))
    ]
    for kind in ("kafka", "rabbitmq", "pulsar")
}
