"""The owner of each partition, as the broker says.

The broker chooses the owner among the consumers of a Failover subscription and tells each of them,
but the client library hands that news to nobody. So the administration is asked, twice a second, once
a topic for all members; and at once when a member joins, or a message arrives at one that owns
nothing. A topic where nothing is open or changing is asked for every two seconds only: a member that has
nothing to deliver cannot deliver beside a new owner, and a message that arrives is itself news.
What follows from that: an owner learns of its loss up to ``ownership_check`` late, within
the second that the broker lets pass before the next owner reads; beyond that second (the
administration is slow, or we were stopped) two owners may overlap, until the lease is over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from app.brokers.pulsar.admin import Admin, ask_each
from app.brokers.pulsar.answers import PartitionStats
from app.brokers.pulsar.errors import translate
from app.brokers.pulsar.settings import PulsarSettings
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)


class Member(Protocol):
    """A consumer, as the one who asks sees it."""

    topics: Sequence[str]

    def busy(self, topic: str) -> bool:
        """Whether it matters at once who owns what of a topic."""

    async def told(self, topic: str, stats: Mapping[str, PartitionStats], asked: float) -> bool:
        """What the broker said of a topic to a question that left at ``asked``, monotonic. Whether it
        is news."""

    async def look(self) -> None:
        """Once a round, whether anybody answers or not."""


class Owners:
    """Asks for all members of one process."""

    def __init__(self, settings: PulsarSettings, admin: Admin) -> None:
        self._settings = settings
        self._admin = admin
        self._members: list[Member] = []
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._asked: dict[str, float] = {}  # when a topic was asked for, monotonic
        self._moving: dict[str, float] = {}  # until when a topic may change further

    def join(self, member: Member) -> None:
        self._members.append(member)
        for topic in member.topics:
            self._news(topic)
        self.ask_soon()
        if self._task is None or self._task.done():
            self._task = keep("pulsar-owners", self._run, of=self._settings.name)

    async def leave(self, member: Member) -> None:
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
            await member.look()
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
            return  # nobody knows: leases run out by themselves
        for member in list(self._members):
            if topic in member.topics and await member.told(topic, stats, asked):
                self._news(topic)

    def _news(self, topic: str) -> None:
        """One change seldom comes alone: members join one after the other."""
        self._moving[topic] = time.monotonic() + self._settings.lease
