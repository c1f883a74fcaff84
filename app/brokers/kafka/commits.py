"""When a member commits what is settled: after a moment, on demand, and once a day in any case."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from app.brokers.kafka.ownership import Owned
from app.brokers.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

AGAIN_AFTER = 24 * 3600.0  # seconds; the cluster keeps positions for seven days by default
LOOK = 3600.0  # seconds between looks at their age
PUT_OFF = 1.0  # seconds, after a commit that failed


class Commits:
    """Of one member. ``owned``: what it holds now. ``failed`` is told of a bug, which must not end
    commits unseen."""

    def __init__(
        self,
        consumer: Any,
        group: str,
        settings: KafkaSettings,
        owned: Callable[[], Owned],
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
        self._task = asyncio.create_task(self._as_settled())

    async def stop(self, within: float) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=within)

    def soon(self) -> None:
        """Something was settled."""
        self._settled.set()

    async def now(self) -> bool:
        """Bounded. False: the cluster did not take it. A commit that the group refuses means that a rebalance is
        under way or was: the events of ``poll`` tell, and what is not committed is read again
        (reliability 5.1)."""
        async with self._lock:
            owned, now = self._owned(), self._monotonic()
            offsets = owned.due(before=now - AGAIN_AFTER)
            if not offsets:
                return True
            try:
                async with asyncio.timeout(self._settings.request_timeout):
                    await self._consumer.commit(offsets)
            except (CommitFailedError, IllegalStateError) as error:
                log.warning("group %s refused a commit: %s", self._group, error)
            except (KafkaError, TimeoutError) as error:
                log.warning(
                    "a commit of group %s failed and will be retried: %r", self._group, error
                )
                self._settled.set()
                return False
            else:
                owned.committed(offsets, now)
            return True

    async def _as_settled(self) -> None:
        """Deferred, so that one commit covers many settled messages. Where nothing is settled for long, as while
        all is paused, what is held is written again once a day, before the cluster forgets it (rule 10)."""
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._settled.wait()
                self._settled.clear()
                await self._at_rest_or_due()
                if not await self.now():
                    await asyncio.sleep(PUT_OFF)
        except Exception as error:  # noqa: BLE001 - the next poll raises it
            self._failed(error)

    async def _at_rest_or_due(self) -> None:
        """Until nothing is open, so that the lag that operators see is soon true; at most a commit interval."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._settings.commit_interval
        while (left := due - loop.time()) > 0:
            await asyncio.sleep(min(self._settings.rest_interval, left))
            if not self._owned().open:
                return
