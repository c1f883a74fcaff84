"""Access tokens for SASL OAUTHBEARER and for webhooks.

A token is fixed, or read from a file that another program renews. It may also be granted by an OAuth 2 server
for a client id and secret (RFC 6749 4.4).
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote_plus, urlencode

import msgspec
from pydantic import SecretStr

from app.bindings.http import HttpMessage
from app.brokers.security import RENEW_BEFORE, WORDS, TokenGrant, TokenRefusal
from app.config.model.brokers import Sasl
from app.delivery.target_url import target_extension
from app.model.secret import is_sendable
from app.sinks.credentials import NoToken
from app.sinks.http_client import HttpClient
from app.sinks.masks import Mask
from app.tls import read_text

if TYPE_CHECKING:
    from app.brokers.kafka import TokenSource

GRANTED_WITHIN = 10.0  # seconds to wait for a granted token
_SUCCESS = range(200, 300)
_NO_JSON = (UnicodeDecodeError, RecursionError)  # msgspec raises these for some invalid JSON
_ERRORS = frozenset(
    (
        *("invalid_request", "invalid_client", "invalid_grant"),
        *("unauthorized_client", "unsupported_grant_type", "invalid_scope"),
    )
)  # RFC 6749 5.2


def token_source(sasl: Sasl) -> TokenSource:
    """Return the source of access tokens for SASL settings with the mechanism OAUTHBEARER."""
    if sasl.oauth is not None:
        return GrantedTokens(sasl.oauth)
    if sasl.token_file is not None:
        return _of_file(sasl.token_file)
    token = sasl.token.get_secret_value() if sasl.token is not None else ""
    return _fixed(token)


def _fixed(token: str) -> TokenSource:
    async def source() -> str:
        return token

    return source


def _of_file(path: Path) -> TokenSource:
    """Return a source that reads the file for each connection. The file is small and mostly cached by the
    system."""

    async def source() -> str:
        return await asyncio.to_thread(lambda: read_text(path).strip())

    return source


class OAuthSettings(Protocol):
    """The OAuth 2 settings of a broker or of a webhook."""

    @property
    def token_endpoint(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_secret(self) -> SecretStr: ...
    @property
    def scope(self) -> str | None: ...


Ask = Callable[[str, Mapping[str, str], tuple[str, str], float], Awaitable[tuple[int, bytes]]]
"""A function that requests a token. It takes URL, form, user name with password, and a timeout in seconds,
and returns status and body. It raises OSError if there is no answer."""


async def ask_directly(
    url: str, form: Mapping[str, str], login: tuple[str, str], within: float
) -> tuple[int, bytes]:
    """Request a token with a client of its own. Raise OSError if there is no answer within ``within``
    seconds."""
    from app.libraries.httpx_client import httpx  # noqa: PLC0415 - slow to import, and rarely used

    try:
        async with asyncio.timeout(within), httpx.AsyncClient(timeout=within) as client:
            answer = await client.post(
                url, data=form, auth=httpx.BasicAuth(*login), extensions=target_extension(url)
            )
            return answer.status_code, answer.content
    except TimeoutError as error:
        raise OSError(f"no answer within {within:g} s") from error
    except httpx.RemoteProtocolError as error:  # its message would quote the answer
        raise OSError("the answer is incomplete, or is not HTTP") from error
    except httpx.HTTPError as error:
        raise OSError(repr(error)) from error


def ask_through(client: HttpClient) -> Ask:
    """Return a function that requests tokens with the HTTP client of a webhook. So the address checks,
    certificates and proxy of the webhook apply."""

    async def ask(
        url: str, form: Mapping[str, str], login: tuple[str, str], within: float
    ) -> tuple[int, bytes]:
        pair = base64.b64encode(":".join(login).encode()).decode()
        headers = (
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Accept", "application/json"),
            ("Authorization", f"Basic {pair}"),
        )
        answer = await client.post(url, HttpMessage.of(headers, urlencode(form).encode()), within)
        if answer.status is None:
            raise OSError(f"{answer.fault} {answer.detail}".strip())
        return answer.status, answer.body

    return ask


class GrantedTokens:
    """A source of tokens that an OAuth 2 server grants for client credentials.

    A token is cached until shortly before it expires. Concurrent callers wait for the same request.

    Args:
        settings: The token endpoint and the client id.
        within: Seconds for a complete answer.
        audience: The parameter audience of the request, or "" to omit it.
        ask: A function that sends the request.
        secret: A function that returns the current client secret, if that may change.
        renew_before: Seconds before expiry at which the token is no longer used.
    """

    def __init__(
        self,
        settings: OAuthSettings,
        within: float = GRANTED_WITHIN,
        *,
        audience: str = "",
        ask: Ask = ask_directly,
        secret: Callable[[], str] | None = None,
        renew_before: float = RENEW_BEFORE,
    ) -> None:
        self._settings = settings
        self._within = within
        self._audience = audience
        self._ask = ask
        self._secret = secret or settings.client_secret.get_secret_value
        self._renew_before = renew_before
        self._token = ""
        self._until = 0.0
        self._asking: asyncio.Task[str] | None = None

    async def __call__(self) -> str:
        """Return a valid token. Raise NoToken if the server grants none. The message contains no text of the
        server's answer."""
        if time.monotonic() < self._until:
            return self._token
        if self._asking is None:
            self._asking = asyncio.create_task(self._renew())
            self._asking.add_done_callback(self._request_done)
        return await asyncio.shield(self._asking)

    def forget(self, token: str) -> None:
        """Discard a token that the target refused. The next call requests another token."""
        if token == self._token:
            self._until = 0.0

    def _request_done(self, task: asyncio.Task[str]) -> None:
        """Discard the finished request. Its exception counts as handled, because the callers that waited have
        received it."""
        self._asking = None
        if not task.cancelled():
            task.exception()

    async def _renew(self) -> str:
        """Request a token and store it."""
        granted = await self._request_token()
        self._token = granted.access_token
        self._until = time.monotonic() + granted.expires_in - self._renew_before
        return self._token

    async def _request_token(self) -> TokenGrant:
        """Request a token from the server. Raise NoToken if the server grants none."""
        no_token = f"no token from {self._settings.token_endpoint}"
        # RFC 6749 2.3.1
        name, password = quote_plus(self._settings.client_id), quote_plus(self._secret())
        try:
            status, body = await self._ask(
                self._settings.token_endpoint, self._form(), (name, password), self._within
            )
            if status in _SUCCESS:
                granted = msgspec.json.decode(body, type=TokenGrant)
                if granted.access_token and is_sendable(granted.access_token):
                    return granted
        except msgspec.MsgspecError as error:
            raise NoToken(f"{no_token}: {error!r}") from error
        except _NO_JSON as error:
            raise NoToken(f"{no_token}: the answer is not JSON ({type(error).__name__})") from error
        except OSError as error:
            raise NoToken(f"{no_token}: {error}") from error
        code, description = _refusal(body)
        mask = Mask(self._secret())
        raise NoToken(f"{no_token}: {status} {code}".rstrip(), mask(description)[:WORDS])

    def _form(self) -> dict[str, str]:
        """Return the form of the request, without empty parameters."""
        given = {
            "grant_type": "client_credentials",
            "scope": self._settings.scope or "",
            "audience": self._audience,
        }
        return {name: text for name, text in given.items() if text}


def _refusal(body: bytes) -> tuple[str, str]:
    """Return the error code of the answer, if RFC 6749 defines it, and the server's own text."""
    try:
        found = msgspec.json.decode(body, type=TokenRefusal)
    except (msgspec.MsgspecError, *_NO_JSON):
        return "", ""
    if found.error in _ERRORS:
        return found.error, found.error_description
    return "", f"{found.error} {found.error_description}".strip()
