"""What is decoded from an encoding is the event again, whatever the event."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from app.bindings import http, kafka
from app.bindings.headers import percent_decode, percent_encode
from app.bindings.record import ContentMode, Decoded, Record
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import SenderError
from app.event.convert import as_version
from app.event.validate import faults_of
from app.event.value import AttributeType, CloudEvent, DataForm
from app.event.versions import VERSIONS
from app.formats.json import _read_any, read_batch, read_event, write_batch, write_event
from app.formats.json_columns import read_columns
from app.formats.json_compact import read_compact
from event_strategies import events, header_pairs, json_values, old_documents, texts
from example_counts import READERS, examples
from reading_checks import refused_with

BINARY, STRUCTURED, BATCH = ContentMode.BINARY, ContentMode.STRUCTURED, ContentMode.BATCH


def wire(message: http.HttpMessage) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in message.headers]


def not_json(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def as_binary(event: CloudEvent) -> CloudEvent:
    """The event as binary mode can tell it: text only, JSON made explicit (J13), no form of data."""
    attributes = dict(event.attributes)
    if event.data_form is DataForm.JSON:
        attributes.setdefault("datacontenttype", "application/json")
    return CloudEvent(attributes, event.data)


@given(events())
def test_generated_events_are_valid(event: CloudEvent) -> None:
    """Otherwise the properties below would prove nothing."""
    assert faults_of(event.attributes, str) == []


@given(texts)
def test_percent_coding_round_trips(text: str) -> None:
    """HTTP 3.1.3.2: for every string that an attribute may be, and in visible ASCII."""
    (coded,) = percent_encode([text])

    assert percent_decode(coded.encode()) == text
    assert all("!" <= character <= "~" for character in coded)


@given(events())
def test_http_binary_round_trips(event: CloudEvent) -> None:
    """H8 to H10: attributes as canonical text, the body the very same object."""
    message = http.encode(Decoded(event, BINARY), EncodeOptions())
    (decoded,) = http.decode(wire(message), message.body)

    expected = as_binary(event)
    assert decoded.event.attributes == expected.attributes
    assert decoded.event.data == (expected.data or None)  # HTTP cannot tell empty from absent
    assert decoded.event.data is None or decoded.event.data is event.data


@given(events(), st.binary(max_size=8) | st.none())
def test_kafka_binary_round_trips(event: CloudEvent, key: bytes | None) -> None:
    """K12 to K15: null and empty told apart, the body the very same object, the key the caller's."""
    record = kafka.encode(Decoded(event, BINARY), PLAIN, key)

    assert record.key == key
    assert record.body is event.data
    assert kafka.decode(record).event == as_binary(event)


@given(events())
def test_a_document_round_trips(event: CloudEvent) -> None:
    """J1 to J13: attributes, types and every byte of data."""
    back = read_event(write_event(event))

    assert (back.attributes, back.types, back.data) == (event.attributes, event.types, event.data)
    assert write_event(back) == write_event(event)


@given(old_documents())
def test_a_document_of_an_older_version_round_trips(old: tuple[str, str]) -> None:
    """V4: read as 1.0, written as it came, read again: the same event."""
    version, document = old
    event = read_event(document.encode())
    written = write_event(event)

    assert event.version == version
    assert faults_of(event.attributes, str) == []
    assert read_event(written) == event
    assert write_event(read_event(written)) == written


def texts_fit_headers(event: CloudEvent) -> bool:
    """0.1: a header says nothing of the case of a name. 0.3: the entries of a Map are all text."""
    has_map = any(each.type is AttributeType.MAP for each in event.arrived.values())
    return event.version != "0.1" and not (event.version == "0.3" and has_map)


@given(old_documents())
def test_headers_of_an_older_version_round_trip(old: tuple[str, str]) -> None:
    """V6: over HTTP and in a record, and what left is what arrived."""
    event = read_event(old[1].encode())
    message = http.encode(Decoded(event, BINARY), EncodeOptions())
    (first,) = http.decode(wire(message), message.body)
    record = kafka.encode(first, PLAIN, None)
    last = kafka.decode(record)

    assert first.event.version == old[0]
    assert first.event.data == (event.data or None)
    if texts_fit_headers(event):
        assert first.event.attributes == as_binary(event).attributes
    assert last.event == first.event
    assert http.encode(last, EncodeOptions()) == http.encode(first, EncodeOptions())


