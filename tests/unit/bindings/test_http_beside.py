"""HTTP requests with more than the binding asks for: joined headers, foreign ones, unknown formats."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from app.bindings import http
from app.bindings.headers import FIELD_NAMES
from app.bindings.record import ContentMode, Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import PLAIN
from app.errors import InvalidEvent, SenderError

Pairs = list[tuple[bytes, bytes]]

REQUIRED: Pairs = [
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"1"),
    (b"ce-source", b"/s"),
    (b"ce-type", b"t"),
]
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
JSON = (b"content-type", b"application/cloudevents+json")


def one(headers: Pairs, body: bytes = b"", **options: Any) -> Decoded:
    (decoded,) = http.decode(headers, body, **options)
    return decoded


def faults(headers: Pairs, body: bytes = b"") -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as refused:
        http.decode(headers, body)
    return [(fault.code, fault.at) for fault in refused.value.faults]


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("subject", [b"plain", b"a, b", b'"quoted, too"', b"100%"])
def test_headers_that_were_sent_twice_and_joined_on_their_way_are_one(
    times: int, subject: bytes
) -> None:
    """RFC 9110 5.3 lets an intermediary join repeats; the version cannot be a list, so it tells."""
    sent = [*REQUIRED, (b"ce-subject", subject)]
    joined = [(name, b", ".join([value] * times)) for name, value in sent]
    assert one(joined).event == one(sent).event


def test_an_older_version_is_joined_likewise() -> None:
    """0.1 has its version in another header, in quotes."""
    sent = [
        (b"ce-cloudeventsversion", b'"0.1"'), (b"ce-eventid", b'"1"'), (b"ce-source", b'"http://s/"'),
        (b"ce-eventtype", b'"t"'),
    ]  # fmt: skip
    joined = [(name, value + b", " + value) for name, value in sent]
    assert one(joined).event == one(sent).event
    assert one(sent).event.version == "0.1"


def test_headers_joined_from_different_values_are_refused() -> None:
    """Core 1.1: at most once; never the last one wins."""
    joined = [(name, value + b", " + value) for name, value in REQUIRED]
    joined[1] = (b"ce-id", b"1, 2")
    assert faults(joined) == [("repeated-attribute", "header ce-id")]


def test_a_version_that_is_joined_without_end_costs_no_more_than_its_bytes() -> None:
    """A head of 256 KiB made 8 GB of text on its way to the answer, and a fault for each comma (rule 8)."""
    many = 20_000
    headers = [
        (name, b", ".join([value] * 2)) for name, value in REQUIRED if name != b"ce-specversion"
    ]
    headers += [(b"ce-x%d" % n, b"ab" * 300) for n in range(200)]
    headers += [(b"ce-more", b", ".join(b"%d" % n for n in range(many)))]
    tracemalloc.start()
    try:
        found = faults([*headers, (b"ce-specversion", b", " * many)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ("empty-attribute", "header ce-specversion") in found
    assert len(found) < 10
    assert most < 5_000_000


def test_a_comma_in_a_value_of_its_own_is_just_a_comma() -> None:
    """Senders that do not percent-code exist: "ha, ha" is what one of them meant."""
    event = one([*REQUIRED, (b"ce-subject", b"ha, ha")]).event
    assert event.attributes["subject"] == "ha, ha"


@pytest.mark.parametrize("joined", [b"text/plain, text/plain", b"text/plain,text/plain"])
def test_a_content_type_joined_with_itself_is_one(joined: bytes) -> None:
    assert one([*REQUIRED, (b"content-type", joined)], b"x").event.datacontenttype == "text/plain"
    mode = one([(b"content-type", JSON[1] + b", " + JSON[1])], DOCUMENT)
    assert (mode.mode, mode.media_type) == (ContentMode.STRUCTURED, JSON[1].decode())


@pytest.mark.parametrize(
    "listed",
    [
        b"text/plain, text/csv",
        b"application/cloudevents+json, application/json",
        b"application/json, application/cloudevents+json",
        b"application/cloudevents+json, application/cloudevents-batch+json",
    ],
)
def test_a_list_of_media_types_leaves_the_mode_open_and_is_refused(listed: bytes) -> None:
    """H4, H8: there is one content type."""
    headers = [*REQUIRED, (b"content-type", listed)]
    assert faults(headers, DOCUMENT) == [("repeated-attribute", "header content-type")]


def test_a_comma_in_a_parameter_is_no_list() -> None:
    event = one([*REQUIRED, (b"content-type", b'text/plain; x="a, b"')], b"x").event
    assert event.datacontenttype == 'text/plain; x="a, b"'


def test_an_extension_of_0_1_keeps_its_spelling_and_all_else_is_folded() -> None:
    """V6: ``CE-X-MyExt`` is a name in 0.1; header names are equal in any case (H10)."""
    names = [b"CE-X-MyExt", b"Ce-EventID", b"Content-Type", b"ce-x-lower", b"X-MyExt"]
    assert [FIELD_NAMES[name] for name in names] == [
        b"ce-X-MyExt", b"ce-eventid", b"content-type", b"ce-x-lower", b"x-myext",
    ]  # fmt: skip


def of_0_1(*extensions: tuple[bytes, bytes]) -> Pairs:
    sent = (
        (b"CE-CloudEventsVersion", b'"0.1"'), (b"CE-EventID", b'"1"'), (b"CE-Source", b'"http://s/"'),
        (b"CE-EventType", b'"t"'), *extensions,
    )  # fmt: skip
    return [(FIELD_NAMES[name], value) for name, value in sent]


def test_names_that_differ_in_case_alone_are_the_same_header() -> None:
    """H10: also where 0.1 keeps the case of the first."""
    twice = of_0_1((b"CE-X-MyExt", b'"a"'), (b"CE-X-MYEXT", b'"a"'))
    event = one(twice).event
    assert event.attributes["myext"] == "a"
    assert event.arrived["myext"].name == "extensions/MyExt"
    assert faults(of_0_1((b"CE-X-A", b'"1"'), (b"CE-X-a", b'"2"')))[0][0] == "repeated-attribute"


def test_a_name_of_0_1_is_a_bad_name_in_1_0() -> None:
    """Nothing is ignored in silence; the fault names the header in lower case, as ever."""
    headers = [*REQUIRED, (FIELD_NAMES[b"CE-X-MyExt"], b"v")]
    assert faults(headers) == [("bad-attribute-name", "header ce-x-myext")]


FORWARD = frozenset({b"traceparent", b"x-team"})
TRACE = (b"traceparent", b"00-a-b-01")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([*REQUIRED, TRACE], b""),
        ([JSON, TRACE], DOCUMENT),
        ([(b"content-type", b"application/cloudevents+new"), TRACE], b"\x00"),
    ],
)
def test_listed_headers_stand_beside_the_event(headers: Pairs, body: bytes) -> None:
    """I3: distinguishable, so never an attribute; a ce- header of the same name is one of its own."""
    decoded = one([*headers, (b"x-other", b"no")], body, forward=FORWARD)
    assert decoded.foreign == (("traceparent", b"00-a-b-01"),)
    assert "traceparent" not in decoded.event.attributes
    assert one(headers, body).foreign == ()


def test_the_extension_and_the_header_of_one_name_stay_two() -> None:
    """Distributed tracing: ce-traceparent is the event's, traceparent is the request's."""
    decoded = one([*REQUIRED, (b"ce-traceparent", b"e"), TRACE], forward=FORWARD)
    assert decoded.event.attributes["traceparent"] == "e"
    assert decoded.foreign == (("traceparent", b"00-a-b-01"),)


def test_repeats_and_bytes_of_foreign_headers_are_kept() -> None:
    """What is none of ours is none of ours to tidy."""
    sent: Pairs = [*REQUIRED, (b"x-team", b"a"), (b"x-team", b"\xff")]
    assert one(sent, forward=FORWARD).foreign == (("x-team", b"a"), ("x-team", b"\xff"))


def test_each_event_of_a_batch_has_the_foreign_headers_of_its_request() -> None:
    headers = [(b"content-type", b"application/cloudevents-batch+json"), TRACE]
    decoded = http.decode(headers, b"[" + DOCUMENT + b"," + DOCUMENT + b"]", forward=FORWARD)
    assert [each.foreign for each in decoded] == [(("traceparent", b"00-a-b-01"),)] * 2


UNKNOWN = [
    b"application/cloudevents+new", b"Application/CloudEvents+New; v=1", b"application/cloudevents2",
    b"application/cloudevents+cbor", b"application/cloudevents-batch+new",
    b"application/cloudevents-batch+avro",
]  # fmt: skip


@pytest.mark.parametrize("content_type", UNKNOWN)
def test_a_document_of_an_unknown_format_is_opaque(content_type: bytes) -> None:
    """H6, 4.7, trap 13: bytes and parameters as they are; a batch cannot be split and stays one."""
    body = b"\x00\xffany bytes"
    decoded = one([(b"content-type", content_type)], body)
    assert decoded.opaque
    assert decoded.document is body
    assert decoded.media_type == content_type.decode()
    assert decoded.event.attributes == {}
    with pytest.raises(SenderError) as refused:
        http.decode([(b"content-type", content_type)], body, unknown_formats="refuse")
    assert refused.value.status == 415


def test_mirrored_headers_are_all_that_is_known_of_an_opaque_document() -> None:
    """4.7: they serve filters; what is no attribute is left out, for nothing is validated."""
    headers = [
        (b"ce-type", b"t%20x"), (b"ce-time", b"noon"), (b"ce-a-b", b"x"), (b"ce-subject", b"%FF"),
        (b"content-type", b"application/cloudevents+new"),
    ]  # fmt: skip
    assert one(headers, b"x").event.attributes == {"type": "t x", "time": "noon"}


@pytest.mark.parametrize("kind", ["kafka", "rabbitmq", "pulsar"])
@pytest.mark.parametrize("version", [b"1.0", b"0.2", b"0.9", b""])
def test_what_mirrored_headers_tell_can_be_written_again(kind: str, version: bytes) -> None:
    """4.7: of whatever version they say they are, a control in them ends no request in an error."""
    headers = [
        (b"ce-specversion", version), (b"ce-id", b"%00"), (b"ce-type", b"t"), (b"ce-x", b"%0A"),
        (b"content-type", b"application/cloudevents+new"),
    ]  # fmt: skip
    known = {"specversion": version.decode(), "type": "t"}
    decoded = one(headers, b"x")
    binding = BINDINGS[kind]

    assert decoded.event.attributes == known
    assert binding.decode(binding.encode(decoded, PLAIN, None)).event.attributes == known


@pytest.mark.parametrize(
    "content_type", [b"application/cloudevents+xml", b"application/cloudevents-batch+XML; a=b"]
)
def test_xml_is_refused(content_type: bytes) -> None:
    """A known format that is not read is 415, not opaque."""
    with pytest.raises(SenderError) as refused:
        http.decode([(b"content-type", content_type)], b"<event/>")
    assert refused.value.status == 415


@pytest.mark.parametrize("rest", [b"\xff", b" x", b"; ="])
def test_an_opaque_document_needs_a_content_type_that_can_go_on(rest: bytes) -> None:
    """It goes onto records and requests as it is."""
    headers = [(b"content-type", b"application/cloudevents+new" + rest)]
    assert faults(headers, b"x") == [("bad-media-type", "header content-type")]
