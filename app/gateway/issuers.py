"""The public keys of token issuers: by OpenID Connect discovery, or from a file. Kept, and asked again.

An issuer is asked at its first use, then every ``EVERY`` seconds while tokens come, and when a token names
a key that is not known. Anyone can send such a token, so these questions are counted: ``BURST`` at once, and one more
every ``AGAIN`` seconds.
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
from app.model.producer import JwtRule
from app.telemetry.tasks import ended
from app.tls import read_regular

if TYPE_CHECKING:
    from app.access.signatures import Keys
    from app.libraries.httpx_client import httpx

EVERY = 300.0  # seconds
AGAIN = 60.0
BURST = 5  # questions because of unknown keys: a stranger's token does not use up the only one
PAUSE = 5.0  # seconds after a question that failed
WITHIN = 5.0  # seconds for both answers of an issuer together
LARGEST = 1 << 20  # bytes of an answer
DISCOVERY = "/.well-known/openid-configuration"

_log = logging.getLogger(__name__)

Fetch = Callable[[], Awaitable[bytes]]
"""The JWK Set of an issuer. Raises OSError or ValueError."""


class Issuer:
    """``keys``: None until they have been got once; another object when they are others than before. On the
    event loop only."""

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
        self._asked = -EVERY
        self.questions = 0  # that have begun
        self._answered = 0  # the newest of them with an answer
        self._allowance = Allowance(Quota(1 / AGAIN, BURST))
        self._asking: asyncio.Task[None] | None = None

    def ask(self) -> asyncio.Task[None] | None:
        """Return a question to wait for, which is under way or begins now; None while none may be asked."""
        if self._asking is None:
            now = self._monotonic()
            if self._pause(now) or self._allowance.take(1, now):
                return None
            self._begin()
        return self._asking

    def wait(self) -> float:
        """Return the seconds until the next question may be asked."""
        now = self._monotonic()
        return max(self._pause(now), self._allowance.wait(now))

    def has_answered(self, since: int) -> bool:
        """Return whether a question has been answered that began when there had been ``since`` of them."""
        return self._answered > since

    def _pause(self, now: float) -> float:
        """Return the seconds until a failed question may be repeated."""
        has_failed = self._asking is None and self._answered < self.questions
        return max(0.0, self._asked + PAUSE - now) if has_failed else 0.0

    def refresh(self) -> None:
        """Ask in the background, if the keys are old. Tokens are judged by the present ones meanwhile."""
        if self._asking is None and self._monotonic() - self._asked >= EVERY:
            self._begin()

    async def stop(self) -> None:
        await ended(self._asking)

    def _begin(self) -> None:
        self._asked = self._monotonic()
        self.questions += 1
        self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        from app.access.signatures import Keys  # noqa: PLC0415 - heavy, and few have tokens

        question = self.questions
        try:
            async with asyncio.timeout(WITHIN):
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


def from_file(path: Path) -> Fetch:
    async def fetch() -> bytes:
        return await asyncio.to_thread(read_regular, path)

    return fetch


def by_discovery(issuer: str) -> Fetch:
    """OpenID Connect Discovery 1.0: the configuration names the address of the keys, and the issuer, which
    must be the one that was asked."""

    async def fetch() -> bytes:
        from app.libraries.httpx_client import httpx  # noqa: PLC0415 - heavy, and few have issuers

        try:
            async with httpx.AsyncClient(timeout=WITHIN, follow_redirects=False) as client:
                return await _discovered(client, issuer)
        except httpx.HTTPError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    return fetch


async def _discovered(client: httpx.AsyncClient, issuer: str) -> bytes:
    found = _document(await _got(client, issuer.rstrip("/") + DISCOVERY))
    if found.get("issuer") != issuer:
        raise ValueError("its configuration names another issuer")
    address = found.get("jwks_uri")
    if not isinstance(address, str) or not _is_safe(address, issuer):
        raise ValueError("its configuration names no https address of keys")
    return await _got(client, address)


async def _got(client: httpx.AsyncClient, url: str) -> bytes:
    """At most ``LARGEST`` bytes."""
    async with client.stream("GET", url, extensions=target_extension(url)) as answer:
        if answer.status_code != HTTPStatus.OK:
            raise ValueError(f"{url} answers {answer.status_code}")
        body = b""
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > LARGEST:
                raise ValueError(f"{url} answers more than {LARGEST} bytes")
        return body


def _document(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError("its configuration is no JSON object") from error


def _is_safe(address: str, issuer: str) -> bool:
    """https, or http where the issuer itself has it (on loopback, as ``check`` demands)."""
    return address.startswith("https://") or (
        issuer.startswith("http://") and address.startswith("http://")
    )


class Issuers:
    """Those of a process, over its reloads: their keys are kept."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[tuple[str, Path | None], Issuer] = {}

    def of(self, rule: JwtRule) -> Issuer:
        issuer = self._known.get((rule.issuer, rule.jwks))
        if issuer is None:
            fetch = by_discovery(rule.issuer) if rule.jwks is None else from_file(rule.jwks)
            issuer = Issuer(rule.issuer, fetch, self._monotonic)
            self._known[rule.issuer, rule.jwks] = issuer
        return issuer

    async def stop(self) -> None:
        for issuer in self._known.values():
            await issuer.stop()
