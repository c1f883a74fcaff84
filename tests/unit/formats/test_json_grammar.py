"""What is JSON by its grammar (RFC 8259) is taken, and data goes on as it came; only what is asked for can fail."""

from __future__ import annotations

import pytest

from app.bindings import http, kafka, pulsar
from app.bindings.record import Header, Record
from app.bindings.transcode import EncodeOptions
from app.errors import InvalidEvent, SenderError
from app.event.convert import as_version
from app.event.value import DataForm
from app.formats.json import read_batch, read_event, write_event
from hostile_json import NOT_JSON, STRINGS, VALUES

HEAD = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"'
HEADERS = tuple((f"ce_{name}", text) for name, text in
                (("specversion", b"1.0"), ("id", b"1"), ("source", b"/s"), ("type", b"t")))  # fmt: skip
STRUCTURED = [(b"content-type", b"application/cloudevents+json")]
BATCHED = [(b"content-type", b"application/cloudevents-batch+json")]


def with_member(member: bytes) -> bytes:
    return HEAD + b"," + member + b"}"


def with_data(data: bytes, before: bytes = b"") -> bytes:
    return with_member(before + b'"data":' + data)


def faults(document: bytes) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as refusal:
        read_event(document)
    assert "truncated" not in str(refusal.value)
    return [(fault.code, fault.at) for fault in refusal.value.faults]


def record(*headers: Header, body: bytes | None = None) -> Record:
    return Record(None, headers, body)


@pytest.mark.parametrize("data", VALUES)
def test_a_document_is_taken_and_its_data_is_as_it_came(data: bytes) -> None:
    for document in (with_data(data), with_data(data, b'"n":1,'), with_data(data) + b" "):
        event = read_event(document)
        assert (event.data, event.data_form) == (data, DataForm.JSON)
        assert write_event(event).endswith(b'"data":' + data + b"}")


@pytest.mark.parametrize("data", VALUES)
@pytest.mark.parametrize("count", [1, 12])
def test_a_batch_with_it_is_taken_whole(data: bytes, count: int) -> None:
    documents = [with_data(b"1"), *[with_data(data)] * count]
    body = b"[" + b" , ".join(documents) + b"]"
    assert [slice_ for _, slice_ in read_batch(body)] == documents
    assert [each.event.data for each in http.decode(BATCHED, body)] == [b"1", *[data] * count]


@pytest.mark.parametrize("data", VALUES)
def test_it_goes_through_every_mode_format_and_version(data: bytes) -> None:
    (arrived,) = http.decode(STRUCTURED, with_data(data))
    for binding in (kafka, pulsar):
        binary = binding.decode(binding.encode(arrived, EncodeOptions(mode="binary"), None))
        assert binary.event.data == data
        written = binding.encode(binary, EncodeOptions(mode="structured"), None)
        assert b'"data":' + data in (written.body or b"")
        assert binding.decode(written).event.data == data
    for name in ("avro", "protobuf"):
        writing = EncodeOptions(mode="structured", format=name)
        assert kafka.decode(kafka.encode(arrived, writing, None)).event.data == data
    for version in ("0.2", "0.3"):
        older = as_version(arrived.event, version)
        assert older is not None
        assert read_event(write_event(older)).data == data


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json_stays_refused(text: bytes) -> None:
    with pytest.raises(InvalidEvent) as refusal:
        read_event(with_data(text))
    (fault,) = refusal.value.faults
    assert fault.code in {"bad-json", "bad-utf8"}


def test_the_place_of_the_fault_is_the_true_one() -> None:
    with pytest.raises(InvalidEvent) as refusal:
        read_event(with_data(rb'["\ud83d",01]'))
    place = len(with_data(rb'["\ud83d",0')) - 1
    assert f"invalid number (byte {place})" in str(refusal.value)


@pytest.mark.parametrize("text", [rb'"\u1"', rb'"\u"', rb'"\ud83d\u12"', rb'"\\\\\u12"'])
def test_a_short_escape_is_not_said_to_be_cut(text: bytes) -> None:
    with pytest.raises(InvalidEvent, match="invalid character in unicode escape"):
        read_event(with_data(text))


def test_what_is_cut_is_said_to_be_cut() -> None:
    with pytest.raises(InvalidEvent, match="truncated"):
        read_event(HEAD + rb',"data":"\ud83d"')


def test_deep_nesting_keeps_its_bound() -> None:
    deep = rb'["\ud83d",' + b"[" * 100_000 + b"]" * 100_000 + b"]"
    assert faults(with_data(deep)) == [("json-too-deep", "")]
    deep = rb'{"\ud83d":' * 50_000 + b"1" + b"}" * 50_000
    assert faults(with_data(deep)) == [("json-too-deep", "")]


@pytest.mark.parametrize("text", STRINGS)
@pytest.mark.parametrize("charset", ["", "; charset=utf-16", "; charset=iso-8859-1"])
def test_data_that_cannot_become_text_names_data(text: bytes, charset: str) -> None:
    typed = f'"datacontenttype":"text/plain{charset}",'.encode()
    assert faults(with_data(text, typed)) == [("data-not-encodable", "/data")]
    older = with_data(text, typed).replace(b'"1.0"', b'"0.3"')
    assert faults(older) == [("data-not-encodable", "/data")]


