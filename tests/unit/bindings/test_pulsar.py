from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.bindings import pulsar
from app.bindings.documents import content_type_of
from app.bindings.pulsar import LIBERAL, STRICT
from app.bindings.pulsar_properties import KEY_ENCODING, PulsarMessage, from_message, to_message
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import InvalidEvent, SenderError
from app.event.validate import faults_of
from app.event.value import AttributeType, CloudEvent, DataForm
from event_strategies import events

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CE_GOOD: tuple[Header, ...] = tuple(
    (f"CE-{name.capitalize()}", text.encode()) for name, text in GOOD.items()
)
CE_QUOTED: tuple[Header, ...] = tuple((name, b'"%b"' % (text or b"")) for name, text in CE_GOOD)
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1.10}'
BINARY, STRUCTURED, BATCH = ContentMode.BINARY, ContentMode.STRUCTURED, ContentMode.BATCH
TO_THE_LETTER = EncodeOptions(strings="json")
KAFKA_LIKE = EncodeOptions(names="ce_")


def record(*headers: Header, body: bytes | None = b"x") -> Record:
    return Record(None, headers, body)


def headers(attributes: dict[str, str], writing: EncodeOptions = PLAIN) -> tuple[Header, ...]:
    event = CloudEvent(GOOD | attributes)
    return pulsar.encode(Decoded(event, BINARY), writing, None).headers


def faults(refused: Record) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as refusal:
        pulsar.decode(refused)
    return [(fault.code, fault.at) for fault in refusal.value.faults]


def without(switch: str) -> pulsar.PulsarLeniency:
    return replace(LIBERAL, **{switch: False})


def refused_with(error: SenderError) -> None:
    assert 400 <= error.status < 500
    assert str(error).encode()


# Writing: to the letter


def test_binary_mode_names_attributes_under_ce_and_extensions_under_ce_x() -> None:
    """P4, P5: a capital after the prefix, the payload the very same object."""
    body = b"{}"
    attributes = GOOD | {"subject": "é %20", "dataschema": "urn:a", "myext": "v", "1st": ""}
    event = CloudEvent(attributes | {"datacontenttype": "text/plain"}, body)
    written = pulsar.encode(Decoded(event, BINARY), PLAIN, b"\xff")

    assert written.headers == (
        *CE_GOOD,
        ("CE-Subject", "é %20".encode()),
        ("CE-Dataschema", b"urn:a"),
        ("CE-X-Myext", b"v"),
        ("CE-X-1st", b""),
        ("CE-ContentType", b"text/plain"),
    )
    assert written.body is body
    assert (written.key, written.content_type) == (b"\xff", None)


def test_strings_are_bare_and_quoted_only_to_the_letter() -> None:
    """P6, and our departure from it; integers and booleans are the same in both."""
    types = {"flag": AttributeType.BOOLEAN, "count": AttributeType.INTEGER}
    attributes = GOOD | {"flag": "true", "count": "5", "text": "5", "datacontenttype": "a/b"}
    decoded = Decoded(CloudEvent(attributes, types=types), BINARY)
    typed: tuple[Header, ...] = (("CE-X-Flag", b"true"), ("CE-X-Count", b"5"))

    assert pulsar.encode(decoded, PLAIN, None).headers == (
        *CE_GOOD, *typed, ("CE-X-Text", b"5"), ("CE-ContentType", b"a/b")
    )  # fmt: skip
    assert pulsar.encode(decoded, TO_THE_LETTER, None).headers == (
        *CE_QUOTED, *typed, ("CE-X-Text", b'"5"'), ("CE-ContentType", b'"a/b"')
    )  # fmt: skip


def test_the_other_profile_writes_names_as_on_kafka() -> None:
    """4.3: what Kafka clients see over Pulsar."""
    written = headers({"datacontenttype": "a/b", "myext": "v"}, KAFKA_LIKE)

    assert dict(written) == {
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/s",
        "ce_type": b"t",
        "ce_myext": b"v",
        "content-type": b"a/b",
    }
    structured = pulsar.encode(
        Decoded(CloudEvent(GOOD), BINARY), EncodeOptions(mode="structured", names="ce_"), None
    )
    assert structured.headers == (("content-type", b"application/cloudevents+json; charset=utf-8"),)


