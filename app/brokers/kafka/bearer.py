"""SASL OAUTHBEARER: where tokens come from, and what the broker says of one that it refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiokafka import conn
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import OAuthAuthenticator
from aiokafka.errors import SaslAuthenticationFailed

TokenSource = Callable[[], Awaitable[str]]
"""Gives an access token that is still good, a new one where need be. May raise OSError."""


class OAuth(msgspec.Struct, frozen=True, kw_only=True):
    """SASL OAUTHBEARER (RFC 7628): asked for a token whenever a connection is made."""

    token: TokenSource

    def provider(self) -> AbstractTokenProvider:
        return _Tokens(self.token)


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def token(self) -> str:
        return await self._source()


class Authenticator(OAuthAuthenticator):  # type: ignore[misc]  # aiokafka has no types
    """The client takes any answer to a token for a yes, and waits for ever behind a no. A broker refuses
    with words (RFC 7628 3.2.2), and accepts with none."""

    async def step(self, payload: bytes | None) -> Any:
        if payload:
            raise SaslAuthenticationFailed(payload.decode("utf-8", "replace"))
        return await super().step(payload)


def install() -> None:
    """Let the client's connections use it; ``test_internals`` guards that they ask for it by name."""
    conn.OAuthAuthenticator = Authenticator
