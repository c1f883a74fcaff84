"""The commits of a group member. They follow soon after messages are settled, on request, and at least once a
day."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from app.brokers.kafka.ownership import OwnedPartitions
from app.brokers.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

AGAIN_AFTER = 24 * 3600.0  # seconds; Kafka deletes positions of a group after seven days by default
LOOK = 3600.0  # seconds between checks of the age of commits
PUT_OFF = 1.0  # seconds before a failed commit is retried


class CommitScheduler:
    """The scheduler of the commits of one group member.

    Args:
        consumer: The AIOKafkaConsumer of the member.
        group: The name of the group.
        settings: The time limits and intervals.
        owned: A function that returns the partitions that the member owns now.
        failed: Called with an unexpected error, so that commits do not stop unnoticed.
        monotonic: A clock in seconds.
    """

    def __init__(
        self,
        consumer: Any,
        group: str,
        settings: KafkaSettings,
        owned: Callable[[], OwnedPartitions],
        failed: Callable[[BaseException], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._group = group
        self._settings = settings
        self._owned = owned
        self._failed = failed
        self._monotonic = monotonic
        self._settled = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._commit_when_settled())

    async def stop(self, within: float) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=within)

    def soon(self) -> None:
        """Schedule a commit, because a message was settled."""
        self._settled.set()

    async def now(self) -> bool:
        """Commit the positions that must be committed, within a time limit. Return False if the commit failed
        and will be retried.

        A commit that the group rejects counts as done. The rejection means that the group rebalances:
        ``poll`` reports that, and uncommitted messages are read again.
        """
        async with self._lock:
            owned, now = self._owned(), self._monotonic()
            offsets = owned.due(before=now - AGAIN_AFTER)
            if not offsets:
                return True
            try:
                async with asyncio.timeout(self._settings.request_timeout):
                    await self._consumer.commit(offsets)
            except (CommitFailedError, IllegalStateError) as error:
                log.warning("group %s rejected a commit: %s", self._group, error)
            except (KafkaError, TimeoutError) as error:
                log.warning("group %s: a commit failed and will be retried: %r", self._group, error)
                self._settled.set()
                return False
            else:
                owned.committed(offsets, now)
            return True

    async def _commit_when_settled(self) -> None:
        """Commit after messages were settled, delayed so that one commit covers many messages.

        If no message is settled for long, as in a paused subscription, positions are committed again daily.
        Otherwise the cluster would delete these positions.
        """
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._settled.wait()
                self._settled.clear()
                await self._wait_until_idle_or_due()
                if not await self.now():
                    await asyncio.sleep(PUT_OFF)
        except Exception as error:  # noqa: BLE001 - the next poll raises it
            self._failed(error)

    async def _wait_until_idle_or_due(self) -> None:
        """Wait until no message is unfinished, at most one commit interval. The commit then shows the correct
        lag soon."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._settings.commit_interval
        while (left := due - loop.time()) > 0:
            await asyncio.sleep(min(self._settings.rest_interval, left))
            if not self._owned().open:
                return
