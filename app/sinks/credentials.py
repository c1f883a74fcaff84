"""The credentials that a webhook is shown (spec 5.2)."""

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

SHORT = 8  # characters; masking shorter values, as in ``eu``, would make answers unreadable
TOKEN = "access_token"  # noqa: S105 - the name of a parameter
NO_STORE: Header = ("Cache-Control", "no-store")  # a URL with a token in it is not to be kept


class NoToken(OSError):
    """No access token was granted. ``said``: the words of the token server, masked; they are not in the
    message, which may be logged."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


class Shown(msgspec.Struct, frozen=True):
    """Of one attempt. ``access_token``: for the URL, "" where it goes nowhere near it. ``mask``: hides
    what was shown in what is quoted of the answer."""

    headers: tuple[Header, ...]
    access_token: str = ""
    mask: Mask = Mask()

    def beside(self, other: Shown | None) -> Shown:
        if other is None:
            return self
        headers = (*self.headers, *other.headers)
        return Shown(headers, other.access_token, self.mask.beside(other.mask))

    def url(self, target: str) -> str:
        if not self.access_token:
            return target
        return with_parameter(target, TOKEN, quote(self.access_token, safe=""))


class Credentials(Protocol):
    async def show(self) -> Shown:
        """Raises NoToken where there is nothing to show, in words without a secret."""

    def refused(self, shown: Shown) -> bool:
        """The target answered 401. True: there may be something else to show now."""


class Fixed:
    """Nothing but secrets. ``write``: from them to what is shown; called again when they change."""

    def __init__(self, secret: LiveSecret, write: Callable[[str], Shown]) -> None:
        self._secret = secret
        self._write = lru_cache(maxsize=1)(write)

    async def show(self) -> Shown:
        return self._write(self._secret())

    def refused(self, shown: Shown) -> bool:  # noqa: ARG002 - there is nothing else to show
        return False


class Tokens(Protocol):
    """Where access tokens come from, and are kept."""

    async def __call__(self) -> str: ...
    def forget(self, token: str) -> None: ...


class Granted:
    """Access tokens of an OAuth 2 server."""

    def __init__(self, tokens: Tokens, write: Callable[[str], Shown]) -> None:
        self._tokens = tokens
        self._write = lru_cache(maxsize=1)(write)
        self._token = ""

    async def show(self) -> Shown:
        self._token = await self._tokens()
        return self._write(self._token)

    def refused(self, shown: Shown) -> bool:
        """It may have been revoked before its time: drop it, unless somebody did already."""
        if shown is self._write(self._token):
            self._tokens.forget(self._token)
        return True


class StaticHeaders:
    """The headers that every request of a subscription has. They are written once, and again when the file of a
    value changes."""

    def __init__(self, secrets: Mapping[str, LiveSecret]) -> None:
        self._names = tuple(secrets)
        self._secrets = tuple(secrets.values())
        self._write = lru_cache(maxsize=1)(self._written)

    def show(self) -> Shown:
        return self._write(tuple([secret() for secret in self._secrets]))

    def _written(self, texts: tuple[str, ...]) -> Shown:
        """The mask hides what may be a secret: a value of a file, or one that is not short."""
        pairs = zip(self._secrets, texts, strict=True)
        hidden = [text for of, text in pairs if of.path or len(text) >= SHORT]
        return Shown(tuple(zip(self._names, texts, strict=True)), mask=Mask(*hidden))


def bearer(token: str) -> Shown:
    """RFC 6750 2.1."""
    return Shown((("Authorization", f"Bearer {token}"),), mask=Mask(token))


def in_query(token: str) -> Shown:
    """RFC 6750 2.3, which the webhook specification takes up (spec 5.2)."""
    return Shown((NO_STORE,), token, Mask(token))


def basic(username: str) -> Callable[[str], Shown]:
    """RFC 7617, in UTF-8."""

    def write(password: str) -> Shown:
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        return Shown((("Authorization", f"Basic {pair}"),), mask=Mask(password))

    return write


def in_header(name: str) -> Callable[[str], Shown]:
    return lambda key: Shown(((name, key),), mask=Mask(key))