def test_no_data_is_an_empty_payload_unless_a_null_one_is_asked_for() -> None:
    """4.3: a null value deletes on a compacted topic, so nobody gets it unasked."""
    nothing, empty = Decoded(CloudEvent(GOOD), BINARY), Decoded(CloudEvent(GOOD, b""), BINARY)
    null = EncodeOptions(empty_body="null")

    assert pulsar.encode(nothing, PLAIN, None).body == b""
    assert pulsar.encode(nothing, null, None).body is None
    assert pulsar.encode(empty, null, None).body == b""
    for body in (None, b""):
        assert pulsar.decode(record(*CE_GOOD, body=body)).event.data is None


def test_an_implied_json_type_is_made_explicit() -> None:
    """J13, I4; and opaque bytes without a type get none (J5)."""
    told = Decoded(CloudEvent(GOOD, b"null", DataForm.JSON), STRUCTURED, DOCUMENT)
    untold = Decoded(CloudEvent(GOOD, b"null"), BINARY)

    written = pulsar.encode(told, PLAIN, None)
    assert written.headers == (*CE_GOOD, ("CE-ContentType", b"application/json"))
    assert pulsar.encode(untold, PLAIN, None).headers == CE_GOOD


@pytest.mark.parametrize("mode", ["structured", "as_received"])
@pytest.mark.parametrize("arrived", [STRUCTURED, BATCH])
def test_a_document_goes_on_untouched(mode: str, arrived: ContentMode) -> None:
    """P3, P7: CE-ContentType is the format's media type, never the data's, and never in quotes."""
    media_type = "application/cloudevents+json; a=b"
    event = CloudEvent(GOOD | {"datacontenttype": "text/plain"})
    decoded = Decoded(event, arrived, DOCUMENT, media_type)
    written = pulsar.encode(decoded, EncodeOptions(mode=mode, strings="json"), b"k")

    assert written.headers == (("CE-ContentType", media_type.encode()),)
    assert written.body is DOCUMENT


def test_both_modes_are_written_and_read() -> None:
    """P1, P2: structured means JSON."""
    decoded = Decoded(CloudEvent(GOOD, b"x"), BINARY)

    assert pulsar.encode(decoded, EncodeOptions(mode="as_received"), None).headers == CE_GOOD
    written = pulsar.encode(decoded, EncodeOptions(mode="structured"), None)
    assert written.headers == (("CE-ContentType", b"application/cloudevents+json; charset=utf-8"),)
    assert pulsar.decode(written).event.data == b"x"


# Reading: the binding's own


@pytest.mark.parametrize("leniency", [LIBERAL, STRICT])
def test_ce_contenttype_decides_the_mode(leniency: pulsar.PulsarLeniency) -> None:
    """P3 in any case of the media type, and P7: mirrored properties are legal, the document wins."""
    for media_type in ("application/cloudevents+json", "Application/CloudEvents; charset=utf-8"):
        own: Header = ("CE-ContentType", media_type.encode())
        decoded = pulsar.decode(record(("CE-Id", b"other"), own, body=DOCUMENT), leniency)
        assert (decoded.mode, decoded.document) == (STRUCTURED, DOCUMENT)
        assert (decoded.event.id, decoded.media_type) == ("1", media_type)


def test_binary_mode_is_read_from_its_properties() -> None:
    """P3 to P6: text beyond ASCII too, and nothing is percent-decoded."""
    own = (*CE_GOOD, ("CE-X-Ext", "é %20".encode()), ("CE-ContentType", b"text/plain"))
    message = record(*own)
    decoded = pulsar.decode(message, STRICT)

    assert decoded.mode is BINARY
    assert decoded.event.attributes == GOOD | {"ext": "é %20", "datacontenttype": "text/plain"}
    assert decoded.event.data is message.body


def test_one_prefix_is_taken_off_and_no_more() -> None:
    """P5: what stands behind it is the name, however much it looks like a prefix."""
    assert faults(record(*CE_GOOD, ("CE-X-Ce-foo", b"a"))) == [
        ("bad-attribute-name", "property CE-X-Ce-foo")
    ]


