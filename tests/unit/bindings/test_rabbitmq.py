from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from amqp_writing import to_table
from app.bindings import rabbitmq
from app.bindings.amqp_table import KEY_HEADER, from_table
from app.bindings.documents import content_type_of
from app.bindings.rabbitmq import LIBERAL, STRICT
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.transcode import PLAIN, EncodeOptions
from app.bindings.values import native_text
from app.errors import InvalidEvent, SenderError
from app.event.validate import faults_of
from app.event.value import AttributeType, CloudEvent, DataForm
from event_strategies import events

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CE_GOOD: tuple[Header, ...] = tuple((f"ce-{name}", text.encode()) for name, text in GOOD.items())
BARE: tuple[Header, ...] = tuple((name, text.encode()) for name, text in GOOD.items())
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1.10}'
BINARY, STRUCTURED, BATCH = ContentMode.BINARY, ContentMode.STRUCTURED, ContentMode.BATCH


def record(*headers: Header, body: bytes = b"x", content_type: str | None = None) -> Record:
    return Record(None, headers, body, content_type)


def faults(refused: Record, **natives: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as refusal:
        rabbitmq.decode(
            replace(refused, natives={f"ce-{n}": value for n, value in natives.items()})
        )
    return [(fault.code, fault.at) for fault in refusal.value.faults]


def refused_with(error: SenderError) -> None:
    assert 400 <= error.status < 500
    assert str(error).encode()


# Writing: to the letter


def test_binary_mode_writes_a_header_an_attribute_and_the_content_type_as_a_property() -> None:
    """R4, R5, R6, R8: no ``ce-datacontenttype``, no percent code, the body the very same object."""
    body = b"{}"
    event = CloudEvent(GOOD | {"datacontenttype": "text/plain", "subject": "é %20"}, body)
    written = rabbitmq.encode(Decoded(event, BINARY), PLAIN, b"\xff")

    assert written.headers == (*CE_GOOD, ("ce-subject", "é %20".encode()))
    assert written.content_type == "text/plain"
    assert written.body is body
    assert written.key == b"\xff"


def test_every_value_is_written_as_canonical_text() -> None:
    """R9, R7: text is what every client of RabbitMQ reads; no extension goes without its header."""
    types = {"flag": AttributeType.BOOLEAN, "count": AttributeType.INTEGER}
    event = CloudEvent(GOOD | {"flag": "true", "count": "-5"}, types=types)
    written = rabbitmq.encode(Decoded(event, BINARY), PLAIN, None)

    assert written.headers == (*CE_GOOD, ("ce-flag", b"true"), ("ce-count", b"-5"))


@pytest.mark.parametrize("data", [None, b""])
def test_no_data_is_an_empty_body(data: bytes | None) -> None:
    """R5: AMQP has no message without a body; read back it is an event without data."""
    written = rabbitmq.encode(Decoded(CloudEvent(GOOD, data), BINARY), PLAIN, None)

    assert written.body == b""
    assert rabbitmq.decode(written).event.data is None


def test_an_implied_json_type_is_made_explicit() -> None:
    """J13, I4; and opaque bytes without a type get none (J5)."""
    told = Decoded(CloudEvent(GOOD, b"null", DataForm.JSON), STRUCTURED, DOCUMENT)
    untold = Decoded(CloudEvent(GOOD, b"null"), BINARY)

    assert rabbitmq.encode(told, PLAIN, None).content_type == "application/json"
    assert rabbitmq.encode(untold, PLAIN, None).content_type is None


@pytest.mark.parametrize("mode", ["structured", "as_received"])
@pytest.mark.parametrize("arrived", [STRUCTURED, BATCH])
def test_a_document_goes_on_untouched(mode: str, arrived: ContentMode) -> None:
    """R10: the property is the media type it came with, parameters included."""
    decoded = Decoded(CloudEvent(GOOD), arrived, DOCUMENT, "application/cloudevents+json; a=b")
    written = rabbitmq.encode(decoded, EncodeOptions(mode=mode), b"k")

    assert (written.headers, written.body) == ((), DOCUMENT)
    assert written.content_type == "application/cloudevents+json; a=b"


def test_both_modes_are_written_and_read() -> None:
    """R1, R2: structured means JSON at the least."""
    decoded = Decoded(CloudEvent(GOOD, b"x"), BINARY)

    assert rabbitmq.encode(decoded, EncodeOptions(mode="as_received"), None).headers == CE_GOOD
    written = rabbitmq.encode(decoded, EncodeOptions(mode="structured"), None)
    assert written.content_type == "application/cloudevents+json; charset=utf-8"
    assert rabbitmq.decode(written).event.data == b"x"


def test_what_amqp_cannot_carry_is_refused_before_it_is_sent() -> None:
    """A short string has 255 bytes; the broker would close the channel under everybody."""
    name = "n" * 252
    fits = CloudEvent(GOOD | {name: "v"})
    assert rabbitmq.encode(Decoded(fits, BINARY), PLAIN, None).headers[-1][0] == f"ce-{name}"

    long_type = "text/plain; a=" + "b" * 255
    event = CloudEvent(GOOD | {name + "n": "v", "datacontenttype": long_type})
    with pytest.raises(InvalidEvent) as refusal:
        rabbitmq.encode(Decoded(event, BINARY), PLAIN, None)
    assert [f.code for f in refusal.value.faults] == ["name-too-long", "content-type-too-long"]
    assert rabbitmq.decode(
        rabbitmq.encode(Decoded(event, BINARY), EncodeOptions(mode="structured"), None)
    ).event


# Reading: the binding's own


@pytest.mark.parametrize("leniency", [LIBERAL, STRICT])
def test_the_content_type_property_decides_the_mode(leniency: rabbitmq.RabbitmqLeniency) -> None:
    """R3 in any case, and R11: mirrored headers are legal, and the document wins."""
    for content_type in ("application/cloudevents+json", "Application/CloudEvents; charset=utf-8"):
        message = record(("ce-id", b"other"), body=DOCUMENT, content_type=content_type)
        decoded = rabbitmq.decode(message, leniency=leniency)
        assert (decoded.mode, decoded.document) == (STRUCTURED, DOCUMENT)
        assert (decoded.event.id, decoded.media_type) == ("1", content_type)


def test_binary_mode_is_read_from_its_headers() -> None:
    """R3, R4, R6: text beyond ASCII too, and nothing is percent-decoded."""
    message = record(*CE_GOOD, ("ce-subject", "é %20".encode()), content_type="text/plain")
    decoded = rabbitmq.decode(message, leniency=STRICT)

    assert decoded.mode is BINARY
    assert decoded.event.attributes == GOOD | {"subject": "é %20", "datacontenttype": "text/plain"}
    assert decoded.event.data is message.body


def test_documents_that_are_not_ours_to_read_go_on_as_they_are() -> None:
    """R3: unknown formats, and batches, of which the binding has none; a document has a body."""
    for content_type in ("application/cloudevents+cbor", "application/cloudevents-batch+json"):
        decoded = rabbitmq.decode(record(body=b"[]", content_type=content_type))
        assert (decoded.opaque, decoded.document) == (True, b"[]")
    assert faults(record(body=b"", content_type="application/cloudevents+json"))[0] == (
        "no-document",
        "",
    )


def test_faults_are_listed_with_their_places() -> None:
    """A dead letter says everything that is wrong."""
    headers = (*CE_GOOD[:3], ("ce-time", b"noon"), ("ce-a-b", b"x"), ("ce-ext", b"\xff"))

    assert faults(record(*headers, content_type="xyz")) == [
        ("bad-utf8", "header ce-ext"),
        ("missing-attribute", "header ce-type"),
        ("bad-media-type", "property content_type"),
        ("bad-timestamp", "header ce-time"),
        ("bad-attribute-name", "header ce-a-b"),
    ]


def test_an_unknown_version_is_refused_by_name() -> None:
    """ADR 0006."""
    assert faults(record(("ce-specversion", b"9.9"), *CE_GOOD[1:])) == [
        ("unsupported-specversion", "header ce-specversion")
    ]


def test_repeats_that_agree_are_one_and_others_are_refused() -> None:
    """Trap 11: never the last one wins."""
    assert rabbitmq.decode(record(*CE_GOOD, *CE_GOOD)).event.attributes == GOOD
    with pytest.raises(InvalidEvent, match="given twice"):
        rabbitmq.decode(record(*CE_GOOD, ("ce-id", b"1")), without("repeats"))
    assert faults(record(*CE_GOOD, ("ce-id", b"2"))) == [("repeated-attribute", "header ce-id")]


def test_of_a_repeated_foreign_header_the_first_is_kept() -> None:
    """A table holds a name once: which of them stays must not depend on how the table was made."""
    repeated = Record(None, (("trace", b"first"), ("x", None), ("trace", b"second")), b"")

    assert to_table(repeated) == {"trace": "first", "x": None}


def test_null_headers_are_unset_and_an_empty_content_type_is_refused() -> None:
    """A table may hold null; core 1.1 for the property, as over HTTP."""
    with pytest.raises(InvalidEvent, match="datacontenttype is empty"):
        rabbitmq.decode(record(*CE_GOOD, content_type=""))
    message = record(*CE_GOOD, ("ce-subject", None), ("x", None))

    assert rabbitmq.decode(message, replace(STRICT, nulls=True)).event.attributes == GOOD
    with pytest.raises(InvalidEvent, match="ce-subject has no value"):
        rabbitmq.decode(message, without("nulls"))


@pytest.mark.parametrize("body", [b"", b"x", b"{}", b"[]", b'{"specversion":"1.0"}', b"[" * 99999])
def test_other_messages_are_no_cloudevents(body: bytes) -> None:
    """R3: content types and headers of others; the subscription decides (on_foreign)."""
    with pytest.raises(rabbitmq.NotACloudEvent):
        rabbitmq.decode(record(("x", b"\xff"), ("id", b"1"), body=body, content_type="a/json"))


# Reading: what others write, each behind a switch of its own


def without(switch: str) -> rabbitmq.RabbitmqLeniency:
    return replace(LIBERAL, **{switch: False})


def test_ce_datacontenttype_counts_only_where_the_property_is_missing() -> None:
    """4.2: the binding's own example shows it, its text excludes it (R6)."""
    second = ("ce-datacontenttype", b"text/a")

    assert rabbitmq.decode(record(*CE_GOOD, second)).event.datacontenttype == "text/a"
    both = record(*CE_GOOD, second, content_type="text/b")
    assert rabbitmq.decode(both).event.datacontenttype == "text/b"
    with pytest.raises(InvalidEvent, match="must not be sent"):
        rabbitmq.decode(both, leniency=without("datacontenttype"))


@pytest.mark.parametrize("name", ["content-type", "Content-Type"])
def test_a_content_type_header_counts_only_where_the_property_is_missing(name: str) -> None:
    """4.2: drawn inside the headers map; also where it makes the message structured."""
    header: Header = (name, b"text/a")

    assert rabbitmq.decode(record(*CE_GOOD, header)).event.datacontenttype == "text/a"
    both = rabbitmq.decode(record(*CE_GOOD, header, content_type="text/b"))
    assert (both.event.datacontenttype, both.foreign) == ("text/b", (header,))  # I3
    assert rabbitmq.decode(rabbitmq.encode(both, PLAIN, None)) == both
    document = record((name, b"application/cloudevents+json"), body=DOCUMENT)
    assert rabbitmq.decode(document).mode is STRUCTURED
    switched_off = rabbitmq.decode(record(*CE_GOOD, header), leniency=without("content_type"))
    assert switched_off.event.datacontenttype is None
    with pytest.raises(InvalidEvent, match="more than once"):
        rabbitmq.decode(record(*CE_GOOD, header, (name.upper(), b"text/c")))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (2**31 - 1, "2147483647"),
        (-(2**31), "-2147483648"),
        (datetime(2026, 11, 21, 3, 4, 5, tzinfo=UTC), "2026-11-21T03:04:05Z"),
        (datetime(2026, 11, 21, 3, tzinfo=timezone(timedelta(hours=1))), "2026-11-21T02:00:00Z"),
        (datetime(2026, 11, 21, 3), "2026-11-21T03:00:00Z"),  # noqa: DTZ001 - clients give them
        ("é".encode(), "é"),
        (b"\xff\x00", "/wA="),
        (bytearray(b"abc"), "abc"),
    ],
)
def test_typed_values_become_canonical_text(value: object, text: str) -> None:
    """R9, core 1.3."""
    received = from_table({f"ce-{n}": t for n, t in GOOD.items()} | {"ce-ext": value}, None, b"x")

    event = rabbitmq.decode(received).event
    assert event.attributes["ext"] == text
    with pytest.raises(InvalidEvent, match="is not a string"):
        rabbitmq.decode(received, without("natives"))


