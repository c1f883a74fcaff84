"""The Avro format: what is written is read again, and no bytes can hurt the reader."""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidEvent
from app.event.value import CloudEvent, DataForm
from app.formats import avro, avro_schema
from app.formats.typed import FormatNotInstalled, NotRepresentable
from event_strategies import events
from typed_events import ALL_TYPES, mutated, mutations, outgoing, read_or_fault

MINIMAL = {"specversion": "1.0", "id": "1", "source": "/", "type": "t"}
PUBLISHED = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {
                "name": "attribute",
                "type": {"type": "map", "values": ["null", "boolean", "int", "string", "bytes"]},
            },
            {
                "name": "data",
                "type": [
                    "bytes",
                    "null",
                    "boolean",
                    {
                        "type": "map",
                        "values": [
                            "null",
                            "boolean",
                            {
                                "type": "record",
                                "name": "Value",
                                "fields": [
                                    {
                                        "name": "value",
                                        "type": {
                                            "type": "map",
                                            "values": [
                                                "null",
                                                "boolean",
                                                {"type": "map", "values": "Value"},
                                                {"type": "array", "items": "Value"},
                                                "double",
                                                "string",
                                            ],
                                        },
                                    }
                                ],
                            },
                            "double",
                            "string",
                        ],
                    },
                    {"type": "array", "items": "Value"},
                    "double",
                    "string",
                ],
            },
        ],
    }
)


def document(data: Any = None, /, **attributes: Any) -> bytes:
    """Written by the library with the schema as published, which holds itself."""
    stream = BytesIO()
    fastavro.schemaless_writer(
        stream, PUBLISHED, {"attribute": {**MINIMAL, **attributes}, "data": data}
    )
    return stream.getvalue()


def codes(raw: bytes) -> set[str]:
    with pytest.raises(InvalidEvent) as refused:
        avro.read_event(raw)
    return {fault.code for fault in refused.value.faults}


def test_every_type_comes_back() -> None:
    """Avro 2.1: text keeps its form, so a time is the very text it was."""
    assert avro.read_event(avro.write_event(ALL_TYPES)) == ALL_TYPES


def test_the_published_schema_reads_what_we_write() -> None:
    """Ours is written out to a depth; on the wire nothing of it shows (Avro 2.4)."""
    record = fastavro.schemaless_reader(BytesIO(avro.write_event(ALL_TYPES)), PUBLISHED, None)
    assert record["data"] == b"\xff\x00"
    assert record["attribute"]["number"] == -(2**31)
    assert record["attribute"]["flag"] is False


@given(events())
def test_any_event_comes_back(event: CloudEvent) -> None:
    """decode(encode(e)) = e, with the data's bytes untouched."""
    assert avro.read_event(avro.write_event(event)) == outgoing(event)


@pytest.mark.parametrize(
    ("data", "declared", "expected", "form"),
    [
        (b"\x00", None, b"\x00", DataForm.OPAQUE),
        (None, None, None, DataForm.OPAQUE),
        (True, None, b"true", DataForm.JSON),
        (1.5, "application/json", b"1.5", DataForm.JSON),
        ("a", None, b'"a"', DataForm.JSON),
        ('{"a":1}', "application/json", b'"{\\"a\\":1}"', DataForm.JSON),  # J11
        ("é", "text/plain; charset=iso-8859-1", b"\xe9", DataForm.TEXT),
        (
            {"a": {"value": {"b": {"c": {"value": {"d": [{"value": {"e": None}}]}}}}}, "f": "g"},
            None,
            b'{"a":{"b":{"c":{"d":[{"e":null}]}}},"f":"g"}',
            DataForm.JSON,
        ),
        ([{"value": {"a": 2.0}}, {"value": {}}], None, b'[{"a":2.0},{}]', DataForm.JSON),
    ],
)
def test_data_is_read_in_every_form(
    data: Any, declared: str | None, expected: bytes | None, form: DataForm
) -> None:
    """Avro 3: bytes as they are; anything else is a JSON value, or text where the type says so."""
    more = {} if declared is None else {"datacontenttype": declared}
    event = avro.read_event(document(data, **more))
    assert (event.data, event.data_form) == (expected, form)