def test_an_extension_is_read_under_either_prefix_but_the_exact_one_wins() -> None:
    """P5: other writers cannot know which attribute is an extension."""
    assert pulsar.decode(record(*CE_GOOD, ("CE-Ext", b"a")), STRICT).event.attributes["ext"] == "a"
    both = record(*CE_GOOD, ("CE-Ext", b"a"), ("CE-X-Ext", b"b"))
    assert pulsar.decode(both).event.attributes["ext"] == "b"


def test_documents_that_are_not_ours_to_read_go_on_as_they_are() -> None:
    """P3: unknown formats, and batches, of which the binding has none; a document has a payload."""
    for media_type in (b"application/cloudevents+cbor", b"application/cloudevents-batch+json"):
        decoded = pulsar.decode(record(("CE-ContentType", media_type), body=b"[]"))
        assert (decoded.opaque, decoded.document) == (True, b"[]")
    structured: Header = ("CE-ContentType", b"application/cloudevents+json")
    for body in (None, b""):
        assert faults(record(structured, body=body))[0][0] == "no-document"


def test_faults_are_listed_with_their_places() -> None:
    """A dead letter says everything that is wrong."""
    own = [*CE_GOOD[:3], ("CE-Time", b"noon"), ("CE-X-A-b", b"x"), ("CE-X-Ext", b"\xff")]

    assert faults(record(*own, ("CE-ContentType", b"xyz"))) == [
        ("bad-utf8", "property CE-X-Ext"),
        ("missing-attribute", "property CE-Type"),
        ("bad-media-type", "property CE-ContentType"),
        ("bad-timestamp", "property CE-Time"),
        ("bad-attribute-name", "property CE-X-A-b"),
    ]


def test_an_unknown_version_is_refused_by_name() -> None:
    """ADR 0006."""
    for own, at in (
        (("CE-Specversion", b"9.9"), "Specversion"),
        (("CE-CloudEventsVersion", b"9"), "CloudEventsVersion"),
    ):
        code, where = faults(record(own, *CE_GOOD[1:]))[0]
        assert (code, where) == ("unsupported-specversion", f"property CE-{at}")


def test_repeats_that_agree_are_one_and_others_are_refused() -> None:
    """Trap 11: a record may hold what a map of properties cannot."""
    assert pulsar.decode(record(*CE_GOOD, *CE_GOOD)).event.attributes == GOOD
    with pytest.raises(InvalidEvent, match="given twice"):
        pulsar.decode(record(*CE_GOOD, ("CE-Id", b"1")), without("repeats"))
    assert faults(record(*CE_GOOD, ("CE-Id", b"2"))) == [("repeated-attribute", "property CE-Id")]
    types = (("CE-ContentType", b"a/b"), ("CE-ContentType", b"a/c"))
    assert faults(record(*CE_GOOD, *types)) == [("repeated-attribute", "property CE-ContentType")]


def test_null_properties_are_unset_and_an_empty_content_type_is_refused() -> None:
    """A record may hold null headers; core 1.1 for the content type, as over HTTP."""
    with pytest.raises(InvalidEvent, match="datacontenttype is empty"):
        pulsar.decode(record(*CE_GOOD, ("CE-ContentType", b"")))
    message = record(*CE_GOOD, ("CE-Subject", None), ("x", None), ("CE-ContentType", None))

    for leniency in (pulsar.LIBERAL, STRICT):  # Pulsar itself has no such properties
        assert pulsar.decode(message, leniency).event.attributes == GOOD


@pytest.mark.parametrize("body", [None, b"", b"x", b"{}", b'{"specversion":"1.0"}', b"[" * 99999])
def test_other_messages_are_no_cloudevents(body: bytes | None) -> None:
    """4.6 step 6: the subscription decides (on_foreign)."""
    own = (("CE-ContentType", b"a/json"), ("x", b"\xff"), ("id", b"1"), ("cat", b"\xff"))
    with pytest.raises(pulsar.NotACloudEvent):
        pulsar.decode(record(*own, body=body))


# Reading: what others write, each behind a switch of its own


