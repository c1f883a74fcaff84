"""The fifteen traps that most implementations fall into: what a naive one does, and that ours does not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from app.bindings import http, kafka, pulsar, rabbitmq
from app.bindings.headers import percent_decode, percent_encode
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import InvalidEvent, SenderError
from app.event.media_types import declares_json
from app.event.types import is_timestamp
from app.event.value import AttributeType, CloudEvent, DataForm
from app.formats.json import read_event, write_event
from app.model.route import KeyPolicy
from app.routing.keys import compile_key

BINARY, STRUCTURED, BATCH = ContentMode.BINARY, ContentMode.STRUCTURED, ContentMode.BATCH
REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
CE_HTTP = [(f"ce-{name}".encode(), text.encode()) for name, text in REQUIRED.items()]
CE_KAFKA: tuple[Header, ...] = tuple((f"ce_{n}", text.encode()) for n, text in REQUIRED.items())
JSON_DOCUMENT = b"application/cloudevents+json"
AS_DOCUMENT = EncodeOptions(mode="structured")
AS_RECEIVED = EncodeOptions(mode="as_received")


def binary(event: CloudEvent) -> Decoded:
    return Decoded(event, BINARY)


def received(content_type: bytes | None, *headers: tuple[bytes, bytes], body: bytes) -> Decoded:
    named = [] if content_type is None else [(b"content-type", content_type)]
    (decoded,) = http.decode([*headers, *named], body)
    return decoded


def codes(refusal: pytest.ExceptionInfo[InvalidEvent]) -> set[str]:
    return {fault.code for fault in refusal.value.faults}


def document(**members: object) -> bytes:
    return json.dumps(REQUIRED | members).encode()


def test_trap_01_percent_coding_is_of_http_headers_only() -> None:
    """Naive: not coded at all, coded twice, decoded on brokers too, or bad UTF-8 replaced."""
    text = "Euro \u20ac \U0001f600"
    (coded,) = percent_encode([text])

    assert coded == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert percent_decode(coded.encode()) == text
    assert percent_decode(b"%2541") == "%41"  # one round
    assert percent_encode(["+/:,;{~"]) == ["+/:,;{~"]
    for wrong in (b"%C0%A0", b"%ED%A0%80", b"%E2"):
        with pytest.raises(UnicodeDecodeError):
            percent_decode(wrong)
    odd = received(b"a/b;c=%20", *CE_HTTP, (b"ce-x", b'"a b%20"'), body=b"").event
    assert (odd.attributes["x"], odd.datacontenttype) == ("a b ", "a/b;c=%20")
    for binding in (kafka, rabbitmq, pulsar):
        plain = CloudEvent(REQUIRED | {"x": "a%20\u20ac"})
        assert binding.decode(binding.encode(binary(plain), PLAIN, None)).event == plain


@pytest.mark.parametrize(
    ("content_type", "mode"),
    [
        (b"Application/CloudEvents+JSON ; charset=utf-8", STRUCTURED),
        (b"application/cloudevents", STRUCTURED),
        (b"application/json", BINARY),
        (b'text/plain; x="application/cloudevents+json"', BINARY),
    ],
)
def test_trap_02_the_media_type_alone_decides_the_mode(
    content_type: bytes, mode: ContentMode
) -> None:
    """Naive: any ``ce-`` header means binary, the case matters, or a batch is taken for structured."""
    assert received(content_type, *CE_HTTP, body=DOCUMENT).mode is mode


def test_trap_02_the_batch_prefix_is_looked_for_first() -> None:
    """Naive: ``application/cloudevents-batch`` begins with ``application/cloudevents``."""
    found = http.decode([(b"content-type", b"application/CloudEvents-Batch+json"), *CE_HTTP], b"[]")

    assert found == []


def test_trap_03_null_absent_and_empty_are_three_things() -> None:
    """Naive: ``if data:`` or ``dict.get``; null becomes absent, and a null attribute a fault or text."""
    null, absent = read_event(document(data=None, subject=None)), read_event(document(time=None))
    empty = kafka.decode(Record(None, CE_KAFKA, b"")).event
    record = kafka.encode(Decoded(null, STRUCTURED), PLAIN, None)

    assert (null.data, absent.data, empty.data) == (b"null", None, b"")
    assert record.body == b"null"
    assert null.attributes == absent.attributes == REQUIRED
    assert [b"data" in write_event(event) for event in (null, absent, empty)] == [True, False, True]
    assert b"null" not in write_event(absent)


@pytest.mark.parametrize(
    "spelling",
    [
        "Application/JSON",
        "model/x+json",
        "application/vnd.a_b+json",
        "text/json ; a=b",
        " x/y+JSON",
    ],
)
def test_trap_04_json_is_known_by_its_subtype_in_any_spelling(spelling: str) -> None:
    """Naive: ``== "application/json"``, or a pattern of two types; and no type means JSON always."""
    assert declares_json(spelling)
    assert read_event(document(data={}, datacontenttype=spelling)).data_form is DataForm.JSON
    assert not declares_json("application/jsonp")
    assert read_event(document(data={})).data_form is DataForm.JSON
    assert read_event(document(data_base64="e30=")).data_form is DataForm.OPAQUE


def test_trap_05_json_strings_keep_their_quotes() -> None:
    """Naive: a ``str`` goes out as its characters, and one that looks like JSON is parsed again."""
    for value in ("text", '{"a":1}', "5", ""):
        event = read_event(document(data=value))
        record = kafka.encode(Decoded(event, STRUCTURED), PLAIN, None)
        assert record.body == json.dumps(value).encode()
        assert json.loads(write_event(kafka.decode(record).event))["data"] == value


@pytest.mark.parametrize(
    "text", [b"1.10", b"1e400", b"12345678901234567890", b'{"b":1,"a":2,"b":3}', b'{ "a" : 1.0 }']
)
def test_trap_06_data_is_never_parsed_and_printed_again(text: bytes) -> None:
    """Naive: ``dumps(loads(data))``; and Python's reader and writer both know NaN, which JSON does not."""
    event = read_event(DOCUMENT[:-1] + b',"data":' + text + b"}")
    record = kafka.encode(Decoded(event, STRUCTURED), PLAIN, None)

    assert record.body == text
    assert text in write_event(kafka.decode(record).event)
    for number in (b"NaN", b"Infinity"):
        with pytest.raises(InvalidEvent):
            read_event(DOCUMENT[:-1] + b',"data":' + number + b"}")
        typed = CloudEvent(REQUIRED | {"datacontenttype": "application/json"}, number)
        assert b"data_base64" in write_event(typed)