@given(events(), st.sampled_from(list(VERSIONS)))
def test_an_event_goes_to_any_version_and_round_trips_there(event: CloudEvent, name: str) -> None:
    """V7: decode(encode(e)) == e in each version; data is never maimed, id and source never touched."""
    older = as_version(event, name)
    again = read_event(write_event(older))

    assert faults_of(older.attributes, str) == []
    assert (again.id, again.source, again.data) == (event.id, event.source, event.data)
    assert again.version in {name, "1.0"}
    assert again.attributes == older.attributes
    if again.version == name:
        assert (again.types, again.arrived) == (older.types, older.arrived)


@given(events(), st.sampled_from(list(VERSIONS)))
def test_an_event_in_headers_of_any_version_round_trips(event: CloudEvent, name: str) -> None:
    """V6: in records and over HTTP."""
    older = as_version(event, name)
    record = kafka.encode(Decoded(older, BINARY), PLAIN, None)
    message = http.encode(Decoded(older, BINARY), EncodeOptions())
    (requested,) = http.decode(wire(message), message.body)
    recorded = kafka.decode(record).event

    for back in (requested.event, recorded):
        assert back.attributes == as_binary(older).attributes
        assert back.version == name
    assert recorded.data is event.data


@given(st.lists(events(), max_size=4))
def test_a_batch_round_trips(batch: list[CloudEvent]) -> None:
    """J14: each event and its own slice."""
    documents = [write_event(event) for event in batch]
    found = read_batch(write_batch(documents))

    assert [slice_ for _, slice_ in found] == documents
    assert [event.data for event, _ in found] == [event.data for event in batch]


@given(events())
def test_structured_goes_from_http_to_kafka_to_a_webhook_untouched(event: CloudEvent) -> None:
    """as_received: the document is one object all the way."""
    document = write_event(event)
    (arrived,) = http.decode([(b"content-type", b"application/cloudevents+json")], document)
    left = kafka.decode(kafka.encode(arrived, EncodeOptions(mode="as_received"), None))

    assert http.encode(left, EncodeOptions(mode="structured")).body is document
    assert left.event == arrived.event


@given(json_values)
def test_any_way_of_writing_json_keeps_the_text_of_data(value: object) -> None:
    """Trap 6: spaced or compact, data is a slice and never parsed."""
    members = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": value}
    for separators in ((",", ":"), (", ", ": "), (" ,\n", "\t:")):
        for ascii_only in (True, False):
            text = json.dumps(members, separators=separators, ensure_ascii=ascii_only)
            data = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
            assert read_event(text.encode()).data == data.encode()


members = st.tuples(
    st.sampled_from(["specversion", "id", "source", "type", "time", "datacontenttype", "data", "data_base64", "ext", "E"]),
    json_values | st.sampled_from(["1.0", "application/json", "text/plain", "AA==", "a\\b", "\x7f", ',"data":']),
)  # fmt: skip


@given(
    st.lists(members, max_size=6),
    st.booleans(),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:")]),
)
def test_the_hot_reader_never_disagrees_with_the_ordinary_one(
    some: list[tuple[str, object]], full: bool, separators: tuple[str, str]
) -> None:
    """It is an optimisation only: it steps aside, or says the same; repeated names included."""
    good = [("specversion", "1.0"), ("id", "1"), ("source", "/s"), ("type", "t")] if full else []
    comma, colon = separators
    texts = [
        f'"{name}"{colon}{json.dumps(value, separators=separators, ensure_ascii=False)}'
        for name, value in good + some
    ]
    text = ("{" + comma.join(texts) + "}").encode()
    event = read_compact(text)

    assert event is None or event == _read_any(text)


def document(members: Iterable[tuple[str, str]], separators: tuple[str, str]) -> bytes:
    """``members``: names, and their JSON."""
    comma, colon = separators
    return ("{" + comma.join([f'"{name}"{colon}{value}' for name, value in members]) + "}").encode()


