"""Resolve the host of a webhook to the addresses that are allowed, and cache them for 30 seconds.

Connections are made to exactly these addresses. So a name cannot resolve to a forbidden address
between the check and the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from app.delivery.address_guard import allowed

CACHE_SECONDS = 30.0  # seconds
DNS_TIMEOUT = 2.0  # seconds
MAX_LOOKUPS = 4  # concurrent look-ups of one sink; one host with cached answers needs few

AddressInfos = list[tuple[Any, ...]]
"""A list of addresses in the form that ``socket.getaddrinfo`` returns."""

CachedAddresses = tuple[float, deque[str]]
"""The loop time in seconds at which the addresses expire, and the addresses."""


class AddressBlocked(OSError):
    """The error for a host all of whose addresses are forbidden for webhooks."""


class DnsLookup(Protocol):
    """A resolver of host names to addresses."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the addresses of the host, as text. Raise OSError if the look-up fails."""


class GuardedResolver:
    """A resolver that returns only addresses which webhooks may have, and caches them.

    ``allow_private`` lists the networks and host patterns that are exempt. ``timeout`` is the limit
    of one look-up in seconds.
    """

    def __init__(
        self, lookup: DnsLookup, allow_private: Sequence[str], timeout: float = DNS_TIMEOUT
    ) -> None:
        self._lookup = lookup
        self._allow_private = allow_private
        self._timeout = timeout
        self._known: dict[tuple[str, bool], asyncio.Task[CachedAddresses]] = {}

    async def addresses(self, host: str, *, plain: bool) -> Sequence[str]:
        """Return at least one allowed address of the host. Successive calls start with different
        addresses.

        Concurrent callers share one look-up, which continues if one of them is cancelled.

        Args:
            host: the host name.
            plain: whether the URL is http. Plain http reaches only hosts that ``allow_private``
                lists.

        Raises:
            AddressBlocked: every address is forbidden.
            OSError: the look-up failed.
        """
        key = host, plain
        known = self._known.get(key)
        if known is None or (known.done() and not _is_valid(known)):
            known = self._known[key] = asyncio.create_task(self._look_up(host, plain))
            known.add_done_callback(_is_valid)  # retrieves the error, which the waiting callers get
        _, found = await asyncio.shield(known)
        answer = tuple(found)
        found.rotate(-1)
        return answer

    async def _look_up(self, host: str, plain: bool) -> CachedAddresses:
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._lookup.resolve(host)
        except TimeoutError:
            text = f"no answer from DNS in {self._timeout:g} s"
            raise OSError(errno.ETIMEDOUT, text) from None
        kept = [each for each in found if allowed(each, host, self._allow_private, plain=plain)]
        if not found:
            raise OSError(errno.ENODATA, f"{host} has no address")
        if not kept:
            raise AddressBlocked(errno.EACCES, f"{host} has only forbidden addresses for webhooks")
        return asyncio.get_running_loop().time() + CACHE_SECONDS, deque(kept)


def _is_valid(known: asyncio.Task[CachedAddresses]) -> bool:
    """Return True if a finished look-up succeeded and its addresses have not expired."""
    if known.cancelled() or known.exception() is not None:
        return False
    return known.result()[0] > asyncio.get_running_loop().time()


class ThreadLookup:
    """A resolver that asks the operating system in daemon threads of its own, at most ``most`` at a
    time.

    A name server that does not answer delays only its own target. The threads belong to one sink.
    They are not in the executor of the loop, which the whole process shares. They are daemons,
    because the resolver of the system cannot be interrupted and must not delay the end of the
    process.

    ``ask`` is ``socket.getaddrinfo`` or a function with the same signature.
    """

    def __init__(
        self, ask: Callable[..., AddressInfos] = socket.getaddrinfo, most: int = MAX_LOOKUPS
    ) -> None:
        self._ask = ask
        self._slots = asyncio.Semaphore(most)

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the addresses of the host. Raise OSError if the look-up fails.

        If the caller is cancelled, the look-up occupies its slot until its thread ends.
        """
        await self._slots.acquire()
        answer: asyncio.Future[AddressInfos] = asyncio.get_running_loop().create_future()
        try:
            self._begin(answer, host)
        except BaseException:
            self._slots.release()
            raise
        return [_address_text(family, address) for family, *_, address in await answer]

    def _begin(self, answer: asyncio.Future[AddressInfos], host: str) -> None:
        loop = asyncio.get_running_loop()

        def look_up() -> None:
            found: AddressInfos | OSError
            try:
                found = self._ask(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            except (
                OSError,
                UnicodeError,
            ) as error:  # UnicodeError: a label that IDNA cannot encode
                found = error if isinstance(error, OSError) else OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._end, answer, found)

        threading.Thread(target=look_up, name=f"dns {host}", daemon=True).start()

    def _end(self, answer: asyncio.Future[AddressInfos], found: AddressInfos | OSError) -> None:
        self._slots.release()
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)


def _address_text(family: int, address: tuple[Any, ...]) -> str:
    """Return the address as text. A link-local IPv6 address includes its interface, without which
    it is unusable.
    """
    if family == socket.AF_INET6 and address[-1]:
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    return str(address[0])
