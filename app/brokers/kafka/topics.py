"""The topics that the publisher uses. Each topic is looked up once. Afterwards the client's metadata keep it
up to date.

The client has metadata only of topics in use, because aiokafka gets slow with thousands of topics (its issue
943).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka.errors import KafkaError

from app.brokers.kafka.admin import KafkaAdmin
from app.brokers.kafka.batcher import TopicBatchers
from app.brokers.kafka.connection import ProducerConnection
from app.brokers.kafka.errors import translate
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.portable import Submission
from app.brokers.topic_resolver import CreatedTopics, TopicResolver, unknown_topic
from app.errors import BrokerError, BrokerUnavailable

ASK_AGAIN, ASK_AGAIN_LONGEST = 0.02, 1.0


class KnownTopics(TopicResolver[TopicBatchers]):
    """The topics of one cluster that the publisher has looked up.

    A new topic is looked up, and created if the settings allow it. After a failed look-up it is rejected for
    a moment.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        join: Callable[[TopicBatchers, Submission], None],
    ) -> None:
        """Start without any topics. No request is made.

        Args:
            settings: The settings with which to reach the cluster, and whether topics are created.
            join: A function that publishes a submission to a topic that was found.
        """
        super().__init__(settings.name, self._find, join, translate)
        self.known: dict[str, TopicBatchers] = {}
        self.connection: ProducerConnection | None = None
        self._lacking: set[str] = set()  # topics that the newest metadata lacked
        self._settings = settings
        self._admin = KafkaAdmin(settings)
        self._made = CreatedTopics(settings.name)

    def refuse(self, name: str, error: BrokerError) -> None:
        """Fail the waiting submissions of a topic, and new ones for the next two seconds. Forget the topic."""
        super().refuse(name, error)
        self._forget(name, error)

    def _forget(self, name: str, error: BrokerError) -> None:
        topic = self.known.pop(name, None)
        if topic is not None:
            topic.end(error)
            if self.connection is not None:
                self.connection.sequences.forget(*topic.batchers)

    def refresh(self, cluster: Any) -> None:
        """Apply new metadata of the cluster. Partitions may have been added, and topics deleted.

        A topic is deleted if two answers in a row lack it. A node that has just started, or a topic whose state is not
        known for a moment, may lack it once.
        """
        lacking, self._lacking = self._lacking, set()
        for name, topic in list(self.known.items()):
            partitions = cluster.partitions_for_topic(name)
            if partitions is None and name not in lacking:
                self._lacking.add(name)
            elif partitions is None:
                gone = BrokerUnavailable(f"topic {name} was deleted", broker=self._settings.name)
                self._forget(name, gone)  # the next submission looks the topic up again
            elif len(partitions) < len(topic.batchers):
                message = f"topic {name} was created again, with {len(partitions)} partitions"
                self._forget(name, BrokerUnavailable(message, broker=self._settings.name))
            elif len(partitions) > len(topic.batchers):
                topic.grow(len(partitions))

    async def _find(self, name: str) -> TopicBatchers:
        async with asyncio.timeout(self._settings.request_timeout):
            partitions = await self._partitions(name)
        topic = self.known[name] = TopicBatchers(name, partitions)
        return topic

    async def _partitions(self, name: str) -> int:
        """Return the number of partitions of a topic. Wait if the topic was just created and has no leaders
        for a moment."""
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
