"""Find the owner of each partition by asking the broker.

The broker chooses the owner among the consumers of a Failover subscription. It notifies the consumers, but
the client library does not pass the notification on. So Skybridge asks the administration for the owners
twice a second, once for each topic on behalf of all members. It also asks at once when a member joins, or
when a message arrives at a member that owns no partition. For a topic with no unfinished message and no
recent change it asks only every two seconds. That is safe: a member without messages cannot deliver after its
ownership has ended, and an arriving message triggers a check.

An owner therefore notices the end of its ownership up to ``ownership_check`` seconds late. The broker waits
one second before the next owner reads. If an answer takes longer, because the administration is slow or this
process was stopped, two owners may overlap until the lease ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from app.brokers.pulsar.admin import PulsarAdmin, ask_each
from app.brokers.pulsar.answers import PartitionStats
from app.brokers.pulsar.errors import translate
from app.brokers.pulsar.settings import PulsarSettings
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)


class OwnershipListener(Protocol):
    """A consumer that needs to know the owners of its partitions."""

    topics: Sequence[str]

    def busy(self, topic: str) -> bool:
        """Return True if the owners of the topic's partitions should be checked at once."""

    async def apply_ownership(
        self, topic: str, stats: Mapping[str, PartitionStats], asked: float
    ) -> bool:
        """Apply the owners that the broker reported. Return True if anything has changed.

        Args:
            topic: The topic.
            stats: Statistics by the full name of the partition.
            asked: When the broker was asked, in seconds of the monotonic clock.
        """

    async def check_connections(self) -> None:
        """Check the connections of the member. Called once in each round, even if the broker does not
        answer."""


class OwnershipChecker:
    """A task that asks for the owners of partitions on behalf of all members of one process."""

    def __init__(self, settings: PulsarSettings, admin: PulsarAdmin) -> None:
        self._settings = settings
        self._admin = admin
        self._members: list[OwnershipListener] = []
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._asked: dict[str, float] = {}  # last question about a topic, by the monotonic clock
        self._moving: dict[str, float] = {}  # until when a topic is asked about often

    def join(self, member: OwnershipListener) -> None:
        self._members.append(member)
        for topic in member.topics:
            self._expect_changes(topic)
        self.ask_soon()
        if self._task is None or self._task.done():
            self._task = keep("pulsar-owners", self._run, of=self._settings.name)

    async def leave(self, member: OwnershipListener) -> None:
        if member in self._members:
            self._members.remove(member)
        if not self._members:
            await self.stop()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def ask_soon(self) -> None:
        self._soon.set()

    async def _run(self) -> None:
        while True:
            self._soon.clear()
            await self._round()
            try:
                async with asyncio.timeout(self._settings.ownership_check):
                    await self._soon.wait()
            except TimeoutError:
                continue

    async def _round(self) -> None:
        for member in list(self._members):
            await member.check_connections()
        topics = {topic for member in self._members for topic in member.topics}
        await ask_each(self._ask, sorted(topic for topic in topics if self._is_due(topic)))

    def _is_due(self, topic: str) -> bool:
        now = time.monotonic()
        return (
            now >= self._asked.get(topic, 0.0) + self._settings.quiet_check
            or now < self._moving.get(topic, 0.0)
            or any(topic in each.topics and each.busy(topic) for each in self._members)
        )

    async def _ask(self, topic: str) -> None:
        self._asked[topic] = asked = time.monotonic()
        try:
            stats = await self._admin.stats(topic)
        except Exception as error:
            if translate(error, self._settings.name) is None:
                raise
            self._asked.pop(topic)
            return  # without an answer the leases expire
        for member in list(self._members):
            if topic in member.topics and await member.apply_ownership(topic, stats, asked):
                self._expect_changes(topic)

    def _expect_changes(self, topic: str) -> None:
        """Ask for the owners of the topic's partitions often for a while. Changes come in series, because
        members join one after the other."""
        self._moving[topic] = time.monotonic() + self._settings.lease
