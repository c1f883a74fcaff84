"""Connect the threads of Pulsar's client with the event loop, in both directions.

The C++ client runs callbacks on its own threads, not on the loop (pulsar-client issue 184). Here a callback
only appends to a queue. So it holds the interpreter lock briefly, and many callbacks share one wake-up of the
loop. Blocking calls of the client run in threads.
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

_CHECK_EVERY = 0.01  # seconds between checks for running threads


class Bridge:
    """The bridge between one event loop and the client's threads. ``post`` may be called from any thread, and
    all other methods on the loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._threads: set[threading.Thread] = set()  # threads with a blocking call in progress

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule ``call`` on the event loop. Calls run in the order of posting."""
        self._calls.append((call, arguments))
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # a closed loop has no waiting caller
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._woken = False  # first, so that a call appended from now on wakes the loop again
        calls = self._calls
        while calls:
            call, arguments = calls.popleft()
            try:
                call(*arguments)
            except Exception:
                log.exception("a callback of Pulsar's client failed")

    async def ask(self, call: Callable[..., Any], *arguments: Any, within: float) -> Any:
        """Run a blocking call of the library in a thread of its own, and return its result.

        If the call returns after the time limit of ``within`` seconds, its result is closed. Raises
        ClientError or TimeoutError.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        thread = threading.Thread(
            target=self._call, args=(answer, call, arguments), name="pulsar-ask", daemon=True
        )
        self._threads.add(thread)
        thread.start()
        async with asyncio.timeout(within):
            return await answer

    def run_in_background(self, call: Callable[[], Any]) -> None:
        """Run a blocking call in a thread, and ignore its result and errors."""
        thread = threading.Thread(
            target=self._run_and_ignore, args=(call,), name="pulsar-end", daemon=True
        )
        self._threads.add(thread)
        thread.start()

    async def wait_for_threads(self, within: float) -> None:
        """Wait until no blocking call is in progress, for at most ``within`` seconds.

        Otherwise a thread that returns from the library while the interpreter ends would crash the process.
        """
        end = self._loop.time() + within
        while self._threads and self._loop.time() < end:  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(_CHECK_EVERY)

    def _call(
        self, answer: asyncio.Future[Any], call: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        """Run a blocking call in this thread, and post its result to the loop."""
        try:
            value = call(*arguments)
        except pulsar.PulsarException as error:
            self.post(_fail, answer, client_error(error))
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            self.post(_fail, answer, error)
        else:
            self.post(self._conclude, answer, value)
        self._threads.discard(threading.current_thread())

    def _run_and_ignore(self, call: Callable[[], Any]) -> None:
        with contextlib.suppress(pulsar.PulsarException):
            call()
        self._threads.discard(threading.current_thread())

    def _conclude(self, answer: asyncio.Future[Any], value: Any) -> None:
        if not answer.done():
            answer.set_result(value)
        elif hasattr(value, "close"):
            self.run_in_background(value.close)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
