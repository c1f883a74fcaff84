"""Receivers in JavaScript verify what Skybridge signs, and Skybridge what they sign."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest

from app.bindings import kafka
from app.bindings.record import Record
from app.delivery.signing import NAMES, signature_values, signer
from app.delivery.verifying import verify
from app.interfaces import DeliveryRequest
from app.model.message import Message, Partition
from app.model.secret import FileSecret
from app.model.signing_key import KeyKind, SigningKey, write_key
from app.sinks.http_client import HttpClient
from app.sinks.secrets import LiveSecret
from app.sinks.signatures import Signatures
from app.sinks.webhook import WebhookSink
from kafka_install import Missing
from opinion_install import SIGNATURES, installed
from opinion_process import Driver
from skipping import skip_or_fail
from webhook_target import Received, WebhookTarget
from worker_doubles import a_subscription, an_event

SECRET, OTHER = SigningKey(KeyKind.SECRET, b"s" * 32), SigningKey(KeyKind.SECRET, b"o" * 24)
PRIVATE = SigningKey(KeyKind.PRIVATE, b"p" * 32)
BODIES = (b"", b"{}", '{"word":"\u00fc\u20ac"}'.encode(), b'"%b"' % (b"x" * 100_000), b"[1]\r\n")


@pytest.fixture(scope="module")
def package() -> Iterator[Driver]:
    try:
        installed(SIGNATURES)
    except Missing as missing:
        skip_or_fail(missing)
    with Driver(SIGNATURES) as driver:
        yield driver


def public() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    raw = Ed25519PrivateKey.from_private_bytes(PRIVATE.raw).public_key().public_bytes_raw()
    return write_key(SigningKey(KeyKind.PUBLIC, raw))


@pytest.fixture
async def requests() -> list[Received]:
    """What really left: an event alone, several in one request, one without data."""
    target = WebhookTarget()
    await target.start()
    client = HttpClient(allow_private=("127.0.0.0/8",))
    secrets = [LiveSecret(FileSecret(write_key(key))) for key in (SECRET, PRIVATE)]
    signatures = Signatures(secrets, time.time)  # noqa: TID251 - the package has no other clock
    for settings in ({}, {"content_mode": "structured"}, {"batch": {}}):
        subscription = a_subscription(sink=target.url, **settings)
        sink = WebhookSink(subscription, client, signatures=signatures)
        events = [outgoing(an_event(n, subject="\u00fc")) for n in range(3)]
        pieces = [piece for each in events if (piece := sink.piece(each)) is not None]
        answers = [await sink.send(each) for each in events]
        if pieces:
            answers.append(await sink.send_together(pieces, 5.0))
        assert {answer.status for answer in answers} == {204}
    await client.stop()
    await target.stop()
    return target.received


def outgoing(record: Record) -> DeliveryRequest:
    return DeliveryRequest(
        Message(record, Partition("t", 0), "1", 1, 0, 1), kafka.decode(record), 5.0
    )


def as_received(request: Received) -> dict[str, object]:
    headers = {
        name: value.decode() for name, value in request.headers if name.startswith("webhook")
    }
    return {"headers": headers, "body": base64.b64encode(request.body).decode()}


def test_both_verify_the_requests_that_really_leave(
    package: Driver, requests: list[Received]
) -> None:
    """Header by header and byte by byte as they came through a socket: binary, structured, a batch."""
    assert len(requests) == 3 + 3 + 4
    secret = write_key(SECRET)
    for request in requests:
        sent = as_received(request)
        assert package.ask({"ask": "v1", "secret": secret, **sent}) == {"valid": True}
        assert package.ask({"ask": "v1a", "key": public(), **sent}) == {"valid": True}
        changed = {**sent, "body": base64.b64encode(request.body + b" ").decode()}
        assert not package.ask({"ask": "v1", "secret": secret, **changed})["valid"]
        assert not package.ask({"ask": "v1a", "key": public(), **changed})["valid"]


def asked(body: bytes, *keys: SigningKey) -> dict[str, object]:
    at = str(int(time.time()))  # noqa: TID251 - the package has no other clock
    values = signature_values([signer(key) for key in keys], "msg_1", at, body)
    headers = dict(zip(NAMES, values, strict=True))
    return {"headers": headers, "body": base64.b64encode(body).decode()}


@pytest.mark.parametrize("body", BODIES, ids=len)
def test_the_npm_package_verifies_v1(package: Driver, body: bytes) -> None:
    """Alone, and beside the signature of another key, in either order."""
    secret = write_key(SECRET)
    for keys in ((SECRET,), (OTHER, SECRET), (SECRET, OTHER), (PRIVATE, SECRET)):
        assert package.ask({"ask": "v1", "secret": secret, **asked(body, *keys)}) == {"valid": True}
    refused = package.ask({"ask": "v1", "secret": secret, **asked(body, OTHER)})
    assert not refused["valid"]


@pytest.mark.parametrize("body", BODIES, ids=len)
def test_the_ed25519_of_node_verifies_v1a(package: Driver, body: bytes) -> None:
    """Of one key, and beside v1; a changed body is refused."""
    for keys in ((PRIVATE,), (SECRET, PRIVATE)):
        question = {"ask": "v1a", "key": public(), **asked(body, *keys)}
        assert package.ask(question) == {"valid": True}
        changed = base64.b64encode(body + b".").decode()
        assert package.ask({**question, "body": changed}) == {"valid": False}


@pytest.mark.parametrize("body", BODIES, ids=len)
def test_skybridge_verifies_what_the_npm_package_signs(package: Driver, body: bytes) -> None:
    at = 1_700_000_000
    question = {"ask": "sign", "secret": write_key(SECRET), "id": "msg_2", "at": at}
    answer = package.ask({**question, "body": base64.b64encode(body).decode()})
    headers = [
        ("webhook-id", "msg_2"),
        ("webhook-timestamp", str(at)),
        ("webhook-signature", answer["signature"]),
    ]
    assert verify(headers, body, [SECRET], at).valid
