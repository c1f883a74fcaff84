"""Addresses by which webhooks may consent later (``WebHook-Request-Callback``, spec 5.3).

An address holds a key that nobody can guess, serves one question, and ends. Only a digest of it is
kept.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

PATH = "/handshake/"
LASTING = 86_400.0  # seconds
_KEY = 32  # bytes

Granted = Callable[[str | None], None]
"""Called with the raw ``WebHook-Allowed-Rate``, None without one."""


class Callbacks:
    """``base``: URL of the events listener as webhooks reach it."""

    def __init__(self, base: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._base = base.rstrip("/")
        self._monotonic = monotonic
        self._open: dict[bytes, tuple[float, Granted]] = {}

    def open(self, granted: Granted) -> str:
        """The URL to be called. It ends after a day, when it was called, or when it is closed."""
        self._forget_old()
        key = secrets.token_urlsafe(_KEY)
        self._open[_digest(key)] = (self._monotonic() + LASTING, granted)
        return f"{self._base}{PATH}{key}"

    def close(self, url: str) -> None:
        self._open.pop(_digest(url.rpartition("/")[2]), None)

    def call(self, key: str, rate: str | None) -> bool:
        """Somebody called. False: there is no such address, or it has ended."""
        self._forget_old()
        found = self._open.pop(_digest(key), None)
        if found is None:
            return False
        found[1](rate)
        return True

    def _forget_old(self) -> None:
        now = self._monotonic()
        self._open = {key: each for key, each in self._open.items() if each[0] > now}


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