def test_trap_07_no_data_is_a_tombstone_and_empty_data_is_not() -> None:
    """Naive: ``data or b""``, so that compaction never deletes; or ``data or None``, so that it does."""
    absent = received(None, *CE_HTTP, body=b"")

    assert kafka.encode(absent, PLAIN, None).body is None
    assert kafka.encode(absent, EncodeOptions(empty_body="empty"), None).body == b""
    assert kafka.encode(binary(CloudEvent(REQUIRED, b"")), PLAIN, None).body == b""
    assert kafka.encode(absent, AS_DOCUMENT, None).body  # K17


def test_trap_08_a_key_never_touches_the_event() -> None:
    """Naive: the key is popped from, or written into, ``partitionkey``; or taken for UTF-8 text."""
    keyed = CloudEvent(REQUIRED | {"partitionkey": "p"})
    before = dict(keyed.attributes)
    usual = compile_key(KeyPolicy())
    opted = compile_key(KeyPolicy(mapper="partitionkey"))

    assert usual(keyed, b"\xff\x00") == b"\xff\x00"  # as it is
    assert usual(keyed, None) is None  # the mapper is opt-in
    assert opted(keyed, None) == b"p"
    record = kafka.encode(binary(keyed), PLAIN, b"\xff")
    assert record.key == b"\xff"
    assert ("ce_partitionkey", b"p") in record.headers
    assert dict(keyed.attributes) == before
    bare = kafka.decode(Record(b"key", CE_KAFKA, None)).event
    assert bare.attributes == REQUIRED


