"""Which topics there are: asked once, then kept fresh by the client's own metadata.

Only topics in use are in it: aiokafka gets slow with thousands of them (reliability 5.1, #943).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka.errors import KafkaError

from app.brokers.asking import Asking, Made, unknown_topic
from app.brokers.kafka.admin import Admin
from app.brokers.kafka.batcher import Topic
from app.brokers.kafka.connection import Connection
from app.brokers.kafka.errors import translate
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.portable import Submission
from app.errors import BrokerError, BrokerUnavailable

ASK_AGAIN, ASK_AGAIN_LONGEST = 0.02, 1.0


class Topics(Asking[Topic]):
    """Finds topics, makes them where the settings say so, and remembers refusals for a moment."""

    def __init__(
        self,
        settings: KafkaSettings,
        join: Callable[[Topic, Submission], None],
        deleted: Callable[[Topic], None] = lambda _topic: None,
    ) -> None:
        """``join`` gets the submissions that waited for their topic to be found, ``deleted`` a topic that is no
        longer there."""
        super().__init__(settings.name, self._find, join, translate)
        self.known: dict[str, Topic] = {}
        self.connection: Connection | None = None
        self._deleted = deleted
        self._settings = settings
        self._admin = Admin(settings)
        self._made = Made(settings.name)

    def refuse(self, name: str, error: BrokerError) -> None:
        """Do not bother the broker with this topic for a moment."""
        super().refuse(name, error)
        self._forget(name, error)

    def _forget(self, name: str, error: BrokerError) -> None:
        topic = self.known.pop(name, None)
        for lane in topic.lanes if topic else ():
            lane.give_up(error)

    def refresh(self, cluster: Any) -> None:
        """Fresh metadata: partitions may have been added, topics deleted."""
        for name, topic in list(self.known.items()):
            partitions = cluster.partitions_for_topic(name)
            if partitions is None:
                gone = BrokerUnavailable(f"topic {name} was deleted", broker=self._settings.name)
                self._forget(name, gone)  # the next publisher asks, and is told for certain
                self._deleted(topic)
            elif len(partitions) < len(topic.lanes):
                words = f"topic {name} was made again, with {len(partitions)} partitions"
                self._forget(name, BrokerUnavailable(words, broker=self._settings.name))
                self._deleted(topic)
            elif len(partitions) > len(topic.lanes):
                topic.grow(len(partitions))

    async def _find(self, name: str) -> Topic:
        async with asyncio.timeout(self._settings.request_timeout):
            partitions = await self._partitions(name)
        topic = self.known[name] = Topic(name, partitions)
        return topic

    async def _partitions(self, name: str) -> int:
        """How many there are. A topic just made has no leaders for a moment."""
        created = False
        delay = ASK_AGAIN
        while True:
            try:
                found = await self.connection.partitions(name) if self.connection else 0
            except KafkaError as error:
                if not error.retriable:
                    raise
                found = 0
            if found:
                return found
            if found is None and not created:
                if not self._settings.create_topics:
                    raise unknown_topic("Kafka", self._settings.name, f"topic {name}")
                with self._made.making(name):
                    await self._admin.create_topic(name, self._settings.partitions)
                created = True
            await asyncio.sleep(delay)
            delay = min(delay * 2, ASK_AGAIN_LONGEST)