@pytest.mark.parametrize("fold", [str.lower, str.upper])
def test_names_are_read_in_any_case_but_the_exact_one_wins(fold: type[str]) -> None:
    """P5: capitals are shown by example only; ``ce-`` is one of the cases."""
    own = (*CE_GOOD, ("CE-X-Ext", b"v"), ("CE-ContentType", b"a/b"))
    loose = record(*((fold(name), value) for name, value in own))

    expected = GOOD | {"ext": "v", "datacontenttype": "a/b"}
    assert pulsar.decode(loose).event.attributes == expected
    both = record(*((fold(name), b"8.8") for name, _ in own), *own)
    assert pulsar.decode(both).event.attributes == expected
    with pytest.raises(pulsar.NotACloudEvent):
        pulsar.decode(loose, replace(without("any_case"), unprefixed=False))


@pytest.mark.parametrize("fold", [str, str.upper])
def test_names_as_on_kafka_are_read(fold: type[str]) -> None:
    """4.3: Kafka over Pulsar, a Java fork, Dapr."""
    own = headers({"datacontenttype": "a/b", "contenttype": "v"}, KAFKA_LIKE)
    message = record(*((fold(name), value) for name, value in own))

    expected = GOOD | {"contenttype": "v", "datacontenttype": "a/b"}
    assert pulsar.decode(message).event.attributes == expected
    with pytest.raises(pulsar.NotACloudEvent):
        pulsar.decode(message, without("kafka_names"))


@pytest.mark.parametrize("name", ["content-type", "Content-Type"])
def test_a_content_type_as_on_kafka_decides_where_ce_contenttype_is_absent(name: str) -> None:
    """P3, 4.6."""
    structured: Header = (name, b"application/cloudevents+json")

    assert pulsar.decode(record(structured, body=DOCUMENT)).mode is STRUCTURED
    both = record(*CE_GOOD, ("CE-ContentType", b"a/b"), structured)
    assert pulsar.decode(both).event.datacontenttype == "a/b"


@pytest.mark.parametrize("fold", [str, str.upper])
def test_bare_names_are_read_without_what_cannot_be_an_attribute(fold: type[str]) -> None:
    """4.3: a Python client of the draft writes them, with ``content_type``."""
    own = [(fold(name), text.encode()) for name, text in {**GOOD, "content_type": "a/b"}.items()]
    message = record(*own, ("x-trace", b"\xff"), ("a_b", b"1"))

    assert pulsar.decode(message).event.attributes == GOOD | {"datacontenttype": "a/b"}
    with pytest.raises(pulsar.NotACloudEvent):
        pulsar.decode(message, without("unprefixed"))


@pytest.mark.parametrize("missing", range(4))
def test_bare_names_need_every_required_attribute(missing: int) -> None:
    """4.3: ``id`` and ``type`` are names that anybody uses."""
    own = [(name, text.encode()) for name, text in GOOD.items()]
    with pytest.raises(pulsar.NotACloudEvent):
        pulsar.decode(record(*own[:missing], *own[missing + 1 :]))


def test_the_binding_s_own_names_win_over_the_others() -> None:
    """4.6: one spelling a message; what others are called is foreign."""
    others = (("ce_specversion", b"0.3"), ("ce_id", b"2"), ("id", b"3"))

    assert pulsar.decode(record(*others, *CE_GOOD)).event.attributes == GOOD


@pytest.mark.parametrize("name", ["CE-Datacontenttype", "ce-datacontenttype"])
def test_datacontenttype_by_its_name_counts_only_where_no_content_type_is(name: str) -> None:
    """4.3: who names attributes of 1.0 mechanically writes it."""
    second = (name, b"text/a")

    assert pulsar.decode(record(*CE_GOOD, second)).event.datacontenttype == "text/a"
    both = record(*CE_GOOD, second, ("CE-ContentType", b"text/b"))
    assert pulsar.decode(both).event.datacontenttype == "text/b"
    with pytest.raises(InvalidEvent, match="must not be sent"):
        pulsar.decode(both, without("datacontenttype"))


