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
        self._kept: dict[tuple[str, bool], tuple[float, deque[str]]] = {}
        self._asking: dict[tuple[str, bool], asyncio.Task[None]] = {}

    async def addresses(self, host: str, *, plain: bool) -> Sequence[str]:
        """Never none, and each time another one first. ``plain``: for http, which reaches only what
        ``allow_private`` names. Raises AddressBlocked, and OSError for what cannot be found."""
        key = host, plain
        now = asyncio.get_running_loop().time()
        until, _ = self._kept.get(key, (now, None))
        if until <= now:
            await self._asked(key)
        _, found = self._kept[key]
        answer = tuple(found)
        found.rotate(-1)
        return answer

    async def _asked(self, key: tuple[str, bool]) -> None:
        """All who want the same name wait for one look-up, which goes on when one of them goes."""
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._look_up(*key))
            asking.add_done_callback(lambda task: self._end(key, task))
        await asyncio.shield(asking)

    def _end(self, key: tuple[str, bool], asking: asyncio.Task[None]) -> None:
        del self._asking[key]
        if not asking.cancelled():
            asking.exception()  # those who waited were told

    async def _look_up(self, host: str, plain: bool) -> None:
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
        until = asyncio.get_running_loop().time() + CACHE
        self._kept[host, plain] = until, deque(kept)


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