def test_base64_with_such_an_escape_is_no_base64() -> None:
    assert faults(with_member(rb'"data_base64":"AA\ud83d"')) == [("bad-base64", "/data_base64")]
    older = rb'"datacontentencoding":"base64","data":"AA\ud83d"'
    assert faults(with_member(older).replace(b'"1.0"', b'"0.3"')) == [("bad-base64", "/data")]


@pytest.mark.parametrize("text", STRINGS)
def test_an_attribute_is_refused_by_its_rule(text: bytes) -> None:
    """Core 1.3: a String holds no unpaired surrogate."""
    assert faults(with_member(b'"subject":' + text)) == [("forbidden-character", "/subject")]
    assert faults(with_member(b'"n":1,"ext":' + text)) == [("forbidden-character", "/ext")]
    both = with_member(b'"ext":' + text + b',"data":' + text)
    assert faults(both) == [("forbidden-character", "/ext")]
    (fault,) = faults(with_member(text + b':"x"'))
    assert fault[0] == "bad-attribute-name"


def test_in_a_batch_the_event_is_named_and_the_others_are_judged_too() -> None:
    bad = with_member(rb'"ext":"\ud83d"')
    with pytest.raises(InvalidEvent) as refusal:
        read_batch(b"[" + b",".join([with_data(rb'"\ud83d"'), bad, with_data(b"1")]) + b"]")
    assert [(f.code, f.at, f.index) for f in refusal.value.faults] == [
        ("forbidden-character", "/1/ext", 1)
    ]


def test_versions_are_told_apart_in_a_batch_with_it() -> None:
    other = with_data(rb'"\ud83d"').replace(b'"1.0"', b'"0.3"')
    with pytest.raises(InvalidEvent) as refusal:
        read_batch(b"[" + b",".join([with_data(rb'"\ud83d"'), other]) + b"]")
    assert [(f.code, f.at) for f in refusal.value.faults] == [
        ("mixed-specversions", "/1/specversion")
    ]


@pytest.mark.parametrize("entry", [rb'{"a":"\ud83d"}', rb'{"\ud83d":1}', rb'{"a":["\udead"]}'])
def test_a_map_is_refused_by_the_rule_of_its_texts(entry: bytes) -> None:
    for version in (b'"0.2"', b'"0.3"'):
        document = with_member(b'"m":' + entry).replace(b'"1.0"', version)
        assert faults(document) == [("forbidden-character", "/m")]
    headers = (
        *((name, b'"%b"' % text) for name, text in HEADERS[1:]),
        ("ce_specversion", b'"0.2"'),
    )
    with pytest.raises(InvalidEvent) as refusal:
        kafka.decode(record(*headers, ("ce_m", entry)))
    assert [fault.code for fault in refusal.value.faults] == ["forbidden-character"]
    with pytest.raises(InvalidEvent):
        kafka.decode(record(*headers, ("ce_m-a", entry)))


@pytest.mark.parametrize("data", VALUES)
def test_data_before_1_0_is_as_it_came(data: bytes) -> None:
    for version in (b'"0.2"', b'"0.3"', b'"1.0-rc1"'):
        document = with_data(data).replace(b'"1.0"', version)
        event = read_event(document)
        assert event.data == data
        assert write_event(event) == document
    bagged = (
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t",'
        b'"extensions":{"a":"b"},"data":' + data + b"}"
    )
    assert read_event(bagged).data == data


def test_an_extension_of_0_1_is_refused_by_its_rule() -> None:
    bagged = (
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t",'
        rb'"extensions":{"a":"\ud83d"}}'
    )
    assert faults(bagged) == [("forbidden-character", "/extensions/a")]


@pytest.mark.parametrize("data", VALUES)
def test_a_document_that_nobody_named_is_found(data: bytes) -> None:
    """Producers exist that give a document the content type of its data, or none."""
    document = with_data(data)
    for headers in ((), (("content-type", b"application/json"),)):
        assert kafka.decode(record(*headers, body=document)).event.data == data
    older = (
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t","data":'
        + data
        + b"}"
    )
    assert kafka.decode(record(body=older)).event.data == data


def test_one_with_a_bad_attribute_is_an_invalid_event_and_not_foreign() -> None:
    with pytest.raises(InvalidEvent) as refusal:
        kafka.decode(record(body=with_data(b"1").replace(b'"1",', rb'"\ud83d",')))
    assert [(f.code, f.at) for f in refusal.value.faults] == [("forbidden-character", "/id")]
    with pytest.raises(SenderError) as foreign:
        kafka.decode(record(body=rb'{"id":"1","x":"\ud83d"}'))
    assert foreign.value.code == "not-a-cloudevent"


@pytest.mark.parametrize("text", STRINGS)
def test_a_quoted_header_is_refused_by_its_rule(text: bytes) -> None:
    """Pulsar's properties (P6) and headers of 0.1 and 0.2 hold JSON strings."""
    quoted = [(f"CE-{name[3:].capitalize()}", b'"%b"' % value) for name, value in HEADERS]
    older = [(name, b'"%b"' % value) for name, value in HEADERS[1:]]
    for bad in (
        lambda: pulsar.decode(record(*quoted, ("CE-Ext", text))),
        lambda: kafka.decode(record(*older, ("ce_specversion", b'"0.2"'), ("ce_ext", text))),
    ):
        with pytest.raises(InvalidEvent) as refusal:
            bad()
        assert [fault.code for fault in refusal.value.faults] == ["forbidden-character"]
        assert "ext" in refusal.value.faults[0].at.lower()