def test_the_type_of_an_extension_is_kept() -> None:
    """J1: on the way to JSON an integer is a number again. A core attribute has its own type."""
    table = {f"ce-{n}": t for n, t in GOOD.items()} | {"ce-id": 5, "ce-n": 5, "ce-b": True}
    received = from_table(table, None, b"x")
    event = rabbitmq.decode(received).event

    assert event.id == "5"
    assert event.types == {"n": AttributeType.INTEGER, "b": AttributeType.BOOLEAN}


@pytest.mark.parametrize(
    "value", [2**31, -(2**31) - 1, 1.5, Decimal("1.5"), {"a": 1}, ["a"], float("nan")]
)
def test_types_that_no_attribute_has_are_refused(value: object) -> None:
    """R9, core 1.3: tables, arrays, floats, and numbers beyond 32 bits."""
    received = from_table({f"ce-{n}": t for n, t in GOOD.items()} | {"ce-ext": value}, None, b"x")

    assert faults(received, ext=value) == [("wrong-type", "header ce-ext")]


@pytest.mark.parametrize("name", ["CE-subject", "Ce-Subject", "ce-SUBJECT"])
def test_header_names_are_read_in_any_case_but_the_exact_one_wins(name: str) -> None:
    """Trap 9: headers of AMQP are case-sensitive, producers are not."""
    loose = record(*CE_GOOD, (name, b"loose"))

    assert rabbitmq.decode(loose).event.attributes["subject"] == "loose"
    both = record((name, b"loose"), *CE_GOOD, ("ce-subject", b"exact"))
    assert rabbitmq.decode(both).event.attributes["subject"] == "exact"
    if not name.startswith("ce-"):
        assert rabbitmq.decode(loose, leniency=without("any_case")).event.attributes == GOOD
        return
    with pytest.raises(InvalidEvent, match="is not an attribute name"):
        rabbitmq.decode(loose, leniency=without("any_case"))


