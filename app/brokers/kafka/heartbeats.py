"""Heartbeats of all members that a process has in a cluster: one timer, and one connection a node.

A hundred members beat a hundred times in six seconds. Each with a timer and a connection of its own was most of what
they cost at rest: every beat woke the process twice. Here those that are due at about the same time leave together,
in one write. A group does not mind which connection a beat comes from; one that fails there goes on the member's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka.protocol.group import JoinGroupRequest

TOGETHER = 1.0  # seconds that a beat may leave early, to go along with others
AGAIN_AFTER = 0.1  # seconds, after one that failed

Send = Callable[[int, Any], Awaitable[Any]]
"""A request to a node, by its number, and its answer."""


class Turns:
    """Sleeps that end together. No timer runs while nobody sleeps."""

    def __init__(self, together: float = TOGETHER) -> None:
        self._together = together
        self._sleeping: dict[asyncio.Future[None], float] = {}  # until when
        self._timer: asyncio.TimerHandle | None = None

    async def turn(self, wait: float) -> None:
        """Returns after ``wait`` seconds, or a little sooner."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._sleeping[mine] = due = loop.time() + wait
        if self._timer is None or due < self._timer.when():
            self._set(due)
        try:
            await mine
        finally:
            self._sleeping.pop(mine, None)
            if not self._sleeping and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _set(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._wake)

    def _wake(self) -> None:
        self._timer = None
        soon = asyncio.get_running_loop().time() + self._together
        for each in [each for each, due in self._sleeping.items() if due <= soon]:
            del self._sleeping[each]
            if not each.done():
                each.set_result(None)
        if self._sleeping:
            self._set(min(self._sleeping.values()))


class Heartbeats:
    """``interval`` between the beats of a member. ``send``: on the connection that all share."""

    def __init__(self, interval: float, session_timeout: float, send: Send) -> None:
        self.send = send
        self._interval = interval
        self._session_timeout = session_timeout
        self._turns = Turns(min(TOGETHER, interval / 4))

    async def keep(self, coordinator: Any) -> None:
        """In place of aiokafka's own routine, whose task ends when it is cancelled and raises what the group refuses
        for good. Until the group has thrown the member out."""
        answered = time.monotonic()
        while coordinator.member_id != JoinGroupRequest.UNKNOWN_MEMBER_ID:
            try:
                await self._turns.turn(self._interval)
                while not await self._beat(coordinator):
                    if time.monotonic() - answered > self._session_timeout:
                        coordinator.coordinator_dead()
                    if coordinator.member_id == JoinGroupRequest.UNKNOWN_MEMBER_ID:
                        return
                    await asyncio.sleep(AGAIN_AFTER)
            except asyncio.CancelledError:
                return
            answered = time.monotonic()

    async def _beat(self, coordinator: Any) -> bool:
        await coordinator.ensure_coordinator_known()
        answered: bool = await coordinator._do_heartbeat()  # noqa: SLF001
        return answered
