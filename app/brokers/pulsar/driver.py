"""The Pulsar driver: one object that combines publishing, reading and administration."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence

from msgspec import structs

from app.brokers.driver import JoinRequest, Submission
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.catalogue import describe, position_at, position_back
from app.brokers.pulsar.connection import PulsarConnection
from app.brokers.pulsar.consumer import PulsarConsumer
from app.brokers.pulsar.errors import translate
from app.brokers.pulsar.ownership import OwnershipChecker
from app.brokers.pulsar.producer import PulsarPublisher
from app.brokers.pulsar.reader import read
from app.brokers.pulsar.settings import MAX_RECORD, PulsarSettings
from app.errors import BrokerError, BrokerUnavailable
from app.interfaces import Consumer
from app.model.capabilities import Capabilities
from app.model.message import Message, Partition
from app.model.metadata import LogHealth, LogMetadata, ReadTopics

CAPABILITIES = Capabilities(
    replayable=True,  # if the topic has a retention
    partitions=True,
    seek_by_time=True,
    null_body=True,
    binary_keys=True,
    null_headers=False,
    repeated_headers=False,
    binary_headers=False,
    max_record=MAX_RECORD,
)


class PulsarDriver:
    """The ``Driver`` of one Pulsar cluster.

    One client publishes, and another client consumes and reads. So consumers are not disturbed when the
    publishing client is replaced, which is necessary after an outage.
    """

    def __init__(self, settings: PulsarSettings) -> None:
        self.name = settings.name
        self.capabilities = structs.replace(CAPABILITIES, max_record=settings.max_record)
        settings.check_files()
        self._settings = settings
        self._admin = PulsarAdmin(settings)
        self._producer = PulsarPublisher(settings, self._admin)
        self._owners = OwnershipChecker(settings, self._admin)
        self._consuming: PulsarConnection | None = None
        self._running = False

    async def start(self) -> None:
        self._running = True
        await self._producer.start()

    async def stop(self) -> None:
        if not self._running:
            return
        self._running = False
        await self._producer.stop()
        await self._owners.stop()
        if self._consuming is not None:
            await self._consuming.close()
            self._consuming = None
        await self._admin.stop()

    def publish(self, submission: Submission) -> None:
        self._producer.publish(submission)

    async def subscribe(self, joining: JoinRequest) -> Consumer:
        consumer = PulsarConsumer(
            self._settings, self._admin, self._connection(), self._owners, joining
        )
        await consumer.start()
        return consumer

    def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]:
        return read(self._admin, self._connection(), partition, start, until)

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        return await position_at(self._admin, partition, time_ms)

    async def position_back(self, partition: Partition, count: int) -> str:
        return await position_back(self._admin, partition, count)

    async def metadata(self, topics: Sequence[str] | None, groups: ReadTopics) -> LogMetadata:
        return await describe(self._admin, self.name, topics, groups)

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._admin.create_topic(topic, partitions)

    async def health(self) -> LogHealth:
        """Return the health of the cluster. Brokers and the administration are asked, so that an idle
        publisher notices outages.

        The cluster is also unhealthy if a topic in use would not keep published events.
        """
        health = self._producer.health()
        if not health.healthy:
            return health
        await self._admin.probe()
        wire = self._producer.connected_to()
        if wire is not None:
            await self._producer.probe(wire)
        for topic in list(self._producer.topics.known):
            if not await self._admin.retains(topic):
                return LogHealth(healthy=False, cause=self.nothing_retains(topic))
        return health

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the topics that do not exist or would keep no event, each with the reason. The reason is for
        an operator."""
        found = {topic: await self._unfit(topic) for topic in topics}
        return {topic: why for topic, why in found.items() if why}

    async def _unfit(self, topic: str) -> str:
        if await self._admin.wires_if_there(topic):
            return await self.why_not_retained(topic)
        return "" if self._settings.create_topics else "there is no such topic, and none is created"

    async def why_not_retained(self, topic: str) -> str:
        """Return the reason why the topic would not keep a published event, or an empty text."""
        return "" if await self._admin.retains(topic) else self.nothing_retains(topic)

    def nothing_retains(self, topic: str) -> str:
        return (
            f"nothing would retain the messages of {topic} of Pulsar {self.name}: it has neither"
            " a subscription nor a retention (create one, or set-retention on its namespace)"
        )

    def translate(self, error: Exception) -> BrokerError | None:
        return translate(error, self.name)

    def _connection(self) -> PulsarConnection:
        if not self._running:
            raise BrokerUnavailable(f"log {self.name} is not running", broker=self.name)
        if self._consuming is None:
            self._consuming = PulsarConnection(self._settings)
        return self._consuming