@pytest.mark.parametrize("prefix", ["cloudEvents:", "cloudEvents_", "cloudevents:"])
def test_the_prefixes_of_amqp_1_0_are_read(prefix: str) -> None:
    """4.2, 4.4: what an AMQP 1.0 producer wrote arrives as headers."""
    message = record(*((prefix + name, text) for name, text in BARE), content_type="a/b")

    assert rabbitmq.decode(message).event.attributes == GOOD | {"datacontenttype": "a/b"}
    with pytest.raises(rabbitmq.NotACloudEvent):
        rabbitmq.decode(message, leniency=without("cloud_events"))


def test_both_separators_must_agree() -> None:
    """Trap 11."""
    headers = [(f"cloudEvents:{name}", text) for name, text in BARE]

    same = record(*headers, ("cloudEvents_id", b"1"))
    assert rabbitmq.decode(same).event.attributes == GOOD
    assert faults(record(*headers, ("cloudEvents_id", b"2")))[0][0] == "repeated-attribute"


def test_the_unprefixed_form_is_read_without_what_cannot_be_an_attribute() -> None:
    """4.2: Knative's broker writes bare names, the content type among them; ``x-`` is RabbitMQ's."""
    own = [*BARE, ("traceparent", b"00-1-2-01"), ("content-type", b"text/plain")]
    others: list[Header] = [
        ("x-death", None),
        ("x-retries", b"1"),
        ("My-Header", b"\xff"),
        ("t", None),
    ]
    message = record(*own, *others)

    message = replace(message, natives={"x-death": [{"count": 1}], "t": {"a": 1}})
    attributes = rabbitmq.decode(message).event.attributes
    assert attributes == GOOD | {"traceparent": "00-1-2-01", "datacontenttype": "text/plain"}
    assert rabbitmq.decode(message).foreign == tuple(others)
    with pytest.raises(rabbitmq.NotACloudEvent):
        rabbitmq.decode(message, leniency=without("unprefixed"))