@given(
    st.data(),
    st.lists(st.sampled_from(["time", "datacontenttype", "ext", "data", "a"]), unique=True),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:")]),
    st.booleans(),
)
@examples(READERS)
def test_a_reader_by_column_never_disagrees_with_the_ordinary_one(
    data: st.DataObject, more: list[str], separators: tuple[str, str], odd: bool
) -> None:
    """It is an optimisation only: it steps aside, or says the same of each event, attributes in order of arrival."""
    values = {
        "specversion": st.just('"1.0"'),
        "id": texts.map(json.dumps) | st.just('"1"'),
        "source": st.sampled_from(['"/s"', '"/t"']),
        "type": st.sampled_from(['"t"', '"u"']),
        "time": st.sampled_from(['"2026-11-20T10:00:00Z"', '"2026-11-20t10:00:01.5+01:00"']),
        "datacontenttype": st.just('"application/json"'),
        "ext": st.sampled_from(['"x y"', '"\\u0041"', '""', "1", "null", '"\x7f"']) if odd else st.just('"x"'),
        "a": st.just('",\'data\':"'),
        "data": st.sampled_from(["1.10", '"x"', '{"data" :1,"id":"2"} ', "null", '[{"a":"}"}]']),
    }  # fmt: skip
    names = ["specversion", "id", "source", "type", *more]
    members = [[(name, data.draw(values[name])) for name in names] for _ in range(5)]
    if odd:
        strange = data.draw(st.sampled_from(members))
        strange.insert(data.draw(st.integers(0, len(names))), data.draw(st.sampled_from(strange)))
    elements = [document(each, separators) for each in members]
    columns = read_columns(elements)

    if columns is None:
        return
    expected = [_read_any(element) for element in elements]
    assert list(columns) == list(zip(expected, elements, strict=True))
    for (event, _), other in zip(columns, expected, strict=True):
        assert list(event.attributes) == list(other.attributes)


def test_a_batch_of_one_serialiser_is_read_by_column() -> None:
    """Else the property above would prove nothing."""
    for separators in ((",", ":"), (", ", ": "), (" ,\n", "\t:")):
        for last in ([], [("data", '{"a":"b,\\"data\\":"}')]):
            given_members = [
                ("specversion", '"1.0"'),
                ("id", '"1"'),
                ("source", '"/s"'),
                ("type", '"t"'),
            ]
            assert read_columns([document([*given_members, *last], separators)] * 5) is not None


@given(header_pairs, st.binary(max_size=200), st.booleans())
@examples(READERS)
def test_no_request_does_worse_than_a_sender_error(
    headers: list[tuple[bytes, bytes]], body: bytes, strict: bool
) -> None:
    """Whatever arrives, it is an event or the sender's fault: never a 500."""
    try:
        decoded = http.decode(headers, body, strict_percent=strict)
    except SenderError as error:
        refused_with(error)
        return
    for item in decoded:
        assert faults_of(item.event.attributes, str) == []
        kafka.encode(item, PLAIN, None)
        kafka.encode(item, EncodeOptions(mode="structured"), None)
        http.encode(item, EncodeOptions())


@given(header_pairs, st.none() | st.binary(max_size=200))
@examples(READERS)
def test_no_record_does_worse_than_a_sender_error(
    headers: list[tuple[bytes, bytes]], body: bytes | None
) -> None:
    """Foreign records are dead letters, not crashes."""
    pairs = tuple(
        (name.decode("latin-1").replace("ce-", "ce_"), value or None) for name, value in headers
    )
    try:
        decoded = kafka.decode(Record(None, pairs, body))
    except SenderError as error:
        refused_with(error)
    else:
        assert decoded.opaque or faults_of(decoded.event.attributes, str) == []


@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]",:\\ue0d8181ntsfal', max_size=60).map(str.encode)
)
def test_what_the_reader_takes_other_readers_take_too(document: bytes) -> None:
    """Python's own JSON reader as a second opinion: nothing we accept is malformed to it."""
    text = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":' + document + b"}"
    try:
        event = read_event(text)
    except SenderError:
        return
    parsed = json.loads(text, parse_constant=not_json)
    assert event.data is not None
    assert json.loads(event.data) == parsed["data"]