def test_values_in_quotes_are_read_with_their_types() -> None:
    """P6 to the letter: in a message whose version is in quotes, and in no other."""
    typed = (("CE-X-N", b"5"), ("CE-X-B", b"true"), ("CE-X-T", b'"5"'), ("CE-X-Z", b"null"))
    other = (("CE-Subject", b'"a\\u00e9\\n"x'), ("CE-ContentType", b'"a/b"'))
    event = pulsar.decode(record(*CE_QUOTED, *typed, *other)).event

    assert event.attributes == GOOD | {
        "n": "5", "b": "true", "t": "5", "subject": '"a\\u00e9\\n"x', "datacontenttype": "a/b"
    }  # fmt: skip
    assert event.types == {"n": AttributeType.INTEGER, "b": AttributeType.BOOLEAN}
    bare = record(*CE_GOOD, ("CE-Subject", b'"kept"'))
    assert pulsar.decode(bare).event.attributes["subject"] == '"kept"'
    assert faults_when_quotes_are_not_read() == "unsupported-specversion"


def faults_when_quotes_are_not_read() -> str:
    with pytest.raises(InvalidEvent) as refusal:
        pulsar.decode(record(*CE_QUOTED), without("quoted"))
    return refusal.value.faults[0].code


@pytest.mark.parametrize("value", [b"1.5", b"5.0", b"2147483648", b"{}", b"[1]", b"1e2"])
def test_json_that_no_attribute_can_be_is_refused(value: bytes) -> None:
    """J1: maps were of version 0.1."""
    assert faults(record(*CE_QUOTED, ("CE-X-N", value))) == [("wrong-type", "property CE-X-N")]


def test_a_quoted_content_type_decides_the_mode() -> None:
    """P3, P6."""
    structured: Header = ("CE-ContentType", b'"application/cloudevents+json"')

    assert pulsar.decode(record(structured, body=DOCUMENT)).mode is STRUCTURED


@pytest.mark.parametrize("content_type", [None, b"application/json", b"text/json; a=b"])
def test_a_document_of_the_wrong_type_is_recognised(content_type: bytes | None) -> None:
    """P3: the binding's own structured example has no property at all."""
    message = record(("CE-ContentType", content_type), ("x", b"1"), body=DOCUMENT)
    decoded = pulsar.decode(message)

    assert (decoded.mode, decoded.document) == (STRUCTURED, DOCUMENT)
    with pytest.raises(pulsar.NotACloudEvent):
        pulsar.decode(message, without("sniff"))


# Beside the event


def test_foreign_properties_are_ignored_and_stay_distinguishable() -> None:
    """I3, trap 15: they may be anything, and are never fatal."""
    others: tuple[Header, ...] = (("trace", b"\xff"), ("cx", b"\xff"), ("", b""), ("n", None))

    for own in (CE_GOOD, headers({}, KAFKA_LIKE), (*CE_GOOD, ("content-type", b"a/b"))):
        assert pulsar.decode(record(*own, *others)).event.id == "1"
        assert pulsar.decode(record(*own, *others)).foreign == others
    structured = (*CE_GOOD, ("CE-ContentType", b"application/cloudevents+json"))
    assert pulsar.decode(record(*structured, *others, body=DOCUMENT)).foreign == others
    assert pulsar.decode(record(*others, body=DOCUMENT)).foreign == others


def test_a_key_that_is_not_utf8_is_base64_and_marked() -> None:
    """Design: Pulsar's keys are text."""
    message = to_message(Record(b"\xff", CE_GOOD, b"x"))

    assert message.partition_key == "/w=="
    assert message.properties[KEY_ENCODING] == "base64"
    assert from_message(message) == Record(b"\xff", CE_GOOD, b"x")
    assert to_message(Record("é".encode(), (), None)) == PulsarMessage({}, "é", None)
    foreign = PulsarMessage({KEY_ENCODING: "base64"}, "not base64", b"")
    assert from_message(foreign).key == b"not base64"


def test_properties_are_a_map_of_text() -> None:
    """A record may hold what Pulsar cannot."""
    held: tuple[Header, ...] = (("a", b"1"), ("a", b"2"), ("b", None), ("c", b"\xff"))

    assert to_message(Record(None, held, b"")).properties == {"a": "1", "c": "\ufffd"}


