"""Clauses of docs/conformance.md that no test of a module shows."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from pydantic import ValidationError

from app.bindings import http, kafka
from app.bindings.record import ContentMode, Decoded
from app.bindings.transcode import PLAIN, EncodeOptions
from app.config.model.config import Limits
from app.errors import InvalidEvent
from app.event.convert import as_newest
from app.event.value import AttributeType, CloudEvent
from app.formats.json import read_event, write_event

KIB = 1024
REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
DRAFT = {"specversion": "0.1", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = EncodeOptions(mode="structured")


def faults_of_document(**members: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as refusal:
        read_event(json.dumps(DRAFT | members).encode())
    return [(fault.code, fault.at) for fault in refusal.value.faults]


@pytest.mark.parametrize("name", ["id", "source", "type"])
def test_draft_refuses_an_empty_required_attribute(name: str) -> None:
    """004 id, source, type: there, and not empty."""
    assert faults_of_document(**{name: ""}) == [("empty-attribute", f"/{name}")]


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_draft_refuses_an_event_without_a_required_attribute(name: str) -> None:
    """004 specversion, id, source, type: REQUIRED."""
    document = {member: value for member, value in DRAFT.items() if member != name}
    with pytest.raises(InvalidEvent) as refusal:
        read_event(json.dumps(document).encode())

    assert ("missing-attribute", f"/{name}") in [(f.code, f.at) for f in refusal.value.faults]


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("time", "noon", "bad-timestamp"),
        ("time", "2018-04-05", "bad-timestamp"),
        ("schemaurl", "a b", "bad-uri-reference"),
        ("schemaurl", "", "empty-attribute"),
    ],
)
def test_draft_refuses_a_time_or_schema_that_is_none(name: str, text: str, code: str) -> None:
    """004 time, schemaurl: RFC 3339, RFC 3986."""
    assert faults_of_document(**{name: text}) == [(code, f"/{name}")]


def test_draft_refuses_an_empty_version() -> None:
    """004 specversion: an empty version is none of those that are known."""
    codes = {code for code, at in faults_of_document(specversion="") if at == "/specversion"}

    assert codes <= {"empty-attribute", "unsupported-specversion"}
    assert codes


def test_draft_refuses_a_content_type_that_is_none() -> None:
    """004 contenttype: RFC 2046."""
    assert faults_of_document(contenttype="xyz") == [("bad-media-type", "/contenttype")]


def test_an_event_written_as_newest_says_1_0() -> None:
    """core specversion: whatever version it came in."""
    event = as_newest(read_event(json.dumps(DRAFT).encode()))

    assert json.loads(write_event(event))["specversion"] == "1.0"
    assert ("ce_specversion", b"1.0") in kafka.encode(
        Decoded(event, ContentMode.BINARY), PLAIN, None
    ).headers


NEARLY_64_KIB = 64 * KIB - 200
LARGE = {
    "data": CloudEvent(REQUIRED, b"\xff" * NEARLY_64_KIB),
    "one attribute": CloudEvent(REQUIRED | {"subject": "s" * NEARLY_64_KIB}),
    "many attributes": CloudEvent(REQUIRED | {f"e{n}": "x" * 320 for n in range(200)}),
    "text to be coded": CloudEvent(REQUIRED | {"subject": "é" * (NEARLY_64_KIB // 2)}),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("writing", [PLAIN, STRUCTURED], ids=["binary", "structured"])
def test_an_event_of_64_kib_is_forwarded(name: str, writing: EncodeOptions) -> None:
    """I1: from HTTP into a record and out again, within the bounds that every listener has."""
    event = LARGE[name]
    message = http.encode(Decoded(event, ContentMode.BINARY), writing)
    headers = [(each.lower().encode(), value.encode()) for each, value in message.headers]
    (arrived,) = http.decode(headers, message.body)
    left = kafka.decode(kafka.encode(arrived, writing, None)).event

    assert (left.attributes, left.data) == (event.attributes, event.data)
    assert len(message.body) <= Limits().body
    assert len(headers) <= Limits().header_fields
    assert sum(len(each) + len(value) for each, value in headers) <= Limits().header_bytes


@pytest.mark.parametrize("setting", ["body", "header_bytes"])
def test_no_listener_can_be_configured_below_64_kib(setting: str) -> None:
    """I1: even in base64 or percent code, which cost most."""
    with pytest.raises(ValidationError):
        Limits(**{setting: 64 * KIB})
    assert Limits(body=len(b64encode(bytes(64 * KIB))) + 500)


def test_extensions_are_members_at_the_top() -> None:
    """J3: on the way in and on the way out; an object of extensions is of 0.1."""
    event = CloudEvent(REQUIRED | {"ext": "5"}, types={"ext": AttributeType.INTEGER})
    document = write_event(event)

    assert json.loads(document)["ext"] == 5
    assert read_event(document) == event
    with pytest.raises(InvalidEvent):
        read_event(json.dumps(REQUIRED | {"extensions": {"ext": 5}}).encode())


def test_bytes_without_a_type_gain_none() -> None:
    """J5, J10: neither in the document nor in the record that it becomes."""
    document = json.dumps(REQUIRED | {"data_base64": "e30="}).encode()
    record = kafka.encode(Decoded(read_event(document), ContentMode.STRUCTURED), PLAIN, None)

    assert record.body == b"{}"
    assert all(name != "content-type" for name, _ in record.headers)
    assert "datacontenttype" not in json.loads(write_event(kafka.decode(record).event))


def test_a_type_without_data_is_kept() -> None:
    """core datacontenttype: it may stand alone."""
    event = CloudEvent(REQUIRED | {"datacontenttype": "text/csv"})
    record = kafka.encode(Decoded(event, ContentMode.BINARY), PLAIN, None)

    assert kafka.decode(record).event == event
    assert read_event(write_event(event)) == event
