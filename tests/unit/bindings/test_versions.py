"""Headers of versions before 1.0, over HTTP and in records (spec.md 3.1 to 3.3)."""

from __future__ import annotations

import pytest

from app.bindings import http, kafka
from app.bindings.record import ContentMode, Decoded, Record
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import InvalidEvent, SenderError
from app.event.value import AttributeType, CloudEvent
from app.formats.json import read_event

BINARY, STRUCTURED = ContentMode.BINARY, ContentMode.STRUCTURED
VIEW = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}

A = {"CE-CloudEventsVersion": '"0.1"', "CE-EventID": '"1"', "CE-Source": '"/s"', "CE-EventType": '"t"'}  # fmt: skip
B = {"ce-specversion": '"0.2"', "ce-id": '"1"', "ce-source": '"/s"', "ce-type": '"t"'}
BARE = {"ce-specversion": "0.2", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
C = {"ce-specversion": "0.3", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
RC1 = C | {"ce-specversion": "1.0-rc1"}


def request(headers: dict[str, str], body: bytes = b"x") -> Decoded:
    pairs = [(name.encode(), text.encode()) for name, text in headers.items()]
    (decoded,) = http.decode(pairs, body)
    return decoded


def webhook(decoded: Decoded) -> dict[str, str]:
    return dict(http.encode(decoded, EncodeOptions()).headers)


def headers_of(event: CloudEvent) -> dict[str, bytes | None]:
    return dict(kafka.encode(Decoded(event, BINARY), PLAIN, None).headers)


def codes(headers: dict[str, str]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as refusal:
        request(headers)
    return [(fault.code, fault.at) for fault in refusal.value.faults]


@pytest.mark.parametrize(
    ("headers", "version"),
    [(A, "0.1"), (B, "0.2"), (BARE, "0.2"), (C, "0.3"), (RC1, "1.0-rc1"),
     (B | {"ce-specversion": '"0.1"'}, "0.1-wip")],
)  # fmt: skip
def test_each_shape_is_recognised_by_its_headers(headers: dict[str, str], version: str) -> None:
    """3.1: one view of today for all of them; what goes out is what came in, quotes and all."""
    decoded = request(headers)

    assert decoded.event.version == version
    assert decoded.event.attributes == VIEW
    assert decoded.event.data == b"x"
    assert webhook(decoded) == headers


@pytest.mark.parametrize(
    "headers",
    [
        A | {"CE-EventTypeVersion": '"2"', "CE-SchemaURL": '"/rel"', "CE-X-MyExt": "5"},
        A | {"CE-X-MyExt": '"5"', "CE-X-my-ext": '{"a":1}', "CE-X-id": '"u"', "CE-X-b": "bare"},
        B | {"ce-n": "5", "ce-s": '"5"', "ce-bare": "text", "ce-schemaurl": '"/rel"'},
        B | {"ce-m-a": "5", "ce-m-b": '"5"', "ce-m-c": '{"d":[1.10]}'},
        B | {"ce-city": '"M%C3%BCnchen 100%25"', "ce-escaped": '"a\\"b"', "ce-empty": '""'},
        C | {"ce-subject": "s", "ce-schemaurl": "urn:a", "ce-m-a": "x", "ce-n": "5"},
        RC1 | {"ce-dataschema": "urn:a"},
    ],
)
def test_attributes_go_from_http_to_a_record_to_a_webhook_as_they_came(
    headers: dict[str, str],
) -> None:
    """3.3: names, quotes, Maps, suffixed collisions, 5 against "5": nothing changes on the way."""
    arrived = request(headers | {"content-type": "text/plain"})
    record = kafka.encode(arrived, PLAIN, b"k")
    left = kafka.decode(record)

    assert left.event == arrived.event
    assert webhook(left) == headers | {"Content-Type": "text/plain"}


def test_a_record_carries_the_names_and_texts_of_its_version() -> None:
    """3.1: broker headers; UTF-8 and no percent code (trap 1)."""
    event = request(B | {"ce-city": '"M%C3%BCnchen"'}).event
    nested = request(A | {"CE-X-MyExt": "5", "content-type": "text/plain"}).event

    assert headers_of(event) == {
        "ce_specversion": b'"0.2"', "ce_id": b'"1"', "ce_source": b'"/s"', "ce_type": b'"t"',
        "ce_city": '"M\u00fcnchen"'.encode(),
    }  # fmt: skip
    assert headers_of(nested) == {
        "CE-CloudEventsVersion": b'"0.1"', "CE-EventID": b'"1"', "CE-Source": b'"/s"',
        "CE-EventType": b'"t"', "CE-X-MyExt": b"5", "content-type": b"text/plain",
    }  # fmt: skip


def test_the_headers_of_0_1_are_known_in_any_case() -> None:
    """3.3 A header: HTTP/2 has no capitals, and CE-X- counts before CE-."""
    lower = {name.lower(): text for name, text in A.items()} | {"ce-x-myext": "5"}
    event = request(lower).event

    assert event.attributes == VIEW | {"myext": "5"}
    assert event.types == {"myext": AttributeType.INTEGER}


def test_a_map_is_one_header_an_entry() -> None:
    """3.2: 0.2 and 0.3 flatten a Map; as 1.0 it is compact text, and in a document an object."""
    event = request(B | {"ce-m-a": "5", "ce-m-b": '"x"', "content-type": "text/plain"}).event
    document = http.encode(Decoded(event, BINARY), EncodeOptions(mode="structured")).body

    assert event.attributes["m"] == '{"a":5,"b":"x"}'
    assert document.startswith(b'{"specversion":"0.2","id":"1"')
    assert b'"m":{"a":5,"b":"x"}' in document


def test_a_document_of_an_older_version_becomes_headers_of_that_version() -> None:
    """3.4: the encoding of data is for documents only; binary mode carries the bytes."""
    event = read_event(
        b'{"specversion":"0.3","id":"1","source":"/s","type":"t","schemaurl":"urn:a","n":5,'
        b'"datacontentencoding":"base64","datacontenttype":"image/png","data":"AAE="}'
    )
    record = kafka.encode(Decoded(event, STRUCTURED), PLAIN, None)

    assert dict(record.headers) == {
        "ce_specversion": b"0.3", "ce_id": b"1", "ce_source": b"/s", "ce_type": b"t",
        "ce_schemaurl": b"urn:a", "ce_n": b"5", "content-type": b"image/png",
    }  # fmt: skip
    assert record.body == b"\0\1"


def test_names_that_no_header_can_have_go_by_their_names_of_today() -> None:
    """0.1 lets an extension have any name; a space in a header name would break the request."""
    event = read_event(
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t",'
        b'"extensions":{"my ext":1,"myext":2}}'
    )
    sent = webhook(Decoded(event, BINARY))

    assert sent == A | {"CE-X-myext": "1", "CE-X-myextx": "2"}


def test_what_names_two_versions_is_of_the_newer() -> None:
    """3.1: specversion first, whatever else is there."""
    assert request(C | {"ce-cloudeventsversion": "0.1"}).event.version == "0.3"


def test_records_of_release_candidate_1_name_their_content_type_with_prefix() -> None:
    """3.3 D: rc1 on Kafka carried ce_datacontenttype; the header content-type wins (K12)."""
    pairs = [(name.replace("-", "_", 1), text.encode()) for name, text in RC1.items()]
    headers = (*pairs, ("ce_datacontenttype", b"text/plain"))

    assert kafka.decode(Record(None, headers, b"x")).event.datacontenttype == "text/plain"
    both = (*headers, ("content-type", b"text/csv"))
    assert kafka.decode(Record(None, both, b"x")).event.datacontenttype == "text/csv"


def test_a_record_with_headers_of_0_1_is_never_taken_for_a_document() -> None:
    """4.6: header sets come before the look into the body."""
    inner = b'{"specversion":"1.0","id":"2","source":"/s","type":"t"}'
    headers = tuple((name, text.encode()) for name, text in A.items())

    assert kafka.decode(Record(None, headers, inner)).event.id == "1"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (A | {"CE-Other": "1"}, [("bad-attribute-name", "header ce-other")]),
        (A | {"CE-X-a": "1", "ce-x-a": "2"}, [("repeated-attribute", "header ce-x-a")]),
        (A | {"CE-EventTime": '"noon"'}, [("bad-timestamp", "header ce-eventtime")]),
        (A | {"content-type": "x"}, [("bad-media-type", "header content-type")]),
        (A | {"CE-Source": '""'}, [("empty-attribute", "header ce-source")]),
        ({"CE-CloudEventsVersion": "0.1"}, [
            ("missing-attribute", "header ce-eventid"), ("missing-attribute", "header ce-source"),
            ("missing-attribute", "header ce-eventtype"),
        ]),
        ({"CE-CloudEventsVersion": "0.9"}, [
            ("unsupported-specversion", "header ce-cloudeventsversion")
        ]),
        ({"ce-specversion": "0.4-wip"}, [("unsupported-specversion", "header ce-specversion")]),
        (B | {"ce-m-a": "1", "ce-m": "x"}, [("repeated-attribute", "header ce-m")]),
        (B | {"ce-1a": "1", "ce-m-a.b": "x"}, [
            ("bad-attribute-name", "header ce-1a"), ("bad-attribute-name", "header ce-m-a.b"),
        ]),
        (B | {"ce-": "x"}, [("bad-attribute-name", "header ce-")]),
        ({"ce-specversion": "0.3", "ce-id": "1", "ce-source": "/", "ce-type-a": "t"}, [
            ("wrong-type", "header ce-type")
        ]),
        (B | {"ce-e": "%ff"}, [("bad-utf8", "header ce-e")]),
        (C | {"ce-datacontentencoding": "base64"}, [
            ("unexpected-datacontentencoding", "header ce-datacontentencoding")
        ]),
        (RC1 | {"ce-m-a": "1"}, [("bad-attribute-name", "header ce-m-a")]),
    ],
)  # fmt: skip
def test_headers_are_judged_by_the_rules_of_their_version(
    headers: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    """3.2: every fault at once, under the header's own name."""
    assert codes(headers) == expected


def test_a_record_of_an_older_version_has_faults_of_its_own() -> None:
    """K14: what is not UTF-8 is no attribute."""
    with pytest.raises(SenderError) as refusal:
        kafka.decode(Record(None, (("ce_specversion", b"0.3"), ("ce_id", b"\xff")), None))

    assert refusal.value.faults[0].code == "bad-utf8"


def test_extensions_of_0_1_that_are_equal_but_for_case_go_by_their_names_of_1_0() -> None:
    """V6: as headers, which have no case, they would be one, and one value would be lost."""
    event = read_event(
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t",'
        b'"extensions":{"MyExt":"a","myext":"b"}}'
    )
    sent = {name.lower(): text for name, text in webhook(Decoded(event, BINARY)).items()}

    assert (sent["ce-x-myext"], sent["ce-x-myextx"]) == ('"a"', '"b"')
