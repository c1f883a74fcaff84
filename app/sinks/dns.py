"""The addresses of a webhook's host that it may have: looked up, judged, and kept for half a minute.

Connections are made to exactly what comes out of here, so a name that changes its mind between the
check and the connection has nothing to swap (reliability 4.3).
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

CACHE = 30.0  # seconds
DNS_TIMEOUT = 2.0  # seconds
MOST_AT_ONCE = 4  # look-ups of one sink; it has one host, and its answers are kept for a while

Found = list[tuple[Any, ...]]
"""As ``socket.getaddrinfo`` returns it."""

Known = tuple[float, deque[str]]
"""Addresses, and until when they are believed (time of the loop)."""


class AddressBlocked(OSError):
    """Every address of the host is one that a webhook may not have."""


class Lookup(Protocol):
    """Finds the addresses of a name. Raises OSError."""

    async def resolve(self, host: str) -> Sequence[str]: ...


class Names:
    """``allow_private`` as the guard has it. ``timeout``: seconds for one look-up."""

    def __init__(
        self, lookup: Lookup, allow_private: Sequence[str], timeout: float = DNS_TIMEOUT
    ) -> None:
        self._lookup = lookup
        self._allow_private = allow_private
        self._timeout = timeout
        self._known: dict[tuple[str, bool], asyncio.Task[Known]] = {}

    async def addresses(self, host: str, *, plain: bool) -> Sequence[str]:
        """Never none, and each time another one first. ``plain``: for http, which reaches only what
        ``allow_private`` names. Raises AddressBlocked, and OSError for what cannot be found.

        All who want the same name wait for one look-up, which goes on when one of them goes."""
        key = host, plain
        known = self._known.get(key)
        if known is None or (known.done() and not _lasts(known)):
            known = self._known[key] = asyncio.create_task(self._look_up(host, plain))
            known.add_done_callback(_lasts)  # its error is for those who waited
        _, found = await asyncio.shield(known)
        answer = tuple(found)
        found.rotate(-1)
        return answer

    async def _look_up(self, host: str, plain: bool) -> Known:
        try:
            found = await asyncio.wait_for(self._lookup.resolve(host), self._timeout)
        except TimeoutError:
            text = f"no answer from DNS in {self._timeout:g} s"
            raise OSError(errno.ETIMEDOUT, text) from None
        kept = [each for each in found if allowed(each, host, self._allow_private, plain=plain)]
        if not found:
            raise OSError(errno.ENODATA, f"{host} has no address")
        if not kept:
            raise AddressBlocked(errno.EACCES, f"{host} has only forbidden addresses for webhooks")
        return asyncio.get_running_loop().time() + CACHE, deque(kept)


def _lasts(known: asyncio.Task[Known]) -> bool:
    """Whether a look-up that has ended is still good."""
    if known.cancelled() or known.exception() is not None:
        return False
    return known.result()[0] > asyncio.get_running_loop().time()


class ThreadLookup:
    """Asks the system, in threads of its own, a few at a time: names that hang make only their own
    target wait.

    The threads are nobody else's: neither another sink's nor those of the loop's executor, which the
    whole process shares. They are daemons, for the system's resolver cannot be interrupted, and a
    process that stops must not wait for a name server.

    ``ask``: ``socket.getaddrinfo``, or another with its signature.
    """

    def __init__(
        self, ask: Callable[..., Found] = socket.getaddrinfo, most: int = MOST_AT_ONCE
    ) -> None:
        self._ask = ask
        self._slots = asyncio.Semaphore(most)

    async def resolve(self, host: str) -> Sequence[str]:
        """Raises OSError. A caller that goes away leaves its slot taken until its thread is done."""
        await self._slots.acquire()
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        try:
            self._begin(answer, host)
        except BaseException:
            self._slots.release()
            raise
        return [_address(family, address) for family, *_, address in await answer]

    def _begin(self, answer: asyncio.Future[Found], host: str) -> None:
        loop = asyncio.get_running_loop()

        def look_up() -> None:
            found: Found | OSError
            try:
                found = self._ask(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            except (OSError, UnicodeError) as error:  # a label that IDNA cannot hold
                found = error if isinstance(error, OSError) else OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._end, answer, found)

        threading.Thread(target=look_up, name=f"dns {host}", daemon=True).start()

    def _end(self, answer: asyncio.Future[Found], found: Found | OSError) -> None:
        self._slots.release()
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)


def _address(family: int, address: tuple[Any, ...]) -> str:
    """A link-local address of IPv6 is nothing without its interface."""
    if family == socket.AF_INET6 and address[-1]:
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    return str(address[0])