@pytest.mark.parametrize("missing", range(4))
def test_the_unprefixed_form_needs_every_required_attribute(missing: int) -> None:
    """R3: all mandatory attributes make it one; ``id`` and ``type`` are names that anybody uses."""
    with pytest.raises(rabbitmq.NotACloudEvent):
        rabbitmq.decode(record(*(BARE[:missing] + BARE[missing + 1 :])))


def test_the_binding_s_own_prefix_wins_over_the_others() -> None:
    """4.6: one spelling a message; what others are called is foreign."""
    others = (("cloudEvents:id", b"2"), ("id", b"3"), ("specversion", b"0.3"))

    assert rabbitmq.decode(record(*others, *CE_GOOD)).event.attributes == GOOD


@pytest.mark.parametrize("content_type", [None, "application/json", "text/json; a=b"])
def test_a_document_of_the_wrong_type_is_recognised(content_type: str | None) -> None:
    """4.6 step 5."""
    message = record(("x", b"\xff"), body=DOCUMENT, content_type=content_type)
    decoded = rabbitmq.decode(message)

    assert (decoded.mode, decoded.document) == (STRUCTURED, DOCUMENT)
    with pytest.raises(rabbitmq.NotACloudEvent):
        rabbitmq.decode(message, leniency=without("sniff"))


