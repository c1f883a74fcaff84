"""The part of a group member that is the same for every broker.

The caller polls at its own pace. Changes of ownership are queued and returned by ``poll`` in their order,
before any messages. A revocation waits, within a time limit, until the caller's next poll shows that it has
handled the event.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable

from app.interfaces import Consumer
from app.model.message import Assigned, ConsumerEvent, Lost, Message, Partition, Revoked
from app.telemetry.light_event import AnyEvent, LightEvent

OwnershipChange = Assigned | Revoked | Lost


async def pause_for(event: AnyEvent, longest: float) -> bool:
    """Wait until ``event`` is set, or for ``longest`` seconds. Return True if the event is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest):
            await event.wait()
    return event.is_set()


def in_order(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return the partitions sorted by topic and number, as ownership events list them."""
    return tuple(sorted(partitions, key=lambda each: (each.topic, each.number)))


class GroupMember(Consumer, ABC):
    """A ``Consumer`` that queues ownership changes and failures, and reports them from ``poll``.

    The driver's subclass implements ``_batch``, which returns messages. It reports ownership changes with
    ``_enqueue`` or ``_revoke_and_wait``, and a fatal error with ``_fail``. It sets the event ``_news`` to
    wake a waiting poll.
    """

    def __init__(self) -> None:
        self._news = LightEvent()
        self._changes: list[OwnershipChange] = []  # few; an empty deque is ten times as large
        self._returned: OwnershipChange | None = (
            None  # returned by the last poll, not yet handled by the caller
        )
        self._revoking: Revoked | None = None
        # Set when the caller has handled ``_revoking``. None until the first revocation.
        self._handled: LightEvent | None = None
        self._failure: BaseException | None = None
        self._nudged = False
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    async def poll(self, wait: float) -> ConsumerEvent | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        self._mark_handled()
        while not self._closed:
            if self._changes:
                change = self._changes.pop(0)
                self._returned = change
                if isinstance(change, Assigned):  # the caller has forgotten what it paused before
                    self.resume(change.partitions)
                return change
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
        """Return the next messages of owned partitions that are not paused.

        Return an empty tuple if none is ready. The driver then sets ``_news`` when messages arrive.
        """

    def _on_handled(self, change: OwnershipChange) -> None:
        """Note that the caller has handled ``change``. Called when the caller polls for the next event."""

    def _enqueue(self, change: OwnershipChange) -> None:
        """Queue an ownership change for the next poll."""
        self._changes.append(change)
        self._news.set()

    def _fail(self, error: BaseException) -> None:
        """Make the next poll raise ``error``, once."""
        self._failure = error
        self._news.set()

    def _revoke(self, revoked: Revoked) -> LightEvent:
        """Queue a revocation. Return an event that is set when the caller has handled it."""
        self._revoking, self._handled = revoked, (handled := LightEvent())
        self._enqueue(revoked)
        if self._closed:
            handled.set()
        return handled

    async def _revoke_and_wait(self, revoked: Revoked, within: float) -> bool:
        """Queue a revocation and wait until the caller has handled it.

        Args:
            revoked: The revocation.
            within: The longest wait, in seconds.

        Returns:
            False if the time ran out first.
        """
        return await pause_for(self._revoke(revoked), within)

    def _end(self) -> None:
        """Close the member: end a waiting poll, and end the wait for a revocation."""
        self._closed = True
        self._news.set()
        if self._handled is not None:
            self._handled.set()

    def _mark_handled(self) -> None:
        """Mark the change that the last poll returned as handled."""
        returned, self._returned = self._returned, None
        if returned is None:
            return
        if returned is self._revoking and self._handled is not None:
            self._handled.set()
        self._on_handled(returned)
