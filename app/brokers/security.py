"""How we come to a broker and prove who we are: what the configuration says, and drivers take as it is; and
what a server of OAuth 2 answers who asks it for a token (RFC 6749)."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import Field, model_validator

from app.errors import SetupError
from app.model.route import Strict

RENEW_BEFORE = 30.0  # seconds before a token ends
WORDS = 200  # characters of the server's own words that are quoted


class ClientTls(Strict):
    """TLS towards a broker. Empty: the system's certificate authorities."""

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

    def context(self, product: str, broker: str) -> ssl.SSLContext:
        """Raises SetupError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:
            raise SetupError(
                f"TLS for {product} cannot be set up: {error}",
                setting=f"brokers.{broker}.security.tls",
                cure="name readable PEM files, the key without a pass phrase",
            ) from error
        context.check_hostname = self.verify_host
        return context


class OAuth2(Strict):
    """Access tokens by OAuth 2 client credentials."""

    issuer_url: Annotated[str, Field(pattern=r"^https?://[^/?#]")] = Field(
        description="the issuer, which names its token endpoint under /.well-known"
    )
    credentials: Path = Field(
        description="JSON file with client_id and client_secret, in the form of Pulsar's tools"
    )
    audience: str = Field("", description="requested audience, if the issuer needs one")
    scope: str = Field("", description="requested scope, if the issuer needs one")


class TokenGrant(msgspec.Struct):
    """5.1. ``expires_in``: seconds."""

    access_token: str
    expires_in: float = 60.0


class TokenRefusal(msgspec.Struct):
    """5.2."""

    error: str = ""
    error_description: str = ""