@given(st.binary() | st.none(), st.binary() | st.none())
def test_any_key_and_payload_survive_a_message(key: bytes | None, payload: bytes | None) -> None:
    """A key is bytes and never assumed to be UTF-8 (trap 8)."""
    back = from_message(to_message(Record(key, CE_GOOD, payload)))

    assert back == Record(key, CE_GOOD, payload)


writings = st.builds(
    EncodeOptions,
    names=st.sampled_from(["CE-", "ce_"]),
    strings=st.sampled_from(["bare", "json"]),
    empty_body=st.sampled_from([None, "empty", "null"]),
)


@given(events(), writings)
def test_binary_round_trips_also_through_the_strict_reader(
    event: CloudEvent, writing: EncodeOptions
) -> None:
    """P4 to P6: an encoder writes nothing that the strict reader of its profile refuses."""
    written = pulsar.encode(Decoded(event, BINARY), writing, b"k")
    as_json = writing.strings == "json"
    attributes = dict(event.attributes)
    content_type = content_type_of(event)
    if content_type is not None:
        attributes["datacontenttype"] = content_type

    expected = CloudEvent(attributes, event.data or None)
    expected = replace(expected, types=event.types) if as_json else expected
    strict = replace(STRICT, kafka_names=writing.names == "ce_", quoted=as_json)
    for leniency in (LIBERAL, strict):
        assert pulsar.decode(from_message(to_message(written)), leniency).event == expected


@given(events())
def test_structured_round_trips(event: CloudEvent) -> None:
    """P7: attributes, types and every byte of data."""
    back = pulsar.decode(
        pulsar.encode(Decoded(event, BINARY), EncodeOptions(mode="structured"), None), STRICT
    ).event

    assert (back.attributes, back.types, back.data) == (event.attributes, event.types, event.data)


_prefixes = st.sampled_from(["CE-", "CE-X-", "ce-", "ce_", ""])
_names = st.sampled_from(["Specversion", "id", "Source", "TYPE", "time", "Ext", "ContentType"])
_values = st.binary(max_size=6) | st.sampled_from([b"1.0", b'"1.0"', b"/", b"a/b", b"5", b"{}"])
_properties = st.lists(
    st.tuples(st.builds(str.__add__, _prefixes, _names) | st.text(max_size=4), st.none() | _values),
    max_size=8,
)


@given(_properties, st.sampled_from([(), CE_GOOD, CE_QUOTED]), st.none() | st.just(DOCUMENT))
def test_a_record_is_read_or_refused_as_the_sender_s_fault(
    some: list[Header], whole: tuple[Header, ...], body: bytes | None
) -> None:
    """Whatever a broker brings: nothing but our own error, and only valid events."""
    message = record(*whole, *some, body=body)
    try:
        decoded = pulsar.decode(message)
    except SenderError as error:
        refused_with(error)
        return
    assert faults_of(decoded.event.attributes, str) == []
    assert len(decoded.foreign) <= len(some)


def test_the_event_time_travels_with_the_message() -> None:
    """Pulsar's own time of an event, beside the time of its publishing; it is no attribute."""
    message = PulsarMessage({}, None, b"", 1_700_000_000_000)

    assert from_message(message).time_ms == 1_700_000_000_000
    assert to_message(from_message(message)) == message


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2018-04-05T17:31:00Z", 1_522_949_460_000),
        ("2018-04-05T17:31:00.123456789Z", 1_522_949_460_123),
        ("2018-04-05T19:31:00.5+02:00", 1_522_949_460_500),
        ("1990-12-31T23:59:60Z", None),
        (None, None),
    ],
)
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_the_time_is_the_event_time_of_the_message(
    text: str | None, time_ms: int | None, mode: str
) -> None:
    """What Pulsar's own tools show and seek by (4.3); the attribute keeps its own text."""
    attributes = GOOD if text is None else {**GOOD, "time": text}
    decoded = Decoded(CloudEvent(attributes), BINARY)
    written = pulsar.encode(decoded, EncodeOptions(mode=mode), None)  # type: ignore[arg-type]
    assert written.time_ms == time_ms
    assert pulsar.decode(written).event.attributes == attributes
