from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.bindings import kafka
from app.bindings.kafka import LIBERAL, STRICT
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import InvalidEvent
from app.event.value import CloudEvent, DataForm

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CE_GOOD: tuple[Header, ...] = tuple((f"ce_{name}", text.encode()) for name, text in GOOD.items())
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1.10}'
BINARY = ContentMode.BINARY


def record(*headers: Header, body: bytes | None = b"x") -> Record:
    return Record(None, headers, body)


def test_binary_mode_writes_one_header_an_attribute_in_plain_utf8() -> None:
    """K12 to K15: ``content-type`` and never ``ce_datacontenttype``; no percent code."""
    body = b"{}"
    event = CloudEvent(GOOD | {"datacontenttype": "text/plain", "subject": "é %20"}, body)
    written = kafka.encode(Decoded(event, BINARY), PLAIN, b"\xff")

    assert written.key == b"\xff"
    assert written.headers == (
        *CE_GOOD,
        ("content-type", b"text/plain"),
        ("ce_subject", "é %20".encode()),
    )
    assert written.body is body
    assert written.content_type is None


def test_no_data_is_no_value_unless_the_route_wants_an_empty_one() -> None:
    """K13, trap 7: a tombstone on a compacted topic, so a route may choose."""
    nothing, empty = Decoded(CloudEvent(GOOD), BINARY), Decoded(CloudEvent(GOOD, b""), BINARY)

    assert kafka.encode(nothing, PLAIN, None).body is None
    assert kafka.encode(nothing, EncodeOptions(empty_body="empty"), None).body == b""
    assert kafka.encode(empty, PLAIN, None).body == b""
    assert kafka.decode(kafka.encode(empty, PLAIN, None)).event.data == b""


def test_an_implied_json_type_is_made_explicit() -> None:
    """J13, I4."""
    decoded = Decoded(CloudEvent(GOOD, b"null", DataForm.JSON), ContentMode.STRUCTURED, DOCUMENT)
    written = kafka.encode(decoded, PLAIN, None)

    assert written.headers == (*CE_GOOD, ("content-type", b"application/json"))
    assert written.body == b"null"


def test_an_opaque_body_without_type_gets_none() -> None:
    """J5, J10."""
    assert kafka.encode(Decoded(CloudEvent(GOOD, b"{}"), BINARY), PLAIN, None).headers == CE_GOOD


@pytest.mark.parametrize("mode", ["structured", "as_received"])
@pytest.mark.parametrize("arrived", [ContentMode.STRUCTURED, ContentMode.BATCH])
def test_a_document_goes_on_untouched(mode: str, arrived: ContentMode) -> None:
    """K16: the media type it came with, parameters included."""
    decoded = Decoded(CloudEvent(GOOD), arrived, DOCUMENT, "application/cloudevents+json; a=b")
    written = kafka.encode(decoded, EncodeOptions(mode=mode), b"k")

    assert written.headers == (("content-type", b"application/cloudevents+json; a=b"),)
    assert written.body is DOCUMENT


def test_as_received_keeps_binary_binary_and_structured_writes_a_document() -> None:
    """Design: content mode of a route. K17: a document without data is no tombstone."""
    decoded = Decoded(CloudEvent(GOOD), BINARY)

    assert kafka.encode(decoded, EncodeOptions(mode="as_received"), None).headers == CE_GOOD
    written = kafka.encode(decoded, EncodeOptions(mode="structured", empty_body="null"), None)
    assert written.headers == (("content-type", b"application/cloudevents+json; charset=utf-8"),)
    assert written.body == b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'


def test_what_is_written_is_read_again() -> None:
    """Binary mode, foreign headers and other case among it."""
    event = CloudEvent(GOOD | {"datacontenttype": "text/plain", "ext": ""}, b"x")
    headers = kafka.encode(Decoded(event, BINARY), PLAIN, None).headers

    for foreign in ((), (("trace", b"\xff"),), (("cx", b"\xff"), ("other", None), ("", b""))):
        decoded = kafka.decode(record(*headers, *foreign))
        assert decoded.event == event
        assert decoded.mode is BINARY


@pytest.mark.parametrize("name", ["CE_SUBJECT", "Ce_Subject", "ce_Subject"])
def test_header_names_are_read_in_any_case_but_the_exact_one_wins(name: str) -> None:
    """Kafka's header keys are case-sensitive, its producers are not (4.1)."""
    assert kafka.decode(record(*CE_GOOD, (name, b"loose"))).event.attributes["subject"] == "loose"
    both = kafka.decode(record((name, b"loose"), *CE_GOOD, ("ce_subject", b"exact")))
    assert both.event.attributes["subject"] == "exact"


