"""The other processes of ``server.workers``: each builds what the first one read, and only then all swap."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os

from app.errors import SetupError, SkybridgeError
from app.runtime.processes.child import Child
from app.runtime.processes.crew import Crew
from app.runtime.processes.messages import Built, Message, Offered, Swap, Swapped
from app.runtime.processes.pipe import UNSENT

AGREED_WITHIN = 10.0  # seconds
LARGEST = UNSENT // 2  # bytes of a file that is handed on


_log = logging.getLogger("skybridge.reload")


class Fleet:
    """Fills ``reloader.Others``, in process 1. What dies meanwhile is replaced by one that begins with what
    the parent knows was swapped last; what started meanwhile with the old one and was not asked is told
    to swap to what it does not have, and makes room for another."""

    def __init__(self, child: Child, crew: Crew) -> None:
        self._child = child
        self._crew = crew
        self._numbers = itertools.count(os.getpid() << 32)  # no answer to one before us is ours
        self._number = 0
        self._waiting: set[int] = set()
        self._faults: list[str] = []
        self._all = asyncio.Event()

    async def build(self, raw: bytes | None) -> None:
        raw = raw or b""
        if len(raw) > LARGEST:
            raise SetupError(
                f"a file beyond {LARGEST} bytes is not handed on to other processes",
                setting="server.workers",
                cure="start the service anew with it",
            )
        self._number = next(self._numbers)
        self._ask(Offered(self._number, raw))
        await self._answers("build what the file says")
        if self._faults:
            raise SkybridgeError("; ".join(self._faults))

    async def swap(self) -> None:
        self._ask(Swap(self._number))
        await self._answers("swap")
        for fault in self._faults:
            _log.warning("%s", fault)

    def take(self, message: Message) -> None:
        """Whatever comes: one that died is waited for no longer."""
        if isinstance(message, Built | Swapped) and message.id == self._number:
            if isinstance(message, Built) and message.fault:
                self._faults.append(f"process {message.number}: {message.fault}")
            self._waiting.discard(message.number)
        if not self._waiting & self._present():
            self._all.set()

    def _ask(self, message: Message) -> None:
        self._waiting, self._faults = self._present(), []
        self._all.clear()
        if not self._waiting:
            self._all.set()
        self._child.pipe.send(message)

    async def _answers(self, what: str) -> None:
        """Of those that are there. One that dies is waited for no more than the bound."""
        try:
            await asyncio.wait_for(self._all.wait(), AGREED_WITHIN)
        except TimeoutError:
            for number in sorted(self._waiting & self._present()):
                self._faults.append(f"process {number} did not {what} within {AGREED_WITHIN:g} s")

    def _present(self) -> set[int]:
        return self._crew.others_up()
