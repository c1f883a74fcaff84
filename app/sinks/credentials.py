"""The credentials that a request to a webhook carries (webhook specification 3)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol
from urllib.parse import quote

import msgspec

from app.delivery.target_url import with_parameter
from app.sinks.masks import Mask
from app.sinks.secrets import LiveSecret

Header = tuple[str, str]

MIN_MASKED = 8  # characters; masking shorter values, such as ``eu``, would make answers unreadable
TOKEN = "access_token"  # noqa: S105 - the name of a parameter
NO_STORE: Header = (
    "Cache-Control",
    "no-store",
)  # no cache may store an answer to a URL that holds a token


class NoToken(OSError):
    """The error for an access token that the token server did not grant.

    ``said`` is the masked text of the token server. The message omits this text, because messages
    may be logged.
    """

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


class RequestCredentials(msgspec.Struct, frozen=True):
    """The credentials of one request.

    ``headers`` are added to the request. ``access_token`` is added to the URL, if it is not empty. ``mask`` hides
    the credentials in quotations of the answer.
    """

    headers: tuple[Header, ...]
    access_token: str = ""
    mask: Mask = Mask()

    def combined_with(self, other: RequestCredentials | None) -> RequestCredentials:
        """Return these credentials together with those of ``other``, and the access token of
        ``other``.
        """
        if other is None:
            return self
        headers = (*self.headers, *other.headers)
        return RequestCredentials(headers, other.access_token, self.mask.combined_with(other.mask))

    def url(self, target: str) -> str:
        """Return the target URL, with the access token as a query parameter if there is one."""
        if not self.access_token:
            return target
        return with_parameter(target, TOKEN, quote(self.access_token, safe=""))


class Credentials(Protocol):
    """Provider of the credentials for the requests of one subscription."""

    async def current(self) -> RequestCredentials:
        """Return the credentials for the next request. Raise NoToken, without any secret in the
        message, if none can be had.
        """

    def refused(self, sent: RequestCredentials) -> bool:
        """Report that the target answered 401 to these credentials. Return True if a second attempt
        may use new ones.
        """


class SecretCredentials:
    """Credentials that are made of one configured secret, such as a password.

    ``write`` builds the request credentials from the secret. It is called again only when the
    secret changes.
    """

    def __init__(self, secret: LiveSecret, write: Callable[[str], RequestCredentials]) -> None:
        self._secret = secret
        self._write = lru_cache(maxsize=1)(write)

    async def current(self) -> RequestCredentials:
        return self._write(self._secret())

    def refused(self, sent: RequestCredentials) -> bool:  # noqa: ARG002 - the secret is all there is
        return False


class AccessTokenSource(Protocol):
    """A source of access tokens that caches the token which it obtained."""

    async def __call__(self) -> str: ...
    def forget(self, token: str) -> None: ...


class OAuthCredentials:
    """Credentials that are access tokens of an OAuth 2 server."""

    def __init__(
        self, tokens: AccessTokenSource, write: Callable[[str], RequestCredentials]
    ) -> None:
        self._tokens = tokens
        self._write = lru_cache(maxsize=1)(write)
        self._token = ""

    async def current(self) -> RequestCredentials:
        self._token = await self._tokens()
        return self._write(self._token)

    def refused(self, sent: RequestCredentials) -> bool:
        """Remove the rejected token from the cache, because it may have been revoked early, and
        return True. A newer token stays.
        """
        if sent is self._write(self._token):
            self._tokens.forget(self._token)
        return True


class StaticHeaders:
    """The configured headers that every request of a subscription carries.

    They are built once, and again when the file of a header value changes.
    """

    def __init__(self, secrets: Mapping[str, LiveSecret]) -> None:
        self._names = tuple(secrets)
        self._secrets = tuple(secrets.values())
        self._write = lru_cache(maxsize=1)(self._written)

    def current(self) -> RequestCredentials:
        """Return the headers with their present values. A mask hides the values that may be secrets."""
        return self._write(tuple([secret() for secret in self._secrets]))

    def _written(self, texts: tuple[str, ...]) -> RequestCredentials:
        """Build the headers. The mask hides a value that comes from a file or that has at least
        ``MIN_MASKED`` characters.
        """
        pairs = zip(self._secrets, texts, strict=True)
        hidden = [text for of, text in pairs if of.path or len(text) >= MIN_MASKED]
        return RequestCredentials(tuple(zip(self._names, texts, strict=True)), mask=Mask(*hidden))


def bearer(token: str) -> RequestCredentials:
    """Return a bearer token as an Authorization header (RFC 6750 2.1)."""
    return RequestCredentials((("Authorization", f"Bearer {token}"),), mask=Mask(token))


def in_query(token: str) -> RequestCredentials:
    """Return an access token that goes into the query of the URL (RFC 6750 2.3; webhook
    specification 3.2).
    """
    return RequestCredentials((NO_STORE,), token, Mask(token))


def basic(username: str) -> Callable[[str], RequestCredentials]:
    """Return a function that builds a Basic authorization header from the password (RFC 7617),
    encoded in UTF-8.
    """

    def write(password: str) -> RequestCredentials:
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        return RequestCredentials((("Authorization", f"Basic {pair}"),), mask=Mask(password))

    return write


def in_header(name: str) -> Callable[[str], RequestCredentials]:
    """Return a function that puts an API key into the header ``name``."""
    return lambda key: RequestCredentials(((name, key),), mask=Mask(key))
