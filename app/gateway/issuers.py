"""The public keys of token issuers, by OpenID Connect discovery or from a file.

The keys are fetched at the first use, then every ``REFRESH_EVERY`` seconds while tokens come. They are also
fetched when a token names an unknown key. Anyone can send such a token, so these requests to the issuer are
limited: ``QUESTION_BURST`` at once, and one more every ``QUESTION_INTERVAL`` seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from app.access.quota import Allowance, Quota
from app.delivery.target_url import target_extension
from app.event.json_text import NOT_JSON
from app.model.producer import JwtRule
from app.telemetry.tasks import stop_task
from app.tls import read_regular

if TYPE_CHECKING:
    from app.access.signatures import Keys
    from app.libraries.httpx_client import httpx

REFRESH_EVERY = 300.0  # seconds
QUESTION_INTERVAL = 60.0  # seconds
QUESTION_BURST = 5  # questions because of unknown keys; several, so that a forged token leaves some
FAILURE_PAUSE = 5.0  # seconds after a question that failed
ANSWER_TIMEOUT = 5.0  # seconds for both answers of an issuer
MAX_ANSWER = 1 << 20  # bytes
DISCOVERY = "/.well-known/openid-configuration"

_log = logging.getLogger(__name__)

Fetch = Callable[[], Awaitable[bytes]]
"""A function that fetches the JWK Set of an issuer. It raises OSError or ValueError."""


class Issuer:
    """The keys of one issuer. Use it on the event loop only.

    ``keys`` is None until the keys have been fetched once. When the keys change, ``keys`` becomes another
    object.
    """

    def __init__(
        self,
        name: str,
        fetch: Fetch,
        monotonic: Callable[[], float],
    ) -> None:
        self.name = name
        self.keys: Keys | None = None
        self._fetch = fetch
        self._monotonic = monotonic
        self._asked = -REFRESH_EVERY
        self.questions = 0  # number of questions that have begun
        self._answered = 0  # number of the newest question with an answer
        self._allowance = Allowance(Quota(1 / QUESTION_INTERVAL, QUESTION_BURST))
        self._asking: asyncio.Task[None] | None = None

    def ask(self) -> asyncio.Task[None] | None:
        """Return a task that fetches the keys, and start the task unless one is running. Return None while
        the limit permits no further request to the issuer.
        """
        if self._asking is None:
            now = self._monotonic()
            if self._pause(now) or self._allowance.take(1, now):
                return None
            self._begin()
        return self._asking

    def wait(self) -> float:
        """Return the seconds until the limit permits the next request to the issuer."""
        now = self._monotonic()
        return max(self._pause(now), self._allowance.wait(now))

    def has_answered(self, since: int) -> bool:
        """Return True if the issuer has answered a request for keys that was made after the first ``since``
        requests."""
        return self._answered > since

    def _pause(self, now: float) -> float:
        """Return the seconds until a failed request for keys may be repeated."""
        has_failed = self._asking is None and self._answered < self.questions
        return max(0.0, self._asked + FAILURE_PAUSE - now) if has_failed else 0.0

    def refresh(self) -> None:
        """Fetch the keys in the background if they are old. Until the new keys arrive, tokens are verified
        with the present keys.
        """
        if self._asking is None and self._monotonic() - self._asked >= REFRESH_EVERY:
            self._begin()

    async def stop(self) -> None:
        await stop_task(self._asking)

    def _begin(self) -> None:
        self._asked = self._monotonic()
        self.questions += 1
        self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        from app.access.signatures import Keys  # noqa: PLC0415 - heavy, and few have tokens

        question = self.questions
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                keys = Keys(await self._fetch())
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            _log.warning("the keys of issuer %s stay as they are: %s", self.name, reason)
        else:
            self._answered = question
            if keys != self.keys:
                self.keys = keys
        finally:
            self._asking = None


def fetch_from_file(path: Path) -> Fetch:
    async def fetch() -> bytes:
        return await asyncio.to_thread(read_regular, path)

    return fetch


def fetch_by_discovery(issuer: str) -> Fetch:
    """Return a function that fetches the keys by OpenID Connect Discovery 1.0.

    The issuer's configuration names the address of the keys. It must also name the same issuer.
    """

    async def fetch() -> bytes:
        from app.libraries.httpx_client import httpx  # noqa: PLC0415 - heavy, and few have issuers

        try:
            async with httpx.AsyncClient(timeout=ANSWER_TIMEOUT, follow_redirects=False) as client:
                return await _discover(client, issuer)
        except httpx.HTTPError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    return fetch


async def _discover(client: httpx.AsyncClient, issuer: str) -> bytes:
    found = _document(await _get(client, issuer.rstrip("/") + DISCOVERY))
    if found.get("issuer") != issuer:
        raise ValueError("its configuration names another issuer")
    address = found.get("jwks_uri")
    if not isinstance(address, str) or not _is_allowed_address(address, issuer):
        raise ValueError("its configuration names no https address of keys")
    return await _get(client, address)


async def _get(client: httpx.AsyncClient, url: str) -> bytes:
    """Return the body of a GET of at most ``MAX_ANSWER`` bytes. Raise ValueError for any other
    status or a larger body.
    """
    async with client.stream("GET", url, extensions=target_extension(url)) as answer:
        if answer.status_code != HTTPStatus.OK:
            raise ValueError(f"{url} answers {answer.status_code}")
        body = b""
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > MAX_ANSWER:
                raise ValueError(f"{url} answers more than {MAX_ANSWER} bytes")
        return body


def _document(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except NOT_JSON as error:
        raise ValueError("its configuration is no JSON object") from error


def _is_allowed_address(address: str, issuer: str) -> bool:
    """Return True for an https address. An http address is allowed only if the issuer has http too, which the
    command ``check`` permits only on loopback.
    """
    return address.startswith("https://") or (
        issuer.startswith("http://") and address.startswith("http://")
    )


class Issuers:
    """All token issuers of a process. Their keys survive a reload."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[tuple[str, Path | None], Issuer] = {}

    def of(self, rule: JwtRule) -> Issuer:
        """Return the issuer of a rule, and create it at the first call."""
        issuer = self._known.get((rule.issuer, rule.jwks))
        if issuer is None:
            fetch = (
                fetch_by_discovery(rule.issuer) if rule.jwks is None else fetch_from_file(rule.jwks)
            )
            issuer = Issuer(rule.issuer, fetch, self._monotonic)
            self._known[rule.issuer, rule.jwks] = issuer
        return issuer

    async def stop(self) -> None:
        for issuer in self._known.values():
            await issuer.stop()
