"""Credentials for Pulsar's administration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TypeVar

import msgspec

from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.security import RENEW_BEFORE, WORDS, OAuth2, TokenGrant, TokenRefusal
from app.errors import SetupError
from app.event.json_text import NOT_JSON
from app.libraries.httpx_client import httpx
from app.tls import read_regular

T = TypeVar("T")


class _Credentials(msgspec.Struct):
    client_id: str
    client_secret: str


class _Issuer(msgspec.Struct):
    token_endpoint: str


class BearerToken(httpx.Auth):
    """Authentication with a fixed token of the configuration."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        request.headers["authorization"] = self._header
        yield request


class ClientCredentialsAuth(httpx.Auth):
    """OAuth 2 client credentials, as Pulsar's client library uses them.

    The issuer names its token endpoint, which returns a token for the client's id and secret. The token is
    used until shortly before it expires.
    """

    def __init__(self, settings: OAuth2) -> None:
        self._settings = settings
        self._token = ""
        self._until = 0.0
        self._asking = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add a token to the request, after fetching one if needed. Concurrent requests wait for the same
        token.

        Raises AdminError with the issuer's message if the issuer rejects the credentials.
        """
        async with self._asking:
            if time.monotonic() >= self._until:
                issuer = await self._answer(_Issuer, (yield self._discovery_request()))
                granted = await self._answer(TokenGrant, (yield self._token_request(issuer)))
                self._token = granted.access_token
                self._until = time.monotonic() + granted.expires_in - RENEW_BEFORE
        request.headers["authorization"] = f"Bearer {self._token}"
        yield request

    async def _answer(self, kind: type[T], answer: httpx.Response) -> T:
        await answer.aread()
        issuer = self._settings.issuer_url
        if answer.is_server_error:
            answer.raise_for_status()
        if not answer.is_success:
            message = f"the issuer {issuer} rejected the credentials: {_message_of(answer)}"
            raise AdminError(httpx.codes.UNAUTHORIZED, message)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except NOT_JSON as error:
            message = f"the answer of the issuer {issuer} is invalid: {error}"
            raise AdminError(httpx.codes.BAD_GATEWAY, message) from error

    def _discovery_request(self) -> httpx.Request:
        issuer = self._settings.issuer_url.rstrip("/")
        return httpx.Request("GET", f"{issuer}/.well-known/openid-configuration")

    def _token_request(self, issuer: _Issuer) -> httpx.Request:
        credentials = _read(self._settings.credentials)
        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
            "audience": self._settings.audience,
            "scope": self._settings.scope,
        }
        data = {name: value for name, value in form.items() if value}
        return httpx.Request("POST", issuer.token_endpoint, data=data)


async def access_token(settings: PulsarSettings) -> str:
    """Return a new access token of the issuer. Raise AdminError with its message if it rejects the credentials."""
    if settings.oauth2 is None:
        raise TypeError(f"{settings.name} has no setting oauth2")
    request = httpx.Request("GET", settings.oauth2.issuer_url)
    flow = ClientCredentialsAuth(settings.oauth2).async_auth_flow(request)
    context = settings.ssl_context()
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        asked = await anext(flow)
        while asked is not request:
            asked = await flow.asend(await client.send(asked))
    return str(request.headers["authorization"]).removeprefix("Bearer ")


def authentication(settings: PulsarSettings) -> httpx.Auth | None:
    if settings.token is not None:
        return BearerToken(settings.token)
    if settings.oauth2 is not None:
        return ClientCredentialsAuth(settings.oauth2)
    return None


def _message_of(answer: httpx.Response) -> str:
    try:
        refusal = msgspec.json.decode(answer.content, type=TokenRefusal)
    except NOT_JSON:
        refusal = TokenRefusal()
    text = f"{answer.status_code} {refusal.error} {refusal.error_description}"
    return " ".join(text.split())[:WORDS]


def _read(path: Path) -> _Credentials:
    try:
        return msgspec.json.decode(read_regular(path), type=_Credentials)
    except (OSError, *NOT_JSON) as error:
        raise SetupError(
            f"the credentials for Pulsar cannot be read: {error}",
            setting="security.oauth2.credentials",
            cure="name a JSON file with client_id and client_secret",
        ) from error
