"""Looks names up in threads of its own, a few at a time: names that hang make only their own target wait.

The threads are nobody else's: neither another sink's nor those of the loop's executor, which the
whole process shares. They are daemons, for the system's resolver cannot be interrupted, and a
process that stops must not wait for a name server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

MOST_AT_ONCE = 4  # look-ups of one sink; it has one host, and its answers are kept for a while

Found = list[tuple[Any, ...]]
"""As ``socket.getaddrinfo`` returns it."""


class ThreadLookup(AbstractResolver):
    """``ask``: ``socket.getaddrinfo``, or another with its signature."""

    def __init__(
        self, ask: Callable[..., Found] = socket.getaddrinfo, most: int = MOST_AT_ONCE
    ) -> None:
        self._ask = ask
        self._slots = asyncio.Semaphore(most)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError. A caller that goes away leaves its slot taken until its thread is done."""
        await self._slots.acquire()
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        try:
            self._begin(answer, host, port, family)
        except BaseException:
            self._slots.release()
            raise
        return [_result(host, port, each) for each in await answer]

    async def close(self) -> None:
        """Nothing to close: a thread that still waits ends by itself."""

    def _begin(self, answer: asyncio.Future[Found], host: str, port: int, family: int) -> None:
        loop = asyncio.get_running_loop()

        def look_up() -> None:
            found: Found | OSError
            try:
                found = self._ask(
                    host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
                )
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


def _result(host: str, port: int, found: tuple[Any, ...]) -> ResolveResult:
    family, _, protocol, _, address = found
    return ResolveResult(
        hostname=host,
        host=_address(family, address),
        port=port,
        family=family,
        proto=protocol,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


def _address(family: int, address: tuple[Any, ...]) -> str:
    """A link-local address of IPv6 is nothing without its interface."""
    if family == socket.AF_INET6 and address[-1]:
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    return str(address[0])
