"""Between threads and the event loop: calls of the client in bundles, and our calls of it that block.

The C++ client calls back on threads that know nothing of the loop (reliability 5.3, #184). Such a
call does nothing but append here, so that it holds the interpreter for a moment only, and many of
them share one wake-up of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pulsar

from app.brokers.pulsar.errors import client_error

log = logging.getLogger(__name__)

_LOOK = 0.01  # seconds


class Bridge:
    """One a loop. ``post`` may be called from any thread; everything else on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._threads: set[threading.Thread] = set()  # calls under way

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have ``call`` made on the loop. Order is kept."""
        self._calls.append((call, arguments))
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._woken = False  # first: what is appended from here on wakes the loop again
        calls = self._calls
        while calls:
            call, arguments = calls.popleft()
            try:
                call(*arguments)
            except Exception:
                log.exception("a call from Pulsar's client failed")

    async def ask(self, call: Callable[..., Any], *arguments: Any, within: float) -> Any:
        """Return what a call of the library returns that blocks, for the rare calls: each has a thread of its own. A
        handle that comes too late is closed again. Raises ClientError or TimeoutError."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        thread = threading.Thread(
            target=self._call, args=(answer, call, arguments), name="pulsar-ask", daemon=True
        )
        self._threads.add(thread)
        thread.start()
        async with asyncio.timeout(within):
            return await answer

    def begin(self, call: Callable[[], Any]) -> None:
        """Make a call that blocks, whose outcome changes nothing."""
        thread = threading.Thread(target=self._ignore, args=(call,), name="pulsar-end", daemon=True)
        self._threads.add(thread)
        thread.start()

    async def rest(self, within: float) -> None:
        """Wait until no call is under way, at most ``within`` seconds: a thread that comes back when the interpreter
        ends would end the process by a signal."""
        end = self._loop.time() + within
        while self._threads and self._loop.time() < end:  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(_LOOK)

    def _call(
        self, answer: asyncio.Future[Any], call: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        """On a thread of its own."""
        try:
            value = call(*arguments)
        except pulsar.PulsarException as error:
            self.post(_fail, answer, client_error(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker raises it
            self.post(_fail, answer, error)
        else:
            self.post(self._conclude, answer, value)
        self._threads.discard(threading.current_thread())

    def _ignore(self, call: Callable[[], Any]) -> None:
        with contextlib.suppress(pulsar.PulsarException):
            call()
        self._threads.discard(threading.current_thread())

    def _conclude(self, answer: asyncio.Future[Any], value: Any) -> None:
        if not answer.done():
            answer.set_result(value)
        elif hasattr(value, "close"):
            self.begin(value.close)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
