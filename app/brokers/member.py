"""One member of a group, at the pace of its caller: the half that is the same for every broker.

What changes behind its back becomes events of ``poll``, told in their order and before any messages. A
revocation waits, within a bound, until the next poll says that it was dealt with.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable

from app.interfaces import Consumer
from app.model.message import Assigned, ConsumerEvent, Lost, Message, Partition, Revoked

Change = Assigned | Revoked | Lost


async def pause_for(event: asyncio.Event, longest: float) -> bool:
    """Until the event, or for so many seconds. Whether it came."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest):
            await event.wait()
    return event.is_set()


def in_order(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """As an event names them."""
    return tuple(sorted(partitions, key=lambda each: (each.topic, each.number)))


class Member(Consumer, ABC):
    """A ``Consumer`` whose driver says what there is to hand out (``_batch``), tells what changes
    (``_tell``, ``_hand_over``) and why it ended (``_fail``), and sets ``_news`` for anything to look at."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._changes: deque[Change] = deque()
        self._told: Change | None = None  # by the last poll
        self._revoking: Revoked | None = None
        self._dealt = asyncio.Event()  # with ``_revoking``
        self._failure: BaseException | None = None
        self._nudged = False
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    async def poll(self, wait: float) -> ConsumerEvent | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        self._deal()
        while not self._closed:
            if self._changes:
                self._told = self._changes.popleft()
                return self._told
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            self._news.clear()
            if batch := await self._batch():
                return batch
            left = until - loop.time()
            if left <= 0 or self._nudged:
                break
            await pause_for(self._news, left)
        self._nudged = False
        return None

    def nudge(self) -> None:
        self._nudged = True
        self._news.set()

    @abstractmethod
    async def _batch(self) -> tuple[Message, ...]:
        """The next messages of what is ours and not paused; () where ``_news`` will tell of them."""

    def _dealt_with(self, change: Change) -> None:
        """A caller that asks for the next event has dealt with this one."""

    def _tell(self, change: Change) -> None:
        self._changes.append(change)
        self._news.set()

    def _fail(self, error: BaseException) -> None:
        """The next poll raises it, once."""
        self._failure = error
        self._news.set()

    def _revoke(self, revoked: Revoked) -> asyncio.Event:
        """Tell. The event is set when it is dealt with."""
        self._revoking, self._dealt = revoked, asyncio.Event()
        self._tell(revoked)
        if self._closed:
            self._dealt.set()
        return self._dealt

    async def _hand_over(self, revoked: Revoked, within: float) -> bool:
        """Tell, and wait until it is dealt with. False: it was not, in ``within`` seconds."""
        return await pause_for(self._revoke(revoked), within)

    def _end(self) -> None:
        """Nobody waits any longer."""
        self._closed = True
        self._news.set()
        self._dealt.set()

    def _deal(self) -> None:
        told, self._told = self._told, None
        if told is None:
            return
        if told is self._revoking:
            self._dealt.set()
        self._dealt_with(told)
