"""The settings of a subscription that only a webhook has: signing, credentials, batches and TLS."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from app.bindings.forwarding import is_field_value
from app.model.duration import Count, Duration, Size
from app.model.forwarding import OwnHeader, StaticHeader
from app.model.route import Strict
from app.model.secret import HIDDEN, FileSecret, Secret
from app.model.signing_key import KeyKind, read_key

_HTTP = re.compile(r"https?://[^/?#]")
_PATH = re.compile("[/?#]")
LONGEST_WAIT = 60.0  # seconds that an event may wait for others


def _signs(secret: FileSecret) -> FileSecret:
    """Return the secret if it can sign. Raise ValueError without the secret's text if not."""
    try:
        key = read_key(secret.get_secret_value())
    except ValueError as error:
        raise ValueError(f"{error} Cure: Make a key with skybridge secret.") from None
    if key.kind is KeyKind.PUBLIC:
        raise ValueError(
            "The key is a public key, which cannot sign. Cure: Set the private key of the pair. It begins with whsk_."
        )
    return secret


SigningSecret = Annotated[Secret, AfterValidator(_signs)]


class Signing(Strict):
    """The setting ``signing``: signatures of requests by Standard Webhooks. A secret ``whsec_`` signs by
    HMAC-SHA256, a key ``whsk_`` by ed25519."""

    secret: SigningSecret = Field(
        description="whsec_ or whsk_ and base64, made by skybridge secret; best "
        '"${file:/path}", which is reread when it changes'
    )
    previous_secret: SigningSecret | None = Field(
        None,
        description="the previous secret: requests carry a signature with each while receivers "
        "change",
    )


SentIn = Annotated[
    Literal["header", "query"],
    Field(
        description="header, or query: as access_token in the URL, which logs may contain (use "
        "it only if the target accepts nothing else)",
    ),
]


class Bearer(Strict):
    """The setting ``auth`` with a fixed bearer token."""

    kind: Literal["bearer"] = Field(description="a fixed token")
    token: Secret = Field(description='the token; best "${file:/path}" or "${env:NAME}"')
    sent_in: SentIn = "header"


class Basic(Strict):
    """The setting ``auth`` with user name and password (RFC 7617)."""

    kind: Literal["basic"] = Field(description="user name and password")
    username: Annotated[str, Field(pattern=r"^[^:\x00-\x1f\x7f]+$")] = Field(
        description="user name"
    )
    password: Secret = Field(description='password; best "${file:/path}" or "${env:NAME}"')


class ApiKey(Strict):
    """The setting ``auth`` with a key in a header that the target defines."""

    kind: Literal["api_key"] = Field(description="a key in a header")
    header: OwnHeader = Field("x-api-key", description="name of the header, in lower case")
    secret: Secret = Field(description='the key; best "${file:/path}" or "${env:NAME}"')


class OAuth2(Strict):
    """The setting ``auth`` with access tokens by OAuth 2 client credentials (RFC 6749 4.4). A token is reused until
    shortly before it expires."""

    kind: Literal["oauth2"] = Field(description="tokens granted for a client id and secret")
    token_endpoint: Annotated[str, Field(pattern=r"^https?://[^/?#]")] = Field(
        description="URL of the token endpoint; the address rules of webhooks apply"
    )
    client_id: Annotated[str, Field(min_length=1)] = Field(
        description="client id of Skybridge at the token endpoint"
    )
    client_secret: Secret = Field(
        description='client secret; best "${file:/path}" or "${env:NAME}"'
    )
    scope: str = Field("", description="requested scope")
    audience: str = Field("", description="requested audience, if the server needs one")
    sent_in: SentIn = "header"


Auth = Annotated[Bearer | Basic | ApiKey | OAuth2, Field(discriminator="kind")]


def _value(secret: FileSecret) -> FileSecret:
    """Return the secret if a header can have it as value. Raise ValueError without the secret's text if not."""
    text = secret.get_secret_value()
    if not is_field_value(text) or text != text.strip(" \t"):
        raise ValueError(
            "The value has a control character, or a space at its start or end. No header value may have these. "
            "Cure: Remove these characters."
        )
    return secret


HeaderValue = Annotated[Secret, AfterValidator(_value)]
MOST_HEADERS = 32
StaticHeaders = Annotated[dict[StaticHeader, HeaderValue], Field(max_length=MOST_HEADERS)]


def _url(secret: FileSecret) -> FileSecret:
    """Return the secret if it is a URL. Raise ValueError without the secret's text if not."""
    if not _HTTP.match(secret.get_secret_value()):
        raise ValueError(
            "The value is not a URL that begins with https:// or http://. Cure: Write a URL, for example https://host/path."
        )
    return secret


SecretUrl = Annotated[Secret, AfterValidator(_url)]


class SecretSink(Strict):
    """The URL of a webhook that is a secret: path and query are hidden wherever requests are shown."""

    url: SecretUrl = Field(
        description='URL to which events are posted; best "${env:NAME}" or "${file:/path}"'
    )
    secret: Literal[True] = Field(description="true: path and query of the URL are hidden")

    @property
    def shown(self) -> str:
        """Return the URL without its path and query."""
        scheme, _, rest = self.url.get_secret_value().partition("://")
        return f"{scheme}://{_PATH.split(rest, maxsplit=1)[0].rpartition('@')[2]}/{HIDDEN}"


class Together(Strict):
    """The setting ``batch``: several events in one request, as ``application/cloudevents-batch+json``."""

    max_events: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        100, description="most events of one request"
    )
    max_wait: Annotated[Duration, Field(le=LONGEST_WAIT)] = Field(
        "0s",
        validate_default=True,
        description="longest time that an event ready to send waits for others, at most 60s; 0s: a request "
        "takes the events that are ready",
    )
    max_bytes: Annotated[Size, Field(ge=1_024)] = Field(
        "1MiB", validate_default=True, description="most bytes of a request of several events"
    )


class WebhookTls(Strict):
    """The setting ``tls`` for requests to one webhook. The files are read again when they change."""

    ca: Path | None = Field(
        None,
        description="PEM file of the certificate authorities to trust, instead of the system's",
    )
    cert: Path | None = Field(
        None, description="PEM file of the client certificate, for mutual TLS"
    )
    key: Path | None = Field(None, description="PEM file of its key, without a pass phrase")

    @model_validator(mode="after")
    def cert_with_key(self) -> WebhookTls:
        if (self.cert is None) != (self.key is None):
            raise ValueError(
                "The settings cert and key work only together, and one is missing. Cure: Set both, or remove both."
            )
        return self
