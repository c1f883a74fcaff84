"""Access tokens for Kafka by OAuth 2 client credentials, from a real HTTP server."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from app.config.brokers import OAuth
from app.runtime.tokens import ClientCredentials
from webhook_target import Received, WebhookTarget, status

SECRET = "canary-77"


@pytest.fixture
async def issuer() -> Any:
    target = WebhookTarget()
    await target.start()
    yield target
    await target.stop()


def client(issuer: WebhookTarget, **settings: Any) -> ClientCredentials:
    given = {"token_endpoint": issuer.url, "client_id": "sky", "client_secret": SECRET}
    return ClientCredentials(OAuth.model_validate(given | settings))


def granting(**answer: Any) -> Any:
    body = json.dumps(answer).encode()
    return lambda _request: status(200, "Content-Type: application/json", body=body)


async def test_a_token_is_asked_for_once_and_kept(issuer: WebhookTarget) -> None:
    """RFC 6749 4.4.2; a connection is made often, a token lives long."""
    issuer.answer = granting(access_token="jwt", expires_in=3600)
    source = client(issuer, scope="kafka")
    assert [await source(), await source()] == ["jwt", "jwt"]
    (request,) = issuer.received
    assert request.header("authorization").startswith("Basic ")
    asked = parse_qs(request.body.decode())
    assert asked == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


async def test_id_and_secret_are_form_encoded_before_basic(issuer: WebhookTarget) -> None:
    """RFC 6749 2.3.1: a colon in an id, a percent sign in a secret are read as they were written."""
    issuer.answer = granting(access_token="jwt")
    await client(issuer, client_id="sky:1", client_secret="p+s %40\u00fc")()
    login = issuer.received[0].header("authorization").removeprefix("Basic ")
    assert base64.b64decode(login) == b"sky%3A1:p%2Bs+%2540%C3%BC"


@pytest.mark.parametrize("token", ["", "a\r\nb: c"])
async def test_a_token_that_no_header_can_bear_is_none(issuer: WebhookTarget, token: str) -> None:
    """The endpoint of tokens is at fault, not each event that would bear it."""
    issuer.answer = granting(access_token=token)
    with pytest.raises(OSError, match=r"no token from .*: 200$"):
        await client(issuer)()


async def test_a_token_that_is_about_to_end_is_asked_for_anew(issuer: WebhookTarget) -> None:
    """Before the broker refuses it."""
    issuer.answer = granting(access_token="jwt", expires_in=20)
    source = client(issuer)
    await source()
    await source()
    assert len(issuer.received) == 2


@pytest.mark.parametrize(
    "answer",
    [
        status(401, body=b'{"error": "invalid_client", "error_description": "who?"}'),
        status(200, body=b"<html>"),
        status(500, body=b"oops"),
    ],
)
async def test_a_refusal_is_told_without_the_secret(issuer: WebhookTarget, answer: bytes) -> None:
    """The driver takes OSError for a broker that is away; health then shows the words."""

    def refuse(_request: Received) -> bytes:
        return answer

    issuer.answer = refuse
    with pytest.raises(OSError, match="no token from") as refused:
        await client(issuer)()
    assert SECRET not in repr(refused.value)


async def test_a_server_that_does_not_answer_is_given_up(issuer: WebhookTarget) -> None:
    """Whoever asks meanwhile waits for this one: without a bound, every connection to the cluster would."""

    async def never(_request: Received) -> bytes:
        await asyncio.sleep(60)
        return b""

    issuer.answer = never
    settings = {"token_endpoint": issuer.url, "client_id": "sky", "client_secret": SECRET}
    source = ClientCredentials(OAuth.model_validate(settings), within=0.2)
    with pytest.raises(OSError, match=r"no token from .*no answer within 0.2 s"):
        await source()
