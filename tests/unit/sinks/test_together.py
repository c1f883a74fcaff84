"""Several events in one request: what stands in it, who may be in it, what it bears."""

from __future__ import annotations

import json

import pytest

from app.bindings import kafka
from app.bindings.http import decode as decode_http
from app.bindings.record import Record
from app.delivery.signing import joint_id, webhook_id
from app.delivery.verifying import verify
from app.interfaces import DeliveryRequest, SinkAnswer
from app.model.message import Message, Partition
from app.model.secret import FileSecret
from app.model.signing_key import read_key
from app.sinks.credentials import SecretCredentials, bearer
from app.sinks.handshake import Handshake
from app.sinks.secrets import LiveSecret
from app.sinks.signatures import Signatures
from app.sinks.webhook import WebhookSink
from worker_doubles import RecordingClient, a_subscription, an_event

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLdMw"
DOCUMENT = b'{"specversion":"1.0","id":"9","source":"/s","type":"t","data":1.10}'
HAND_WRITTEN = Record(None, (("content-type", b"application/cloudevents+json"),), DOCUMENT)
UNREAD = Record(None, (("content-type", b"application/cloudevents+cbor"),), b"\xa0")


def a_sink(client: RecordingClient, **settings: object) -> WebhookSink:
    parts = {
        name: settings.pop(name)
        for name in ("signatures", "credentials", "handshake")
        if name in settings
    }
    return WebhookSink(a_subscription(**{"batch": {}, **settings}), client, **parts)


def outgoing(record: Record) -> DeliveryRequest:
    return DeliveryRequest(
        Message(record, Partition("orders", 0), "7", 7, 0, 1), kafka.decode(record), 9.0
    )


async def sent(sink: WebhookSink, *records: Record) -> SinkAnswer:
    pieces = [sink.piece(outgoing(record)) for record in records]
    return await sink.send_together([piece for piece in pieces if piece], 9.0)


async def test_events_stand_in_a_batch_in_their_order() -> None:
    """H13, J14: one array, its media type, each event whole; a document goes on byte for byte."""
    client = RecordingClient()
    await sent(a_sink(client), an_event(1), HAND_WRITTEN, an_event(2, datacontenttype="text/plain"))
    (message,) = client.posted
    assert message.headers == (
        ("Content-Type", "application/cloudevents-batch+json; charset=utf-8"),
    )
    assert [each["id"] for each in json.loads(message.body)] == ["1", "9", "2"]
    assert DOCUMENT in message.body
    headers = [(name.lower().encode(), text.encode()) for name, text in message.headers]
    read = decode_http(headers, message.body)
    assert read[0].event.attributes == kafka.decode(an_event(1)).event.attributes
    assert client.told == [("https://billing.example/hook", 9.0)]


async def test_a_single_event_is_a_batch_of_one() -> None:
    """A receiver that takes batches has one form to read; a probe after a pause is no exception."""
    client = RecordingClient()
    await a_sink(client).send(outgoing(an_event(1)))
    (message,) = client.posted
    assert json.loads(message.body)[0]["id"] == "1"


@pytest.mark.parametrize(
    "record",
    [UNREAD, an_event(1, specversion="0.3")],
    ids=["unread format", "older version"],
)
async def test_what_cannot_be_in_a_batch_goes_as_without(record: Record) -> None:
    client = RecordingClient()
    sink = a_sink(client)
    assert sink.piece(outgoing(record)) is None
    await sink.send(outgoing(record))
    plain = RecordingClient()
    await WebhookSink(a_subscription(), plain).send(outgoing(record))
    assert client.posted == plain.posted


async def test_an_older_event_may_be_in_it_where_it_is_written_anew() -> None:
    """I6: one specversion in a batch."""
    client = RecordingClient()
    sink = a_sink(client, specversion="1.0")
    await sent(sink, an_event(1, specversion="0.3"), an_event(2))
    assert {each["specversion"] for each in json.loads(client.posted[0].body)} == {"1.0"}


async def test_a_format_with_batches_of_its_own_is_written_in_it() -> None:
    client = RecordingClient()
    await sent(a_sink(client, format="protobuf"), an_event(1), an_event(2))
    (message,) = client.posted
    assert message.headers == (("Content-Type", "application/cloudevents-batch+protobuf"),)
    headers = [(b"content-type", message.headers[0][1].encode())]
    assert [each.event.id for each in decode_http(headers, message.body)] == ["1", "2"]


def test_a_format_without_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="avro has no batches"):
        a_subscription(batch={}, format="avro")


@pytest.mark.parametrize("settings", [{"batch": {}}, {"reply": "r"}])
def test_what_is_of_webhooks_is_refused_for_a_topic(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is only for webhooks"):
        a_subscription(sink={"broker": "log", "topic": "x"}, **settings)


async def test_without_the_setting_nothing_is_joined() -> None:
    """H5: a batch is sent only where it was asked for."""
    sink = WebhookSink(a_subscription(), RecordingClient())
    assert sink.piece(outgoing(an_event(1))) is None


async def test_a_request_of_several_is_signed_as_a_whole() -> None:
    """One signature over the body; its identity is that of the events in it, in their order."""
    client = RecordingClient()
    signatures = Signatures([LiveSecret(FileSecret(SECRET))], lambda: 1_700_000_000.0)
    sink = a_sink(client, signatures=signatures)
    for records in ((1, 2), (1, 2), (2, 1), (1,)):
        await sent(sink, *map(an_event, records))
    headers = [list(message.headers) for message in client.posted]
    for message in client.posted:
        assert verify(list(message.headers), message.body, [read_key(SECRET)], 1_700_000_000).valid
    named = [dict(each)["webhook-id"] for each in headers]
    assert named[0] == named[1]
    assert len(set(named)) == 3
    assert named[3] == webhook_id(kafka.decode(an_event(1)))
    assert joint_id(["a", "b"]) != joint_id(["a\nb"])


class Allowed:
    """A webhook that consents to six requests a minute."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, url, message, within):
        self.asked += 1
        granted = {"webhook-allowed-origin": "*", "webhook-allowed-rate": "6"}
        return SinkAnswer(200), granted


async def test_it_bears_origin_and_credentials_and_counts_once_for_the_rate() -> None:
    """W2; WebHook-Allowed-Rate counts requests."""
    client = RecordingClient()
    handshake = Handshake("https://h/", Allowed(), origin="o", monotonic=lambda: 0.0)
    sink = a_sink(
        client,
        handshake=handshake,
        credentials=SecretCredentials(LiveSecret(FileSecret("t")), bearer),
    )
    assert sink.pace() == 0.0
    assert (await sent(sink, *map(an_event, range(50)))).status == 204
    headers = dict(client.posted[0].headers)
    assert headers["WebHook-Request-Origin"] == "o"
    assert headers["Authorization"] == "Bearer t"
    assert 9.9 < sink.pace() < 10.1  # as after one request, not after fifty


async def test_the_body_alone_carries_the_events() -> None:
    """No attribute is a header of such a request."""
    client = RecordingClient()
    await sent(a_sink(client), an_event(1), an_event(2))
    names = {name.lower() for name, _ in client.posted[0].headers}
    assert not any(name.startswith("ce-") for name in names)