def test_trap_09_each_binding_has_its_own_names_and_values() -> None:
    """Naive: one prefix for all; ``str(True)``; a dict of ``str`` where bytes are due."""
    typed = {"flag": AttributeType.BOOLEAN, "count": AttributeType.INTEGER}
    event = CloudEvent(REQUIRED | {"flag": "true", "count": "-5", "x": "\u20ac"}, types=typed)
    decoded = binary(event)

    assert {name for name, _ in kafka.encode(decoded, PLAIN, None).headers} >= {"ce_id", "ce_flag"}
    assert {name for name, _ in rabbitmq.encode(decoded, PLAIN, None).headers} >= {"ce-id", "ce-x"}
    assert {n for n, _ in pulsar.encode(decoded, PLAIN, None).headers} >= {"CE-Id", "CE-X-Flag"}
    assert dict(kafka.encode(decoded, PLAIN, None).headers)["ce_x"] == "\u20ac".encode()
    for binding in (kafka, rabbitmq, pulsar):
        values = {value for _, value in binding.encode(decoded, PLAIN, None).headers}
        assert {b"true", b"-5"} <= values
    assert kafka.decode(Record(None, tuple((n.upper(), v) for n, v in CE_KAFKA), None)).event.id
    for wrong in (5.0, 2**31, -(2**31) - 1, 1.5):
        with pytest.raises(InvalidEvent):
            read_event(document(count=wrong))


@pytest.mark.parametrize(
    "text",
    ["2018-04-05t17:31:00z", "2018-04-05T17:31:00-00:00", "2016-12-31T23:59:60Z",
     "2018-04-05T17:31:00.123456789+05:30"],
)  # fmt: skip
def test_trap_10_timestamps_are_of_rfc_3339_and_kept_as_written(text: str) -> None:
    """Naive: a ``datetime`` in between, which drops nanoseconds, the offset's sign and leap seconds."""
    event = read_event(document(time=text))

    assert event.attributes["time"] == text
    assert dict(kafka.encode(Decoded(event, STRUCTURED), PLAIN, None).headers)["ce_time"] == (
        text.encode()
    )


@pytest.mark.parametrize(
    "text",
    ["2018-04-05T17:31Z", "2018-04-05T17:31:00", "2018-04-05T17:31:00+05", "2018-04-05T24:00:00Z",
     "2018-W14-4T17:31:00Z", "20180405T173100Z", "2018-02-29T00:00:00Z", "2018-04-05 17:31:00Z"],
)  # fmt: skip
def test_trap_10_other_forms_of_iso_8601_are_refused(text: str) -> None:
    """Naive: a reader of ISO 8601, which is much wider."""
    assert not is_timestamp(text)
    with pytest.raises(InvalidEvent):
        read_event(document(time=text))


@pytest.mark.parametrize(
    "read",
    [
        lambda: http.decode([*CE_HTTP, (b"ce-id", b"2")], b""),
        lambda: http.decode([*CE_HTTP, (b"content-type", b"a/b"), (b"content-type", b"c/d")], b""),
        lambda: kafka.decode(Record(None, (*CE_KAFKA, ("ce_id", b"2")), None)),
        lambda: read_event(DOCUMENT[:-1] + b',"id":"2"}'),
        lambda: rabbitmq.decode(
            Record(
                None,
                (*((f"cloudEvents:{n}", t.encode()) for n, t in REQUIRED.items()),
                 ("cloudEvents_id", b"2")),
                None,
            )
        ),
        lambda: pulsar.decode(
            Record(None, (*((f"CE-{n.title()}", t.encode()) for n, t in REQUIRED.items()), ("CE-Id", b"2")), None)
        ),
    ],
    ids=["http", "http content type", "kafka", "json", "amqp separators", "pulsar"],
)  # fmt: skip
def test_trap_11_repeats_that_differ_are_refused(read: Callable[[], object]) -> None:
    """Naive: ``dict(headers)``, where the last one wins and nobody is told."""
    with pytest.raises(InvalidEvent) as refusal:
        read()
    assert codes(refusal) & {"repeated-attribute", "duplicate-member"}


