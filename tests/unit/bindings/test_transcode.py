"""Moves between modes, formats and versions, and batches: the body untouched where a clause allows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.documents import write_batch, write_document
from app.bindings.modes import JSON_DOCUMENT, is_of_family, wire_type
from app.bindings.reading_documents import opaque_document, read_batch, read_document
from app.bindings.record import ContentMode, Decoded
from app.bindings.transcode import PLAIN, EncodeOptions, as_document, in_version, is_binary
from app.errors import InvalidEvent, SenderError
from app.event.value import CloudEvent, DataForm
from app.event.versions import VERSIONS
from app.formats.json import read_event, write_event
from app.formats.typed import NotRepresentable
from event_strategies import events

BINARY, STRUCTURED, BATCH = ContentMode.BINARY, ContentMode.STRUCTURED, ContentMode.BATCH
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
DOCUMENT = (
    b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data": {"b" : 1.10, "a":1e400}}'
)
FORMATS = ["json", "protobuf", "avro"]


def arrived(document: bytes, media_type: str = "application/cloudevents+json") -> Decoded:
    return read_document(wire_type(media_type.encode()), document)


# Modes


@pytest.mark.parametrize(
    ("mode", "came", "binary"),
    [
        ("binary", BINARY, True), ("binary", STRUCTURED, True), ("binary", BATCH, True),
        ("structured", BINARY, False), ("as_received", BINARY, True),
        ("as_received", STRUCTURED, False), ("as_received", BATCH, False),
    ],
)  # fmt: skip
def test_the_mode_is_the_route_s_choice(mode: str, came: ContentMode, binary: bool) -> None:
    """Design: content mode."""
    assert is_binary(Decoded(CloudEvent(GOOD), came), mode) is binary


def test_data_of_a_document_is_its_own_slice() -> None:
    """Trap 6, J9, J11: structured to binary parses nothing; null, absent and empty are told apart."""
    head = DOCUMENT.partition(b',"data"')[0]
    for member, data, form in [
        (b',"data": {"b" : 1.10, "a":1e400}', b'{"b" : 1.10, "a":1e400}', DataForm.JSON),
        (b',"data":null', b"null", DataForm.JSON),
        (b',"data":"text"', b'"text"', DataForm.JSON),
        (b',"data_base64":""', b"", DataForm.OPAQUE),
        (b',"datacontenttype":"text/plain; charset=iso-8859-1","data":"\xc3\xa9"', b"\xe9", DataForm.TEXT),
        (b"", None, DataForm.OPAQUE),
    ]:  # fmt: skip
        event = arrived(head + member + b"}").event
        assert (event.data, event.data_form) == (data, form)


def test_an_event_whose_data_is_an_event_stays_a_document() -> None:
    """K4, H4: in binary mode its content type would make it the inner one."""
    for media_type in ("application/cloudevents+json", "Application/CloudEvents-batch; a=b"):
        assert is_of_family(media_type)
        event = CloudEvent(GOOD | {"datacontenttype": media_type}, b"{}")
        assert not is_binary(Decoded(event, STRUCTURED), "binary")
    assert not is_of_family("application/json")


# Formats


@pytest.mark.parametrize("name", ["as_received", "json"])
@pytest.mark.parametrize(
    "media_type", ["application/cloudevents+json; a=b", "application/cloudevents", "Application/CloudEvents+JSON"]
)  # fmt: skip
def test_a_document_of_the_format_asked_for_is_not_touched(name: str, media_type: str) -> None:
    """H11, K16: bytes and parameters."""
    decoded = arrived(DOCUMENT, media_type)
    document, written = write_document(decoded, name)

    assert document is DOCUMENT
    assert written == media_type


@given(events(), st.lists(st.sampled_from(FORMATS), max_size=5))
def test_an_event_goes_through_any_formats_with_its_bytes(
    event: CloudEvent, hops: list[str]
) -> None:
    """Issue 4.4: attributes and every byte of data; only what a format cannot hold is refused."""
    decoded = Decoded(event, BINARY)
    for name in hops:
        try:
            document, media_type = write_document(decoded, name)
        except NotRepresentable:
            continue
        decoded = arrived(document, media_type)
    told = {**event.attributes}
    if event.data_form is DataForm.JSON:
        told.setdefault("datacontenttype", "application/json")  # J13, I4

    assert decoded.event.data == event.data
    assert {**told, **decoded.event.attributes} | {"time": ""} == told | {"time": ""}
    assert decoded.event.types == event.types


@pytest.mark.parametrize("charset", ["utf-16", "utf-16le", "iso-8859-1", "gb18030"])
def test_a_document_keeps_its_charset_until_it_is_joined(charset: str) -> None:
    """Spec 2.3: what is forwarded is what came; a batch has one charset."""
    text = write_event(CloudEvent(GOOD | {"subject": "ab"})).decode()
    body = text.encode(charset)
    decoded = arrived(body, f"application/cloudevents+json; charset={charset}")

    assert write_document(decoded) == (body, f"application/cloudevents+json; charset={charset}")
    assert write_batch([decoded])[0] == b"[" + text.encode() + b"]"


# Versions


def test_a_version_that_came_is_not_written_anew() -> None:
    """No parse when mode and version stay: the very same value."""
    decoded = arrived(DOCUMENT)

    assert in_version(decoded, "as_received") is decoded
    assert in_version(decoded, "1.0") is decoded


@given(events(), st.sampled_from(list(VERSIONS)))
def test_a_move_of_version_leaves_the_document_and_keeps_the_rest(
    event: CloudEvent, version: str
) -> None:
    """V7: data, foreign headers and mode stay; a document of another version does not."""
    foreign = (("t", b"1"), ("t", None))
    decoded = Decoded(event, STRUCTURED, DOCUMENT, JSON_DOCUMENT, foreign)
    moved = in_version(decoded, version)

    assert (moved.event.version, moved.event.data) == (version, event.data)
    assert (moved.mode, moved.foreign) == (STRUCTURED, foreign)
    assert (moved.document is None) == (version != "1.0")


def test_a_move_of_version_keeps_the_format() -> None:
    """A route that fixes the version says nothing of formats."""
    document, media_type = write_document(Decoded(CloudEvent(GOOD), BINARY), "protobuf")
    moved = in_version(arrived(document, media_type), "0.3")

    assert media_type == "application/cloudevents+protobuf"
    with pytest.raises(NotRepresentable):  # and that format has no older versions
        write_document(moved)
    assert b'"0.3"' in write_document(moved, "json")[0]


# Batches


@given(st.lists(events(), max_size=4), st.sampled_from(["json", "protobuf"]))
def test_a_batch_is_joined_and_split(batch: list[CloudEvent], name: str) -> None:
    """J14, I6: each element its own slice, which is a document again."""
    try:
        document, media_type = write_batch([Decoded(event, BINARY) for event in batch], name)
    except NotRepresentable:
        return
    split = read_batch(wire_type(media_type.encode()), document)

    assert [each.event.data for each in split] == [event.data for event in batch]
    assert [each.event.id for each in split] == [event.id for event in batch]
    assert all(each.mode is BATCH for each in split)
    assert all(
        arrived(each.document or b"", each.media_type or "").event == each.event for each in split
    )
    assert write_batch(split, name) == (document, media_type)


def test_documents_are_joined_as_they_came() -> None:
    """J14: not written anew; a byte order mark has no place within an array."""
    document, media_type = write_batch([arrived(DOCUMENT), arrived(b"\xef\xbb\xbf" + DOCUMENT)])

    assert document == b"[" + DOCUMENT + b"," + DOCUMENT + b"]"
    assert media_type == "application/cloudevents-batch+json; charset=utf-8"


def test_events_of_several_versions_are_not_joined() -> None:
    """I6: a batch has one specversion."""
    older = in_version(arrived(DOCUMENT), "0.3")
    with pytest.raises(InvalidEvent) as refusal:
        write_batch([arrived(DOCUMENT), older, arrived(DOCUMENT)])
    assert [(fault.code, fault.index) for fault in refusal.value.faults] == [
        ("mixed-specversions", 1)
    ]


def test_avro_has_no_batch() -> None:
    """Avro format: refused, rather than invented."""
    with pytest.raises(SenderError, match="has no batch"):
        write_batch([arrived(DOCUMENT)], "avro")


# What nobody reads


def test_an_opaque_document_passes_or_is_refused_but_never_maimed() -> None:
    """4.7: byte for byte, in no version but its own, in no other format, in no batch."""
    decoded = opaque_document(wire_type(b"application/cloudevents+cbor; A=b"), b"\0\xff")

    assert in_version(decoded, "0.3") is decoded
    for writing in (
        PLAIN,
        EncodeOptions(mode="structured"),
        EncodeOptions(mode="binary", format="json"),
    ):
        assert not is_binary(decoded, writing.mode)
        assert as_document(decoded, writing) == (b"\0\xff", "application/cloudevents+cbor; A=b")
    for name in FORMATS:
        with pytest.raises(SenderError) as refusal:
            as_document(decoded, EncodeOptions(mode="as_received", format=name))
        assert refusal.value.status == 415
    with pytest.raises(SenderError, match="cannot be converted into json"):
        write_batch([decoded])


def test_reading_back_is_the_json_reader_s() -> None:
    """One reader for one format, whatever the binding."""
    assert arrived(DOCUMENT).event == read_event(DOCUMENT)