# Beside the event


def test_foreign_headers_are_ignored_and_stay_distinguishable() -> None:
    """I3, trap 15: they may be anything, and are never fatal."""
    others: tuple[Header, ...] = (("x-death", None), ("trace", b"\xff"), ("cx", b"\xff"), ("", b""))
    natives = {"x-death": [1.5]}

    for own in (CE_GOOD, BARE, (*CE_GOOD, ("Content-Type", b"a/b"))):
        claimed = others if own is not BARE else (others[0], others[3])
        message = record(*own, *claimed)
        assert rabbitmq.decode(replace(message, natives=natives)).event.id == "1"
        assert rabbitmq.decode(replace(message, natives=natives)).foreign == claimed
    document = "application/cloudevents+json"
    structured = record(*CE_GOOD, *others, body=DOCUMENT, content_type=document)
    assert rabbitmq.decode(structured).foreign == others
    assert rabbitmq.decode(record(*others, body=DOCUMENT)).foreign == others


@pytest.mark.parametrize("own", [CE_GOOD, BARE])
def test_typed_foreign_headers_go_on_as_they_came(own: tuple[Header, ...]) -> None:
    """I3: a table and a double have no text, and are foreign all the same; so does a name in our way."""
    table = {
        **{name: (value or b"").decode() for name, value in own},
        "x-death": [{"queue": "q", "count": 1}], "x-rate": 1.5, "x-n": 7, "x-raw": b"\xff",
        "x-foreign-ce-n": 5,
    }  # fmt: skip
    decoded = rabbitmq.decode(from_table(table, None, b"x"))
    foreign = {name: value for name, value in table.items() if name.startswith("x-")}

    assert decoded.natives["ce-n"] == 5
    for mode in ("binary", "structured"):
        written = to_table(rabbitmq.encode(decoded, EncodeOptions(mode=mode, version="0.3"), None))
        assert {n: value for n, value in written.items() if n.startswith("x-")} == foreign
        assert {n: type(v) for n, v in written.items() if n.startswith("x-")} == {
            n: type(v) for n, v in foreign.items()
        }


def test_a_typed_foreign_header_that_is_left_out_leaves_no_type_behind() -> None:
    """A sink passes along only what it is told to: the type goes with its header."""
    decoded = rabbitmq.decode(
        from_table({**{f"ce-{n}": v for n, v in GOOD.items()}, "x-a": 1.5, "x-b": 2.5}, None, b"x")
    )
    kept = replace(decoded, foreign=(("x-b", None),))

    assert rabbitmq.encode(kept, PLAIN, None).natives == {"x-b": 2.5}