@pytest.mark.parametrize("name", ["Content-Type", "CONTENT-TYPE"])
def test_the_content_type_is_found_in_any_case(name: str) -> None:
    """K4: also where it makes the record structured."""
    assert (
        kafka.decode(record(*CE_GOOD, (name, b"text/plain"))).event.datacontenttype == "text/plain"
    )
    structured = record(*CE_GOOD, (name, b"application/cloudevents+json"), body=DOCUMENT)
    assert kafka.decode(structured).mode is ContentMode.STRUCTURED


def test_the_exact_content_type_wins() -> None:
    """4.1: exact first, else any case."""
    headers = (("Content-Type", b"text/loose"), *CE_GOOD, ("content-type", b"text/exact"))

    assert kafka.decode(record(*headers)).event.datacontenttype == "text/exact"


def test_null_headers_are_unset() -> None:
    """Legal in Kafka (4.1)."""
    decoded = kafka.decode(
        record(*CE_GOOD, ("ce_subject", None), ("content-type", None), ("x", None))
    )

    assert decoded.event.attributes == GOOD


def test_an_empty_content_type_is_refused() -> None:
    """Core 1.1: as any attribute, and as over HTTP; a null one is unset."""
    with pytest.raises(InvalidEvent, match="datacontenttype is empty"):
        kafka.decode(record(*CE_GOOD, ("content-type", b"")))


def test_repeats_that_agree_are_one_and_others_are_refused() -> None:
    """Never the last one wins (4.1, trap 11)."""
    assert kafka.decode(record(*CE_GOOD, *CE_GOOD)).event.attributes == GOOD
    with pytest.raises(InvalidEvent) as refusal:
        kafka.decode(record(*CE_GOOD, ("ce_id", b"2")))
    assert [(fault.code, fault.at) for fault in refusal.value.faults] == [
        ("repeated-attribute", "header ce_id")
    ]
    with pytest.raises(InvalidEvent, match="content-type"):
        kafka.decode(record(*CE_GOOD, ("content-type", b"a/b"), ("content-type", b"a/c")))


def test_quoted_values_are_unquoted_when_the_version_is_quoted() -> None:
    """The binding's examples show quotes, and some producers believe them (4.1)."""
    quoted: list[Header] = [(name, b'"' + (value or b"") + b'"') for name, value in CE_GOOD]

    assert kafka.decode(record(*quoted)).event.attributes == GOOD
    plain = kafka.decode(record(*CE_GOOD, ("ce_subject", b'"kept"')))
    assert plain.event.attributes["subject"] == '"kept"'


def test_nothing_is_percent_decoded() -> None:
    """4.1: not on Kafka."""
    assert (
        kafka.decode(record(*CE_GOOD, ("ce_subject", b"a%20b"))).event.attributes["subject"]
        == "a%20b"
    )


def test_content_type_wins_over_ce_datacontenttype() -> None:
    """Written by some; read where nothing better is there (4.1)."""
    second = ("ce_datacontenttype", b"text/a")

    assert kafka.decode(record(*CE_GOOD, second)).event.datacontenttype == "text/a"
    both = kafka.decode(record(*CE_GOOD, second, ("content-type", b"text/b")))
    assert both.event.datacontenttype == "text/b"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents+json",
        "Application/CloudEvents",
        "application/cloudevents+json; charset=utf-8",
    ],
)
def test_the_content_type_beats_mirrored_headers(content_type: str) -> None:
    """K4, K18."""
    headers = (("ce_id", b"other"), ("content-type", content_type.encode()))
    decoded = kafka.decode(record(*headers, body=DOCUMENT))

    assert decoded.mode is ContentMode.STRUCTURED
    assert decoded.document is DOCUMENT
    assert decoded.media_type == content_type
    assert (decoded.event.id, decoded.event.data) == ("1", b"1.10")


@pytest.mark.parametrize(
    "headers",
    [(), (("content-type", b"application/json"),), (("content-type", b"text/json; a=b"),)],
)
def test_a_document_of_the_wrong_type_is_recognised(headers: tuple[Header, ...]) -> None:
    """Python producers of the 1.x line write the data's type over a document (4.1)."""
    decoded = kafka.decode(record(*headers, body=DOCUMENT))

    assert decoded.mode is ContentMode.STRUCTURED
    assert decoded.event.data == b"1.10"
    written = kafka.encode(decoded, EncodeOptions(mode="as_received"), None)
    assert written.body is DOCUMENT
    assert written.headers == (("content-type", b"application/cloudevents+json; charset=utf-8"),)


