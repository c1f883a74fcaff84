"""Finds the addresses of a webhook and keeps the forbidden ones from the connector.

The connector connects to exactly what comes out of here, so a name that changes its mind between
the check and the connection has nothing to swap (reliability 4.3).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

from app.delivery.address_guard import allowed

DNS_TIMEOUT = 2.0  # seconds


class AddressBlocked(OSError):
    """Every address of the host is one that a webhook may not have."""


class GuardedResolver(AbstractResolver):
    """``plain``: for http, which reaches only what ``allow_private`` names."""

    def __init__(
        self,
        inner: AbstractResolver,
        allow_private: Sequence[str],
        *,
        plain: bool,
        timeout: float = DNS_TIMEOUT,
    ) -> None:
        self._inner = inner
        self._allow_private = allow_private
        self._plain = plain
        self._timeout = timeout

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        try:
            found = await asyncio.wait_for(
                self._inner.resolve(host, port, family), timeout=self._timeout
            )
        except TimeoutError:
            text = f"no answer from DNS in {self._timeout:g} s"
            raise OSError(errno.ETIMEDOUT, text) from None
        kept = [result for result in found if self._allowed(result["host"], host)]
        if found and not kept:
            raise AddressBlocked(errno.EACCES, f"{host} has only addresses webhooks may not have")
        return kept

    async def close(self) -> None:
        await self._inner.close()

    def _allowed(self, address: str, host: str) -> bool:
        return allowed(address, host, self._allow_private, plain=self._plain)