@pytest.mark.parametrize(
    ("data", "attributes", "code"),
    [
        (None, {"id": None}, "missing-attribute"),
        (None, {"id": ""}, "empty-attribute"),
        (None, {"id": 5}, "wrong-type"),
        (None, {"time": b"x"}, "wrong-type"),
        (None, {"specversion": "0.9"}, "unsupported-specversion"),
        (None, {"specversion": "0.3"}, "unsupported-specversion"),
        (None, {"My-Ext": "x"}, "bad-attribute-name"),
        (None, {"data": "x"}, "bad-attribute-name"),
        (None, {"time": "2026-11-20"}, "bad-timestamp"),
        (None, {"dataschema": "//host"}, "bad-uri"),
        (None, {"ext": "\x07"}, "forbidden-character"),
        (None, {"datacontenttype": "xyz"}, "bad-media-type"),
        ("x", {"datacontenttype": "xyz"}, "bad-media-type"),
        (True, {"datacontenttype": "text/plain"}, "data-not-text"),
        ("x", {"datacontenttype": "text/plain; charset=x-no"}, "data-not-encodable"),
        (float("nan"), {}, "data-not-json"),
        ([{"value": {"a": float("inf")}}], {}, "data-not-json"),
        (None, {f"n{n}": "" for n in range(1025)}, "too-many-attributes"),
    ],
)
def test_what_is_invalid_is_named(data: Any, attributes: dict[str, Any], code: str) -> None:
    """Core 1.1 to 1.3 hold in every format."""
    assert codes(document(data, **attributes)) == {code}


def test_an_integer_beyond_32_bits_is_refused() -> None:
    """Core 1.3; on the wire an Avro int may be longer than it should."""
    raw = document(n=5).replace(b"\x02n\x04\x0a", b"\x02n\x04\x80\x80\x80\x80\x20")
    assert codes(raw) == {"integer-out-of-range"}


def test_every_fault_is_told_at_once() -> None:
    """A sender corrects an event in one go."""
    assert codes(document(True, id="", time="x", datacontenttype="text/plain")) == {
        "empty-attribute",
        "bad-timestamp",
        "data-not-text",
    }


@pytest.mark.parametrize("tail", [b"", b"\x00\x01", b"\x00\x05", b"\x0e", b"\x02\x00"])
def test_bytes_that_are_no_record_are_refused(tail: bytes) -> None:
    """Cut short, too long, a length below nothing, an unknown branch."""
    assert codes(document(b"")[:-2] + tail) == {"bad-avro"}


@pytest.mark.parametrize("level", [b"\x02\x02a\x04", b"\x02\x02a\x06\x02"])
def test_deep_nesting_is_refused(level: bytes) -> None:
    """The library recurses on the machine's stack: half a megabyte of this used to end a process."""
    head = document(None)[:-1]
    assert codes(head + b"\x06\x02\x02a\x04" + level * 200_000) == {"bad-avro"}
    assert codes(head + b"\x08\x02" + level * 200_000) == {"bad-avro"}


def test_many_values_are_refused_before_they_are_made() -> None:
    """Rule 8: a megabyte of empty objects would be hundreds of megabytes here, and a second of work."""
    raw = document(None)[:-1] + b"\x08\x80\x89\x7a" + b"\x00" * 1_000_001
    with pytest.raises(InvalidEvent, match="too many values"):
        avro.read_event(raw)
    largest = document(b"x" * 1_000_000, **{f"n{n}": n for n in range(1020)})
    assert len(avro.read_event(largest).data or b"") == 1_000_000


@given(mutations)
def test_mutated_bytes_raise_our_errors_only(changes: list[tuple[int, int, str]]) -> None:
    """Whatever arrives, the answer is an event or a fault."""
    raw = document({"a": {"value": {"b": [{"value": {"c": 1.5}}]}}}, ext=5, b=b"x")
    read_or_fault(avro.read_event, mutated(raw, changes))


@given(st.binary(max_size=200))
def test_random_bytes_raise_our_errors_only(raw: bytes) -> None:
    """As above, from nothing."""
    read_or_fault(avro.read_event, raw)


def test_another_version_is_not_written() -> None:
    """The format came with 1.0: a 0.3 event inside would be of no specification."""
    with pytest.raises(NotRepresentable) as refused:
        avro.write_event(CloudEvent(MINIMAL, version="0.3"))
    assert refused.value.status == 422


def test_without_its_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install runs without it and says what is missing."""
    monkeypatch.setitem(sys.modules, "fastavro", None)
    avro_schema._schema.cache_clear()
    with pytest.raises(FormatNotInstalled, match=r"the extra formats") as refused:
        avro.read_event(b"")
    assert refused.value.status == 415
