"""Access tokens for Kafka by OAuth 2 client credentials, from a real HTTP server."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any
from urllib.parse import parse_qs

import pytest

from app.config.model.brokers import OAuth
from app.features.tokens import GrantedTokens, ask_through
from app.sinks.credentials import NoToken
from app.sinks.http_client import HttpClient
from webhook_target import Received, WebhookTarget, status

SECRET = "canary-77"


@pytest.fixture
async def issuer() -> Any:
    target = WebhookTarget()
    await target.start()
    yield target
    await target.stop()


def client(issuer: WebhookTarget, **settings: Any) -> GrantedTokens:
    given = {"token_endpoint": issuer.url, "client_id": "sky", "client_secret": SECRET}
    return GrantedTokens(OAuth.model_validate(given | settings))


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


@pytest.mark.parametrize("token", ["", "a\r\nb: c", "a\x01b"])
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


WORDS = {"error": "invalid_client", "error_description": f"who is sky:{SECRET}?"}


@pytest.mark.parametrize(
    ("answer", "told", "said"),
    [
        (status(401, body=json.dumps(WORDS).encode()), ": 401 invalid_client", "who is sky:*?"),
        (status(400, body=b'{"error": "%s"}' % SECRET.encode()), ": 400", "*"),
        (status(200, body=b"<html>"), ": DecodeError(.*)", ""),
        (status(500, body=b"oops"), ": 500", ""),
        (
            status(200, body=b'{"access_token": "\xff"}'),
            r": the answer is not JSON \(UnicodeDecodeError\)",
            "",
        ),
        (
            status(200, body=b'{"a": ' + b"[" * 20_000),
            r": the answer is not JSON \(RecursionError\)",
            "",
        ),
        (status(400, body=b'{"error": "\xff"}'), ": 400", ""),
        (status(400, body=b'{"a": ' + b"[" * 20_000), ": 400", ""),
        (SECRET.encode() + b"\r\n\r\n", ": the answer is incomplete, or is not HTTP", ""),
    ],
)
@pytest.mark.parametrize("hooked", [True, False])
async def test_a_refusal_is_told_by_its_code_and_its_words_are_kept_apart(
    issuer: WebhookTarget, answer: bytes, told: str, said: str, hooked: bool
) -> None:
    """The message is logged. Its words are for those who look, without what they echo."""
    issuer.answer = lambda _: answer
    poster = HttpClient(allow_private=("127.0.0.0/8",))
    source = client(issuer)
    if hooked:
        source._ask = ask_through(poster)
    with pytest.raises(NoToken) as refused:
        await source()
    assert re.fullmatch(
        f"no token from {issuer.url}{told}", str(refused.value).replace("reset ", "")
    )
    assert re.sub(r"\*+", "*", refused.value.said) == said
    await poster.stop()


async def test_a_server_that_does_not_answer_is_given_up(issuer: WebhookTarget) -> None:
    """Whoever asks meanwhile waits for this one: without a bound, every connection to the cluster would."""

    async def never(_request: Received) -> bytes:
        await asyncio.sleep(60)
        return b""

    issuer.answer = never
    settings = {"token_endpoint": issuer.url, "client_id": "sky", "client_secret": SECRET}
    source = GrantedTokens(OAuth.model_validate(settings), within=0.2)
    with pytest.raises(OSError, match=r"no token from .*no answer within 0.2 s"):
        await source()
