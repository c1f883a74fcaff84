from __future__ import annotations

import pytest

from app.bindings import http
from app.bindings.http import HttpMessage
from app.bindings.modes import JSON_DOCUMENT
from app.bindings.record import ContentMode, Decoded, Header
from app.bindings.transcode import EncodeOptions, Mode
from app.errors import InvalidEvent, SenderError
from app.event.value import CloudEvent, DataForm
from app.formats.json import read_event
from app.formats.registry import FORMATS

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CE_GOOD = (("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t"))


def binary(event: CloudEvent) -> HttpMessage:
    return http.encode(Decoded(event, ContentMode.BINARY), EncodeOptions())


def test_every_attribute_is_a_header_of_its_own() -> None:
    """H8, H10: but for datacontenttype, which is Content-Type; values are percent-coded."""
    body = b'{"n": 1.10}'
    message = binary(
        CloudEvent(GOOD | {"datacontenttype": "a/json; x=%", "subject": "é %", "ext": "+/:"}, body)
    )

    assert message.headers == (
        *CE_GOOD, ("ce-subject", "%C3%A9%20%25"), ("ce-ext", "+/:"), ("Content-Type", "a/json; x=%"),
    )  # fmt: skip
    assert message.body is body


def test_an_event_without_data_is_headers_only() -> None:
    """Design: webhooks without data."""
    message = binary(CloudEvent(GOOD))
    assert (message.headers, message.body) == (CE_GOOD, b"")


def test_an_implied_json_type_is_made_explicit() -> None:
    """J13, I4: only the JSON format may leave it out."""
    message = binary(CloudEvent(GOOD, b"null", DataForm.JSON))

    assert message == HttpMessage.of((*CE_GOOD, ("Content-Type", "application/json")), b"null")


def test_an_opaque_body_without_type_gets_none() -> None:
    """J5, J10: none is guessed."""
    message = binary(CloudEvent(GOOD, b"{}"))
    assert (message.headers, message.body) == (CE_GOOD, b"{}")


def test_a_document_is_reused_untouched() -> None:
    """Never written again when it is there; its media type keeps its parameters."""
    document = b' {"specversion":"1.0"} '
    decoded = Decoded(
        CloudEvent(GOOD), ContentMode.STRUCTURED, document, "application/cloudevents+json; a=b"
    )
    message = http.encode(decoded, EncodeOptions(mode="structured"))

    assert message.body is document
    assert message.headers == (("Content-Type", "application/cloudevents+json; a=b"),)


def test_a_binary_event_becomes_a_document() -> None:
    """H11."""
    event = CloudEvent(GOOD | {"datacontenttype": "application/json"}, b"1.10")
    message = http.encode(Decoded(event, ContentMode.BINARY), EncodeOptions(mode="structured"))

    assert message.headers == (("Content-Type", "application/cloudevents+json; charset=utf-8"),)
    assert read_event(message.body).attributes == event.attributes
    assert read_event(message.body).data == b"1.10"


def test_a_batch_can_be_asked_for() -> None:
    """H13, J14: documents are joined as they are."""
    decoded = Decoded(CloudEvent(GOOD), ContentMode.BATCH, b"{ }", JSON_DOCUMENT)

    assert http.encode_batch([decoded, decoded]) == HttpMessage.of(
        (("Content-Type", "application/cloudevents-batch+json; charset=utf-8"),), b"[{ },{ }]"
    )


def test_a_batch_has_one_version() -> None:
    """I6: all events of a batch are of one version."""
    older = Decoded(CloudEvent(GOOD, version="0.3"), ContentMode.BINARY)
    with pytest.raises(InvalidEvent, match="differs"):
        http.encode_batch([Decoded(CloudEvent(GOOD), ContentMode.BINARY), older])


OPAQUE = Decoded(
    CloudEvent({"type": "t é"}), ContentMode.STRUCTURED, b"<e/>", "application/cloudevents+x; a=b",
    opaque=True,
)  # fmt: skip


@pytest.mark.parametrize("mode", ["binary", "as_received", "structured"])
def test_an_opaque_document_goes_on_byte_for_byte(mode: Mode) -> None:
    """H6, 4.7: body and content type untouched, mirrored headers in their HTTP spelling."""
    message = http.encode(OPAQUE, EncodeOptions(mode=mode))
    assert message.body is OPAQUE.document
    assert message.headers == (
        ("ce-type", "t%20%C3%A9"), ("Content-Type", "application/cloudevents+x; a=b"),
    )  # fmt: skip


def test_an_opaque_document_cannot_become_json() -> None:
    """4.7: a fixed format is 415, not a guess."""
    with pytest.raises(SenderError) as refused:
        http.encode(OPAQUE, EncodeOptions(mode="structured", format="json"))
    assert refused.value.status == 415


FOREIGN: tuple[Header, ...] = (
    ("traceparent", b"00-a-b-01"), ("X-Team", "Zoë".encode()), ("x-team-null", None),
    ("x-team-bin", b"\xff"), ("x-team-break", b"a\r\nb"), ("x team", b"no token"),
    ("authorization", b"secret"), ("Content-Length", b"7"), ("ce-id", b"not the id"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ((), []),
        (("traceparent",), [("traceparent", "00-a-b-01")]),
        (("x-*",), [("X-Team", "Zoë")]),
        (
            ("*",),
            [("traceparent", "00-a-b-01"), ("X-Team", "Zoë"), ("x-foreign-ce-id", "not the id")],
        ),
    ],
)
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_foreign_headers_go_along_when_they_can(
    mode: Mode, forward: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    """I3: distinguishable from the event's own, and never a header that HTTP cannot carry, or that
    is of the connection, of the body or a credential."""
    decoded = Decoded(CloudEvent(GOOD), ContentMode.BINARY, foreign=FOREIGN)
    bare = http.encode(
        Decoded(CloudEvent(GOOD), ContentMode.BINARY), EncodeOptions(mode=mode)
    ).headers
    message = http.encode(decoded, EncodeOptions(mode=mode), frozenset(forward))
    assert message.headers == (*bare, *expected)


def test_an_event_leaves_in_the_format_and_version_asked_for() -> None:
    """A subscription's format and specversion."""
    decoded = Decoded(CloudEvent(GOOD), ContentMode.BINARY)
    protobuf = http.encode(decoded, EncodeOptions(mode="structured", format="protobuf"))
    assert protobuf.headers == (("Content-Type", "application/cloudevents+protobuf"),)
    assert FORMATS["application/cloudevents+protobuf"].read_event(protobuf.body).attributes == GOOD
    older = http.encode(decoded, EncodeOptions(version="0.3"))
    assert ("ce-specversion", "0.3") in older.headers