def test_a_table_goes_to_a_record_and_back() -> None:
    """Design: the key travels in a header of ours; native values of others survive."""
    table = {"ce-id": "1", "n": 5, "t": {"a": [1.5]}, "b": b"\xff", "z": None, KEY_HEADER: "k"}
    received = from_table(table, "a/b", b"x")

    assert received.key == b"k"
    assert received.content_type == "a/b"
    assert dict(received.headers) == {
        "ce-id": b"1",
        "n": b"5",
        "t": None,
        "b": b"\xff",
        "z": None,
    }
    assert to_table(received) == table


@given(st.binary() | st.none())
def test_any_key_survives_the_table(key: bytes | None) -> None:
    """A key is bytes and never assumed to be UTF-8 (trap 8)."""
    table = to_table(Record(key, (), b""))

    assert from_table(table, None, b"").key == key


@given(events())
def test_binary_round_trips_also_through_the_strict_reader(event: CloudEvent) -> None:
    """R4 to R9: an encoder writes nothing that its own strict reader refuses."""
    written = rabbitmq.encode(Decoded(event, BINARY), PLAIN, b"k")
    received = from_table(to_table(written), written.content_type, written.body or b"")
    attributes = dict(event.attributes)
    content_type = content_type_of(event)
    if content_type is not None:
        attributes["datacontenttype"] = content_type

    for leniency in (LIBERAL, STRICT):
        back = rabbitmq.decode(received, leniency).event
        assert back == CloudEvent(attributes, event.data or None)


@given(events())
def test_structured_round_trips(event: CloudEvent) -> None:
    """R10: attributes, types and every byte of data."""
    back = rabbitmq.decode(
        rabbitmq.encode(Decoded(event, BINARY), EncodeOptions(mode="structured"), None),
        leniency=STRICT,
    )

    assert back.event.attributes == event.attributes
    assert (back.event.types, back.event.data) == (event.types, event.data)


_anything = st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text()
_prefixes = st.sampled_from(["ce-", "CE-", "cloudEvents:", "cloudEvents_", "", "x-"])
_tables = st.dictionaries(
    st.builds(str.__add__, _prefixes, st.sampled_from([*GOOD, "time", "ext", "datacontenttype"]))
    | st.sampled_from(["content-type", "ce-", KEY_HEADER])
    | st.text(max_size=4),
    _anything
    | st.sampled_from(["1.0", "/", "a/b"])
    | st.datetimes()
    | st.lists(_anything, max_size=1),
    max_size=10,
)
_whole = st.just({f"ce-{name}": text for name, text in GOOD.items()}) | st.just({})


@given(_tables, _whole, st.sampled_from([None, "", "a/b", "application/cloudevents+json", "é"]))
def test_a_table_is_read_or_refused_as_the_sender_s_fault(
    table: dict[str, object], whole: dict[str, object], content_type: str | None
) -> None:
    """Whatever a broker brings: nothing but our own error, and only valid events."""
    received = from_table(table | whole, content_type, DOCUMENT)
    try:
        decoded = rabbitmq.decode(received)
    except SenderError as error:
        refused_with(error)
        return
    assert len(decoded.foreign) <= len(table)
    assert faults_of(decoded.event.attributes, str) == []


@given(_anything.filter(lambda value: value is not None and not isinstance(value, str)))
def test_canonical_text_is_of_its_type(value: object) -> None:
    """R9: ``True`` is never an integer, and no float passes."""
    text = native_text(value)

    assert (text is None) == (
        isinstance(value, float) or (type(value) is int and not -(2**31) <= value < 2**31)
    )


def test_message_id_and_time_stand_in_the_record() -> None:
    """4.2: recommended message id; the broker's timestamp is no attribute of the event."""
    received = from_table({}, None, b"", "m-1", 1_700_000_000_000)
    assert (received.message_id, received.time_ms) == ("m-1", 1_700_000_000_000)

    for identity, message_id in (("x" * 255, "x" * 255), ("x" * 256, None), ("é" * 128, None)):
        event = CloudEvent(GOOD | {"id": identity})
        assert rabbitmq.encode(Decoded(event, BINARY), PLAIN, None).message_id == message_id
