"""The Protobuf format: what is written is read again, types included, and no bytes can hurt."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from google.protobuf import any_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidEvent, SenderError
from app.event.value import AttributeType, CloudEvent, DataForm
from app.formats import protobuf, protobuf_schema
from app.formats.protobuf_time import CannotHold, to_text, to_timestamp
from app.formats.typed import FormatNotInstalled, NotRepresentable
from event_strategies import events
from typed_events import ALL_TYPES, mutated, mutations, outgoing, read_or_fault

MINIMAL = {"specversion": "1.0", "id": "1", "source": "/", "type": "t"}


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def field(number: int, value: int | bytes | str) -> bytes:
    """One field as the wire has it: written by hand, so that the reader has a second opinion."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def attribute(name: str, number: int, value: int | bytes | str) -> bytes:
    return field(5, field(1, name) + field(2, field(number, value)))


def timestamp(seconds: int, nanos: int) -> bytes:
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos).SerializeToString()


REQUIRED = field(1, "1") + field(2, "/") + field(3, "1.0") + field(4, "t")


def codes(raw: bytes) -> set[str]:
    with pytest.raises(InvalidEvent) as refused:
        protobuf.read_event(raw)
    return {fault.code for fault in refused.value.faults}


def test_a_field_that_stands_twice_is_merged_as_protobuf_says() -> None:
    """Protobuf's encoding: the last of a field that is there once counts, with every reader, so that the
    event has the attribute once (core 1.1). Entries of the map and alternatives are looked at closer.
    """
    assert protobuf.read_event(REQUIRED + field(1, "2")).id == "2"
    assert codes(REQUIRED + attribute("n", 3, "x") * 2) == {"duplicate-attribute"}


def test_every_type_is_read() -> None:
    """Protobuf 2.1, with the field numbers of the published description."""
    event = protobuf.read_event(
        REQUIRED
        + attribute("b", 1, 1)
        + attribute("i", 2, -7)
        + attribute("s", 3, "grün")
        + attribute("y", 4, b"\xff\xef")
        + attribute("u", 5, "urn:a:b")
        + attribute("r", 6, "//authority/path")
        + attribute("t", 7, timestamp(1522949460, 5))
    )
    assert dict(event.attributes) == MINIMAL | {
        "b": "true",
        "i": "-7",
        "s": "grün",
        "y": "/+8=",
        "u": "urn:a:b",
        "r": "//authority/path",
        "t": "2018-04-05T17:31:00.000000005Z",
    }
    assert event.types == {"b": AttributeType.BOOLEAN, "i": AttributeType.INTEGER}


def test_what_is_written_has_the_published_numbers_and_types() -> None:
    """time is a Timestamp, dataschema a URI, and the rest as the event knows it."""
    raw = protobuf.write_event(ALL_TYPES)
    for part in (
        field(3, "1.0"),
        attribute("time", 7, timestamp(to_timestamp("2026-11-20T10:00:00Z")[0], 500_000_000)),
        attribute("dataschema", 5, "urn:schema:1"),
        attribute("subject", 3, "grün"),
        attribute("flag", 1, 0),
        attribute("number", 2, -(2**31)),
        attribute("blob", 3, "/+8="),
        field(6, b"\xff\x00"),
    ):
        assert part in raw
    assert protobuf.read_event(raw) == ALL_TYPES


@given(events())
def test_any_event_comes_back_or_is_refused(event: CloudEvent) -> None:
    """decode(encode(e)) = e but for the offset of time; what cannot be held is refused, not changed."""
    expected = outgoing(event)
    if "time" in event.attributes:
        try:
            time = to_text(*to_timestamp(event.attributes["time"]))
        except CannotHold:
            with pytest.raises(NotRepresentable):
                protobuf.write_event(event)
            return
        expected = CloudEvent({**expected.attributes, "time": time}, event.data, types=event.types)
    back = protobuf.read_event(protobuf.write_event(event))
    assert (back.attributes, back.data, back.types) == (
        expected.attributes,
        expected.data,
        expected.types,
    )


