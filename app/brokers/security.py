"""Settings for TLS and authentication towards a broker, and the answers of an OAuth 2 token endpoint (RFC
6749).

Drivers use these models of the configuration directly.
"""

from __future__ import annotations

import ssl
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import Field, model_validator

from app.model.route import Strict
from app.tls import ClientContext, Copies, PemReloader, Pems

RENEW_BEFORE = 30.0  # seconds before a token expires
WORDS = 200  # most characters of the server's own message that an error quotes


class ClientTls(Strict):
    """TLS towards a broker. Without ``ca``, the certificate authorities of the system are trusted."""

    ca: Path | None = Field(None, description="PEM file of the authorities to trust")
    cert: Path | None = Field(
        None, description="PEM file of the client certificate, for mutual TLS"
    )
    key: Path | None = Field(None, description="PEM file of its key, without a pass phrase")
    verify_host: bool = Field(True, description="the broker's certificate must name its host")

    @model_validator(mode="after")
    def cert_with_key(self) -> ClientTls:
        if (self.cert is None) != (self.key is None):
            raise ValueError("give cert and key together")
        return self

    def context(self, broker: str) -> ssl.SSLContext:
        """Return the TLS context for all connections to this broker.

        Each handshake uses the files as they were last loaded successfully. Raise SetupError if the files
        cannot be used at the start.
        """
        return self._in_use.context(_pems(self, broker), verify_host=self.verify_host)

    def copies(self, broker: str) -> Copies:
        """Return copies of the TLS files as they were last loaded. They are for a library that reads files
        itself.

        Raise SetupError if the files cannot be used at the start.
        """
        return self._in_use.copies(_pems(self, broker))

    @cached_property
    def _in_use(self) -> _InUse:
        return _InUse()


class _InUse:
    """The TLS context and the file copies that were made from the settings. Both are updated when the files
    change."""

    def __init__(self) -> None:
        self._context: ClientContext | None = None
        self._copies: PemReloader[Copies] | None = None

    def context(self, pems: Pems, *, verify_host: bool) -> ssl.SSLContext:
        if self._context is None:
            self._context = ClientContext(pems, verify_host=verify_host)
        return self._context

    def copies(self, pems: Pems) -> Copies:
        if self._copies is None:
            self._copies = PemReloader(pems, partial(Copies, pems))
        else:
            self._copies.look()
        return self._copies.current


def _pems(tls: ClientTls, broker: str) -> Pems:
    return Pems(setting=f"brokers.{broker}.security.tls", cert=tls.cert, key=tls.key, ca=tls.ca)


class OAuth2(Strict):
    """Settings for access tokens by the client credentials grant of OAuth 2."""

    issuer_url: Annotated[str, Field(pattern=r"^https?://[^/?#]")] = Field(
        description="the issuer, which names its token endpoint under /.well-known"
    )
    credentials: Path = Field(
        description="JSON file with client_id and client_secret, in the form of Pulsar's tools"
    )
    audience: str = Field("", description="requested audience, if the issuer needs one")
    scope: str = Field("", description="requested scope, if the issuer needs one")


class TokenGrant(msgspec.Struct):
    """A successful answer of a token endpoint (RFC 6749, 5.1). ``expires_in`` is in seconds."""

    access_token: str
    expires_in: float = 60.0


class TokenRefusal(msgspec.Struct):
    """An error answer of a token endpoint (RFC 6749, 5.2)."""

    error: str = ""
    error_description: str = ""