@pytest.mark.parametrize(
    "body",
    [None, b"", b"x", b"{}", b"[]", b'{"specversion":"1.0","id":"1"}', b"\xff", b"[" * 99999],
)
def test_other_records_are_no_cloudevents(body: bytes | None) -> None:
    """4.6: the subscription decides what becomes of them (on_foreign)."""
    with pytest.raises(kafka.NotACloudEvent) as refusal:
        kafka.decode(record(("content-type", b"application/json"), ("x", b"\xff"), body=body))

    assert (refusal.value.status, refusal.value.code) == (400, "not-a-cloudevent")


def test_faults_are_listed_with_their_headers() -> None:
    """A dead letter says everything that is wrong."""
    headers = [
        *CE_GOOD[:3],
        ("ce_time", b"noon"),
        ("ce_a-b", b"x"),
        ("ce_ext", b"\xff"),
        ("content-type", b"xyz"),
    ]
    with pytest.raises(InvalidEvent) as refusal:
        kafka.decode(record(*headers))

    assert [(fault.code, fault.at) for fault in refusal.value.faults] == [
        ("bad-utf8", "header ce_ext"),
        ("missing-attribute", "header ce_type"),
        ("bad-media-type", "header content-type"),
        ("bad-timestamp", "header ce_time"),
        ("bad-attribute-name", "header ce_a-b"),
    ]


def test_documents_that_are_not_ours_to_read_go_on_as_they_are() -> None:
    """K1: no batches; K5: unknown formats go on as they are; K17: a document has a value."""
    for content_type in (b"application/cloudevents+cbor", b"application/cloudevents-batch+json"):
        decoded = kafka.decode(record(("content-type", content_type), body=b"[]"))
        assert (decoded.opaque, decoded.document) == (True, b"[]")
    with pytest.raises(InvalidEvent):
        kafka.decode(record(("content-type", b"application/cloudevents+json"), body=None))


# Leniencies, each behind a switch of its own


def without(switch: str) -> kafka.KafkaLeniency:
    return replace(LIBERAL, **{switch: False})


@pytest.mark.parametrize(
    ("switch", "headers", "code"),
    [
        ("any_case", (*CE_GOOD[:3], ("CE_Type", b"t")), "missing-attribute"),
        ("datacontenttype", (*CE_GOOD, ("ce_datacontenttype", b"a/b")), "unexpected-datacontenttype"),
        ("quoted", tuple((name, b'"%b"' % (value or b"")) for name, value in CE_GOOD), "unsupported-specversion"),
        ("repeats", (*CE_GOOD, ("ce_id", b"1")), "repeated-attribute"),
        ("nulls", (*CE_GOOD, ("ce_subject", None)), "null-attribute"),
    ],
)  # fmt: skip
def test_each_leniency_is_a_switch(switch: str, headers: tuple[Header, ...], code: str) -> None:
    """4.1: what the binding does not say is let pass by a name, and by nothing else."""
    others = replace(STRICT, **{switch: True})
    for leniency in (LIBERAL, others):
        assert kafka.decode(record(*headers), leniency).event.id == "1"
    for leniency in (STRICT, without(switch)):
        with pytest.raises(InvalidEvent) as refusal:
            kafka.decode(record(*headers), leniency)
        assert code in {fault.code for fault in refusal.value.faults}


@pytest.mark.parametrize("content_type", [b"application/json", None])
def test_documents_under_the_wrong_content_type_are_a_switch(content_type: bytes | None) -> None:
    """K16 as the Python SDK breaks it."""
    message = record(("content-type", content_type), body=DOCUMENT)

    assert kafka.decode(message, replace(STRICT, sniff=True)).event.data == b"1.10"
    for leniency in (STRICT, without("sniff")):
        with pytest.raises(kafka.NotACloudEvent):
            kafka.decode(message, leniency)


def test_an_ordinary_event_takes_the_hot_path() -> None:
    """Whole budget of an event; foreign headers do not spoil it."""
    event = CloudEvent(GOOD | {"myext": "v", "datacontenttype": "a/b"}, b"x")
    written = kafka.encode(Decoded(event, BINARY), PLAIN, None)
    hot = kafka._read_plainly(record(*written.headers, ("trace", b"\xff"), ("n", None)))

    assert hot is not None
    assert (hot.event, hot.foreign) == (event, (("trace", b"\xff"), ("n", None)))