@pytest.mark.parametrize(
    ("data", "form", "declared", "written"),
    [
        (None, DataForm.OPAQUE, "text/plain", b""),
        (b"", DataForm.OPAQUE, None, field(6, b"")),
        (b"a", DataForm.OPAQUE, None, field(6, b"a")),
        (b"a", DataForm.TEXT, None, field(7, "a")),
        (b"null", DataForm.JSON, "application/json", field(7, "null")),  # J9
        (b'{"a":1.10}', DataForm.OPAQUE, "application/json", field(7, '{"a":1.10}')),
        (b"\xe9", DataForm.OPAQUE, "text/plain; charset=iso-8859-1", field(7, "é")),
        (b"\xe9", DataForm.OPAQUE, "text/plain", field(6, b"\xe9")),
        (b"\x08\x01", DataForm.OPAQUE, "application/protobuf", field(6, b"\x08\x01")),
    ],
)
def test_data_has_the_field_of_its_type(
    data: bytes | None, form: DataForm, declared: str | None, written: bytes
) -> None:
    """Protobuf 3: text is text_data, anything else binary_data; and the bytes come back."""
    more = {} if declared is None else {"datacontenttype": declared}
    raw = protobuf.write_event(CloudEvent(MINIMAL | more, data, form))
    assert raw.endswith(written)
    assert protobuf.read_event(raw).data == data


@pytest.mark.parametrize(
    ("url", "schema"),
    [
        ("type.googleapis.com/google.protobuf.Any", "https://type.googleapis.com/google.protobuf.Any"),
        ("urn:x:y", "urn:x:y"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("said", [False, True])
def test_a_message_keeps_its_type(url: str, schema: str, said: bool) -> None:
    """Protobuf 3: dataschema is the type URL, which has no scheme where https is meant (any.proto)."""
    packed = field(8, any_pb2.Any(type_url=url, value=b"\x08\x01").SerializeToString())
    event = protobuf.read_event(
        REQUIRED + (attribute("dataschema", 5, url) if said else b"") + packed
    )
    assert event.data == b"\x08\x01"
    assert event.attributes["dataschema"] == schema
    assert event.datacontenttype == "application/protobuf"
    assert protobuf.write_event(event).endswith(packed)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "missing-attribute"),
        (REQUIRED + field(1, ""), "missing-attribute"),
        (REQUIRED + field(3, "0.9"), "unsupported-specversion"),
        (REQUIRED + field(3, "0.3"), "unsupported-specversion"),
        (REQUIRED + attribute("id", 3, "2"), "duplicate-attribute"),
        (REQUIRED + attribute("a", 3, "2") * 2, "duplicate-attribute"),
        (REQUIRED + attribute("MyExt", 3, "2"), "bad-attribute-name"),
        (REQUIRED + attribute("", 3, "2"), "bad-attribute-name"),
        (REQUIRED + attribute("data", 3, "2"), "bad-attribute-name"),
        (REQUIRED + field(5, field(1, "a")), "not-one-value"),
        (REQUIRED + field(5, field(1, "a") + field(2, b"")), "not-one-value"),
        (REQUIRED + field(5, field(1, "a") + field(2, field(1, 1) + field(2, 5))), "not-one-value"),
        (REQUIRED + attribute("subject", 2, 5), "wrong-type"),
        (REQUIRED + attribute("time", 2, 5), "wrong-type"),
        (REQUIRED + attribute("time", 3, "2026"), "bad-timestamp"),
        (REQUIRED + attribute("time", 7, timestamp(253402300799, 10**9 + 1)), "bad-timestamp"),
        (REQUIRED + attribute("dataschema", 5, "//host"), "bad-uri"),
        (REQUIRED + attribute("subject", 3, ""), "empty-attribute"),
        (REQUIRED + attribute("datacontenttype", 3, "xyz") + field(7, "x"), "bad-media-type"),
        (REQUIRED + attribute("n", 2, 2**31), "integer-out-of-range"),
        (REQUIRED + attribute("s", 3, "\x07"), "forbidden-character"),
        (REQUIRED + field(6, b"") + field(7, ""), "several-data"),
        (REQUIRED + attribute("datacontenttype", 3, "a/b; charset=x-no") + field(7, "x"), "data-not-encodable"),
        (REQUIRED + attribute("datacontenttype", 3, "text/plain") + field(8, b""), "data-not-as-declared"),
        (REQUIRED + attribute("dataschema", 5, "urn:a:b") + field(8, field(1, "x/y")), "data-not-as-declared"),
        (REQUIRED + field(3, b"\xff"), "bad-protobuf"),
        (REQUIRED[:-1], "bad-protobuf"),
        (b"".join(attribute(f"n{n}", 1, 1) for n in range(1025)), "too-many-attributes"),
    ],
)  # fmt: skip
def test_what_is_invalid_is_named(raw: bytes, code: str) -> None:
    """Core 1.1 to 1.3 hold in every format; where a library would pick one of two, we refuse."""
    assert codes(raw) == {code}


