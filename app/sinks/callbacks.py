"""Addresses by which webhooks may consent later (``WebHook-Request-Callback``, spec 5.3).

An address holds a key that nobody can guess, serves one question, and ends. The store keeps a digest of it,
so that any gateway can be called; the process that asked looks there for what was said.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping

from app.errors import StoreUnavailable
from app.interfaces import Consents

PATH = "/handshake/"
LASTING = 86_400.0  # seconds
_KEY = 32  # bytes

Granted = Callable[[str | None], None]
"""Called with the raw ``WebHook-Allowed-Rate``, None without one."""

_log = logging.getLogger(__name__)


class Callbacks:
    """``base``: URL of the events listener as webhooks reach it. ``now``: seconds since the epoch."""

    def __init__(self, base: str, consents: Consents, now: Callable[[], float]) -> None:
        self._base = base.rstrip("/")
        self._consents = consents
        self._now = now
        self._open: dict[bytes, Granted] = {}  # what this process asked
        self._taking = asyncio.Lock()  # what one takes is told before another misses it

    async def open(self, subscription: str, granted: Granted) -> str:
        """The URL to be called. It ends after a day, when it was called, or when it is closed. "" while
        the store does not answer."""
        key = secrets.token_urlsafe(_KEY)
        digest, now = _digest(key), self._now()
        until_ms = int((now + LASTING) * 1000)
        try:
            await self._consents.open(
                digest, subscription, until_ms=until_ms, now_ms=int(now * 1000)
            )
        except StoreUnavailable as error:
            _log.warning("%s is asked without a callback: %s", subscription, error)
            return ""
        self._open[digest] = granted
        return f"{self._base}{PATH}{key}"

    async def close(self, url: str) -> bool:
        """Whether it was called before; then ``granted`` knows. One that the store cannot close now ends
        after its day."""
        digest = _digest(url.rpartition("/")[2])
        async with self._taking:
            if digest in self._open:
                with contextlib.suppress(StoreUnavailable):
                    self._tell(await self._consents.close(digest))
            return self._open.pop(digest, None) is None

    async def call(self, key: str, rate: str | None) -> bool | None:
        """Somebody called. False: there is no such address, or it has ended. None: the store, which
        would know, does not answer."""
        digest = _digest(key)
        try:
            known = await self._consents.call(digest, rate, int(self._now() * 1000))
        except StoreUnavailable:
            return None
        if digest in self._open:
            with contextlib.suppress(StoreUnavailable):  # it is kept, and found by a later look
                await self.look()
        return known

    async def look(self) -> None:
        """Tell those who asked here what was said at any gateway. StoreUnavailable."""
        async with self._taking:
            if self._open:
                self._tell(await self._consents.take(self._open))

    def _tell(self, called: Mapping[bytes, str | None]) -> None:
        for digest, rate in called.items():
            self._open.pop(digest)(rate)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
