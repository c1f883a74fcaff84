from __future__ import annotations

from app.bindings import http
from app.bindings.http import HttpMessage
from app.bindings.record import ContentMode, Decoded
from app.event.value import CloudEvent, DataForm
from app.formats.json import read_event

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CE_GOOD = (("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t"))


def binary(event: CloudEvent) -> HttpMessage:
    return http.encode(Decoded(event, ContentMode.BINARY), ContentMode.BINARY)


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
    assert binary(CloudEvent(GOOD)) == HttpMessage(CE_GOOD, b"")


def test_an_implied_json_type_is_made_explicit() -> None:
    """J13, I4: only the JSON format may leave it out."""
    message = binary(CloudEvent(GOOD, b"null", DataForm.JSON))

    assert message == HttpMessage((*CE_GOOD, ("Content-Type", "application/json")), b"null")


def test_an_opaque_body_without_type_gets_none() -> None:
    """J5, J10: none is guessed."""
    assert binary(CloudEvent(GOOD, b"{}")) == HttpMessage(CE_GOOD, b"{}")


def test_a_document_is_reused_untouched() -> None:
    """Never written again when it is there; its media type keeps its parameters."""
    document = b' {"specversion":"1.0"} '
    decoded = Decoded(
        CloudEvent(GOOD), ContentMode.STRUCTURED, document, "application/cloudevents+json; a=b"
    )
    message = http.encode(decoded, ContentMode.STRUCTURED)

    assert message.body is document
    assert message.headers == (("Content-Type", "application/cloudevents+json; a=b"),)


def test_a_binary_event_becomes_a_document() -> None:
    """H11."""
    event = CloudEvent(GOOD | {"datacontenttype": "application/json"}, b"1.10")
    message = http.encode(Decoded(event, ContentMode.BINARY), ContentMode.STRUCTURED)

    assert message.headers == (("Content-Type", "application/cloudevents+json; charset=UTF-8"),)
    assert read_event(message.body).attributes == event.attributes
    assert read_event(message.body).data == b"1.10"


def test_a_batch_of_one_can_be_asked_for() -> None:
    """H13."""
    decoded = Decoded(CloudEvent(GOOD), ContentMode.BATCH, b"{}")

    assert http.encode(decoded, ContentMode.BATCH) == HttpMessage(
        (("Content-Type", "application/cloudevents-batch+json; charset=UTF-8"),), b"[{}]"
    )