def test_trap_12_the_document_beats_mirrored_headers() -> None:
    """Naive: headers first; and ``ce-datacontenttype`` is written because all attributes are."""
    mirrored = [(name, b"other" if name == b"ce-id" else value) for name, value in CE_HTTP]
    arrived = received(JSON_DOCUMENT, *mirrored, (b"ce-ext", b"x"), body=DOCUMENT)
    headers = ((n, b"other" if n == "ce_id" else v) for n, v in CE_KAFKA)
    record = Record(None, (*headers, ("content-type", JSON_DOCUMENT)), DOCUMENT)

    assert arrived.event.attributes == kafka.decode(record).event.attributes == REQUIRED
    typed = binary(CloudEvent(REQUIRED | {"datacontenttype": "text/plain"}, b"x"))
    written = [
        {name.lower() for name, _ in http.encode(typed, PLAIN).headers},
        *({n.lower() for n, _ in b.encode(typed, PLAIN, None).headers} for b in (kafka, rabbitmq, pulsar)),
    ]  # fmt: skip
    assert not any(name.endswith("datacontenttype") for names in written for name in names)


def test_trap_13_unknown_formats_go_on_untouched() -> None:
    """Naive: 500, or base64 around it, or the parameters of the media type lost."""
    media_type, body = b"application/cloudevents+xyz; v=2", b"\x00\xff opaque"
    arrived = received(media_type, *CE_HTTP, body=body)

    assert arrived.opaque
    for writing in (PLAIN, AS_RECEIVED):
        record = kafka.encode(arrived, writing, None)
        assert record.body is body
        assert ("content-type", media_type) in record.headers
        left = http.encode(kafka.decode(record), writing)
        assert left.body is body
        assert dict(left.headers)["Content-Type"] == media_type.decode()
    with pytest.raises(SenderError) as refusal:
        kafka.encode(arrived, EncodeOptions(mode="structured", format="json"), None)
    assert refusal.value.status == 415


def test_trap_14_nothing_is_invented_or_rewritten() -> None:
    """Naive: a missing id or time is made up, ``traceparent`` is renewed, long names are refused."""
    extensions = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "recordedtime": "2018-04-05T03:56:24.000Z",
        "anextensionwithaverylongname": " kept ",
    }
    event = read_event(document(**extensions))
    left = kafka.decode(kafka.encode(Decoded(event, STRUCTURED), PLAIN, None)).event

    assert left.attributes == REQUIRED | extensions
    for name in REQUIRED:
        rest = [(header, value) for header, value in CE_HTTP if header != f"ce-{name}".encode()]
        with pytest.raises(InvalidEvent):
            http.decode(rest, b"")
        with pytest.raises(InvalidEvent):
            read_event(json.dumps({n: v for n, v in REQUIRED.items() if n != name}).encode())


@pytest.mark.parametrize(
    "wrong", ["a\x00", "\x1f", "\x7f", "\x9f", "\ufdd0", "\ufffe", "\U0010ffff"]
)
def test_trap_15_bad_characters_are_refused_and_foreign_headers_are_not(wrong: str) -> None:
    """Naive: any text passes, and a foreign header that is null or not UTF-8 is a crash."""
    with pytest.raises(InvalidEvent) as refusal:
        read_event(document(subject=wrong))
    assert codes(refusal) == {"forbidden-character"}
    with pytest.raises(InvalidEvent):
        read_event(DOCUMENT[:-1] + b',"subject":"\\ud800"}')
    with pytest.raises(InvalidEvent):
        kafka.decode(Record(None, (*CE_KAFKA, ("ce_subject", wrong.encode())), None))

    foreign: tuple[Header, ...] = (("trace", b"\xff"), ("nothing", None), ("x", b"\x00"))
    for binding, own in (
        (kafka, CE_KAFKA),
        (rabbitmq, tuple((f"ce-{n}", t.encode()) for n, t in REQUIRED.items())),
        (pulsar, tuple((f"CE-{n.title()}", t.encode()) for n, t in REQUIRED.items())),
    ):
        assert binding.decode(Record(None, (*own, *foreign), None)).event.attributes == REQUIRED


@pytest.mark.parametrize(
    ("old", "version"),
    [
        (b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t"}', "0.1"),
        (b'{"specversion":"0.2","id":"1","source":"/s","type":"t"}', "0.2"),
        (b'{"specversion":"0.3","id":"1","source":"/s","type":"t"}', "0.3"),
    ],
)
def test_trap_15_old_shapes_are_recognised(old: bytes, version: str) -> None:
    """Naive: "id is missing" where the event says in its first member that it is of 0.1."""
    event = read_event(old)

    assert (event.version, event.attributes) == (version, REQUIRED)