def test_every_fault_is_told_at_once() -> None:
    """A sender corrects an event in one go."""
    assert codes(field(1, "1") + attribute("A", 3, "") + attribute("time", 7, field(2, -1))) == {
        "missing-attribute",
        "bad-attribute-name",
        "bad-timestamp",
    }


@pytest.mark.parametrize("time", ["2016-12-31T23:59:60Z", "2026-01-01T00:00:00.1234567891Z"])
def test_a_time_that_cannot_be_held_is_not_written(time: str) -> None:
    """Refused with the reason; a rounded time would be another event."""
    with pytest.raises(NotRepresentable) as refused:
        protobuf.write_event(CloudEvent(MINIMAL | {"time": time}))
    assert (refused.value.status, refused.value.code) == (422, "not-representable")
    assert refused.value.faults[0].at == "/time"


def test_another_version_is_not_written() -> None:
    """The package is v1: a 0.3 event inside would be of no specification."""
    with pytest.raises(NotRepresentable):
        protobuf.write_event(CloudEvent(MINIMAL, version="0.3"))


def test_a_batch_keeps_the_bytes_of_each_event() -> None:
    """Each slice is what the sender wrote, fields unknown to us included."""
    documents = [REQUIRED + field(99, "later"), protobuf.write_event(ALL_TYPES)]
    read = protobuf.read_batch(protobuf.write_batch(documents), 2)
    assert [document for _, document in read] == documents
    assert [event.id for event, _ in read] == ["1", "1"]
    assert protobuf.read_batch(b"") == []


def test_the_faults_of_a_batch_have_their_index() -> None:
    """All of them, located."""
    with pytest.raises(InvalidEvent) as refused:
        protobuf.read_batch(protobuf.write_batch([b"", REQUIRED, REQUIRED + field(3, "0.9")]))
    faults = refused.value.faults
    assert [fault.index for fault in faults] == [0, 0, 0, 0, 2]
    assert faults[-1].at == "/2/specversion"


def test_a_batch_is_bounded() -> None:
    """H5, and an answer that does not grow with what was sent."""
    with pytest.raises(SenderError) as refused:
        protobuf.read_batch(protobuf.write_batch([REQUIRED] * 3), 2)
    assert refused.value.status == 413
    with pytest.raises(InvalidEvent) as many:
        protobuf.read_batch(protobuf.write_batch([b""] * 5000))
    assert len(many.value.faults) == protobuf.FAULTS_LISTED


@given(mutations)
def test_mutated_bytes_raise_our_errors_only(changes: list[tuple[int, int, str]]) -> None:
    """Whatever arrives, the answer is an event or a fault."""
    raw = mutated(protobuf.write_event(ALL_TYPES), changes)
    read_or_fault(protobuf.read_event, raw)
    read_or_fault(protobuf.read_batch, raw)
    read_or_fault(protobuf.read_batch, protobuf.write_batch([raw]))


@given(st.binary(max_size=200))
def test_random_bytes_raise_our_errors_only(raw: bytes) -> None:
    """As above, from nothing."""
    read_or_fault(protobuf.read_event, raw)
    read_or_fault(protobuf.read_batch, raw)


def test_deep_nesting_is_refused() -> None:
    """Groups without end are the parser's to refuse."""
    assert codes(REQUIRED + b"\x1b" * 200_000) == {"bad-protobuf"}


@pytest.mark.parametrize("read", [protobuf.read_event, protobuf.read_batch])
def test_without_its_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, read: Any) -> None:
    """The base install runs without it and says what is missing."""
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    protobuf_schema.messages.cache_clear()
    with pytest.raises(FormatNotInstalled, match=r"the extra formats") as refused:
        read(b"")
    assert refused.value.status == 415
