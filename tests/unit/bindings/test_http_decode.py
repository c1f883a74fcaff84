from __future__ import annotations

import json

import pytest

from app.bindings import http
from app.bindings.record import ContentMode, Decoded
from app.errors import InvalidEvent, SenderError
from app.event.value import DataForm

Pairs = list[tuple[bytes, bytes]]

DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"n":1.10}}'
REQUIRED: Pairs = [
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"1"),
    (b"ce-source", b"/s"),
    (b"ce-type", b"t"),
]


def one(headers: Pairs, body: bytes = b"", **options: bool) -> Decoded:
    (decoded,) = http.decode(headers, body, **options)
    return decoded


def test_a_binary_request_is_its_headers_and_its_body_untouched() -> None:
    """H8 to H10: and the body is the very same object."""
    body = b'{"n": 1.10 }'
    decoded = one(
        [
            (b"host", b"h"),
            *REQUIRED,
            (b"content-type", b"Application/JSON; a=b"),
            (b"ce-ext1", b""),
        ],
        body,
    )

    assert decoded.mode is ContentMode.BINARY
    assert decoded.document is None
    assert decoded.event.data is body
    assert decoded.event.data_form is DataForm.OPAQUE
    assert decoded.event.attributes == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t",
        "datacontenttype": "Application/JSON; a=b", "ext1": "",
    }  # fmt: skip


def test_an_empty_body_is_no_data() -> None:
    """Trap 3: it becomes Kafka's null, not an empty value."""
    assert one(REQUIRED).event.data is None
    assert one([*REQUIRED, (b"content-type", b"text/plain")]).event.data is None


def test_nothing_is_guessed_about_a_binary_body() -> None:
    """A missing content type is no datacontenttype, also when the body is JSON."""
    assert one(REQUIRED, b"{}").event.datacontenttype is None


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents+json", b"Application/CloudEvents+JSON", b"application/cloudevents",
        b"application/cloudevents+json; charset=UTF-8", b'application/cloudevents+json ;charset="utf-8"',
        b"application/cloudevents+json;", b"application/cloudevents+json; foo=bar",
    ],
)  # fmt: skip
def test_the_content_type_alone_makes_a_request_structured(content_type: bytes) -> None:
    """H4, H12: mirrored ce- headers are legal and never decide, and the body wins (trap 12)."""
    mirrored = [
        *REQUIRED,
        (b"ce-id", b"other"),
        (b"ce-BAD", b"\xff"),
        (b"content-type", content_type),
    ]
    decoded = one(mirrored, DOCUMENT)

    assert decoded.mode is ContentMode.STRUCTURED
    assert decoded.document is DOCUMENT
    assert decoded.media_type == content_type.decode()
    assert decoded.event.id == "1"
    assert decoded.event.data == b'{"n":1.10}'


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents-batch+json",
        b"APPLICATION/CLOUDEVENTS-BATCH+JSON; charset=utf-8",
        b"application/cloudevents-batch",
    ],
)
def test_each_element_of_a_batch_is_an_event_with_its_own_document(content_type: bytes) -> None:
    """H13: the batch prefix is looked at first (trap 2)."""
    headers = [(b"content-type", content_type)]
    decoded = http.decode(headers, b"[" + DOCUMENT + b", " + DOCUMENT + b"]")

    assert [item.mode for item in decoded] == [ContentMode.BATCH] * 2
    assert [item.document for item in decoded] == [DOCUMENT] * 2
    assert {item.media_type for item in decoded} == {"application/cloudevents+json; charset=utf-8"}
    assert http.decode(headers, b"[]") == []


def test_a_batch_is_bounded() -> None:
    """H5: the receiver chooses."""
    headers = [(b"content-type", b"application/cloudevents-batch+json")]
    body = b"[" + b",".join([DOCUMENT] * 3) + b"]"

    assert len(http.decode(headers, body, max_batch=3)) == 3
    with pytest.raises(SenderError) as refusal:
        http.decode(headers, body, max_batch=2)
    assert refusal.value.status == 413


@pytest.mark.parametrize(
    "charset", ["utf-16", "utf-16le", "utf-32be", "ISO-8859-1", "shift_jis", "gb18030"]
)
def test_a_document_in_a_known_charset_is_read_and_kept(charset: str) -> None:
    """Spec 2.3: decode if known; what is forwarded is the document as it came."""
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "ab"}
    body = json.dumps(event).encode(charset)
    decoded = one(
        [(b"content-type", f"application/cloudevents+json; charset={charset}".encode())], body
    )

    assert decoded.event.attributes["subject"] == "ab"
    assert decoded.document is body
    assert decoded.media_type == f"application/cloudevents+json; charset={charset}"


def test_equal_repeats_are_one_and_an_equal_datacontenttype_does_no_harm() -> None:
    """Core 1.1 asks for one value, and there is one; H8 is kept by ignoring the second header."""
    headers = [
        *REQUIRED, (b"ce-subject", b"a b"), (b"ce-subject", b"a%20b"), (b"ce-datacontenttype", b"text/plain "),
        (b"content-type", b"text/plain"), (b"content-type", b"text/plain"),
    ]  # fmt: skip
    event = one(headers, b"x").event

    assert event.attributes["subject"] == "a b"
    assert event.datacontenttype == "text/plain"


def test_header_values_are_percent_decoded_but_not_the_content_type() -> None:
    """HTTP 3.1.3.2: Content-Type is excluded."""
    headers = [
        *REQUIRED,
        (b"ce-subject", b"100% %C3%A9"),
        (b"content-type", b"text/plain; a=%41"),
    ]
    event = one(headers, b"x").event

    assert event.attributes["subject"] == "100% é"
    assert event.datacontenttype == "text/plain; a=%41"


def test_a_strict_listener_refuses_malformed_percent_codes() -> None:
    """A switch: by default the % is kept (design: header values)."""
    headers = [*REQUIRED, (b"ce-subject", b"100%"), (b"ce-ext", b'"open')]

    assert one(headers).event.attributes["subject"] == "100%"
    with pytest.raises(InvalidEvent) as refusal:
        one(headers, strict_percent=True)
    assert [(fault.code, fault.at) for fault in refusal.value.faults] == [
        ("bad-percent", "header ce-subject"),
        ("bad-percent", "header ce-ext"),
    ]


def test_a_fault_names_the_header() -> None:
    """The place is one that the sender knows."""
    with pytest.raises(InvalidEvent) as refusal:
        one([*REQUIRED[:3], (b"ce-time", b"noon"), (b"content-type", b"xyz"), (b"ce-a-b", b"x")])

    assert [fault.at for fault in refusal.value.faults] == [
        "header ce-a-b", "header ce-type", "header content-type", "header ce-time",
    ]  # fmt: skip


def test_what_cannot_be_read_is_not_called_missing_as_well() -> None:
    """One mistake, one fault."""
    with pytest.raises(InvalidEvent) as refusal:
        one([*REQUIRED[:1], (b"ce-id", b"%FF"), *REQUIRED[2:]])

    assert [fault.code for fault in refusal.value.faults] == ["bad-utf8"]


@pytest.mark.parametrize("space", [b" ", b"\t", b" \t "])
def test_white_space_around_a_value_is_none_of_it(space: bytes) -> None:
    """RFC 9110 5.5; the HTTP parser leaves it at the end."""
    padded = [(name, space + value + space) for name, value in REQUIRED]
    event = one([*padded, (b"content-type", space + b"text/plain" + space)], b"x").event

    assert event.attributes == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "text/plain",
    }  # fmt: skip
