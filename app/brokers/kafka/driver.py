"""The Kafka driver: one object that combines publishing, reading and administration."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

from aiokafka import TopicPartition
from msgspec import structs

from app.brokers.aiokafka_adapter import demand_known_aiokafka
from app.brokers.driver import JoinRequest, Submission, quieten
from app.brokers.kafka.admin import KafkaAdmin
from app.brokers.kafka.consumer import KafkaConsumer
from app.brokers.kafka.errors import translate
from app.brokers.kafka.fetching import Fetcher
from app.brokers.kafka.heartbeats import Heartbeats
from app.brokers.kafka.membership import interval_of
from app.brokers.kafka.producer import KafkaPublisher
from app.brokers.kafka.questions import Offsets
from app.brokers.kafka.reader import read
from app.brokers.kafka.settings import MAX_RECORD, KafkaSettings
from app.brokers.kafka.shared_admin import SharedAdminClient
from app.brokers.kafka.shared_group import SharedGroup
from app.brokers.kafka.shared_starts import SharedStarts
from app.brokers.kafka.tail import PartitionTails
from app.errors import BrokerError, BrokerUnavailable, StoreUnavailable
from app.interfaces import Consumer, ProgressStore
from app.model.capabilities import Capabilities
from app.model.message import Message, Partition
from app.model.metadata import LogHealth, LogMetadata, ReadTopics

CAPABILITIES = Capabilities(
    replayable=True,
    partitions=True,
    seek_by_time=True,
    null_body=True,
    binary_keys=True,
    null_headers=True,
    max_record=MAX_RECORD,
    generations=True,
)


class KafkaDriver:
    """The ``Driver`` of one Kafka cluster."""

    def __init__(
        self,
        settings: KafkaSettings,
        refused: Callable[[int], None] = lambda _code: None,
        progress: ProgressStore | None = None,
    ) -> None:
        """Create the driver without connecting it. Raise SetupError if a TLS file cannot be used.

        Args:
            settings: How to reach the cluster, and the time limits.
            refused: Called with the code of each error that Kafka returns for a wire batch.
            progress: The positions of subscriptions that share a membership. Without it, each has a group of its own.
        """
        self.name = settings.name
        self.capabilities = structs.replace(CAPABILITIES, max_record=settings.max_record)
        settings.ssl_context()  # checks the TLS files before any connection
        self._settings = settings
        self._producer = KafkaPublisher(settings, refused)
        self._shared_client = SharedAdminClient(settings)
        self._admin = KafkaAdmin(settings, self._shared_client)
        self._tails = PartitionTails(settings)
        self._progress = progress
        self._starts = None if progress is None else SharedStarts(self.name, self._admin, progress)
        self._shared: dict[str, SharedGroup] = {}
        self._beats = Heartbeats(interval_of(settings), self._tails.beat)

    async def start(self) -> None:
        quieten("aiokafka")
        demand_known_aiokafka()
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()
        for shared in [*self._shared.values()]:
            await shared.stop()
        await self._tails.close()
        await self._shared_client.close()

    def publish(self, submission: Submission) -> None:
        self._producer.publish(submission)

    async def subscribe(self, joining: JoinRequest) -> Consumer:
        if self._starts is not None and joining.shared:
            return await self._shared_group(joining, self._starts).join(joining)
        if self._starts is not None:
            await self._starts.give_back(joining.group, joining.topics)
        consumer = KafkaConsumer(
            self._settings, joining, self._tails.of, self._tails.tidy, beats=self._beats
        )
        self._tails.add(consumer)
        await consumer.start()
        return consumer

    def _shared_group(self, joining: JoinRequest, starts: SharedStarts) -> SharedGroup:
        """Return the member of a shared group, which the first subscription creates."""
        known = self._shared.get(joining.shared)
        if known is not None and not known.closed:
            return known
        made = SharedGroup(
            *(self._settings, joining.shared, joining.topics[0], starts),
            *(self._tails.of, self._tails.tidy, self._beats),
        )
        self._shared[joining.shared] = made
        self._tails.add(made)
        return made

    async def forget(self, group: str) -> None:
        """Delete the positions of a deleted subscription that shared a membership."""
        if self._progress is not None:
            await self._progress.remove(self.name, [group])

    def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]:
        return read(self._admin, Fetcher(self._settings), partition, start, until)

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        return str(await self._admin.offset_at(partition, time_ms))

    async def position_back(self, partition: Partition, count: int) -> str:
        return str(await self._admin.offset_back(partition, count))

    async def metadata(self, topics: Sequence[str] | None, groups: ReadTopics) -> LogMetadata:
        return await self._admin.metadata(
            topics, groups, await self._shared_positions(list(groups))
        )

    async def _shared_positions(self, groups: Sequence[str]) -> Mapping[str, Offsets]:
        """Return the positions of those groups that share a membership."""
        if self._progress is None or not groups:
            return {}
        try:
            found = await self._progress.find(self.name, groups)
        except StoreUnavailable as error:
            raise BrokerUnavailable(f"positions are unknown: {error}", broker=self.name) from error
        return {
            group: {TopicPartition(at.topic, at.number): row.offset for at, row in rows.items()}
            for group, rows in found.items()
        }

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._admin.create_topic(topic, partitions)

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        return await self._admin.check_targets(topics)

    async def health(self) -> LogHealth:
        return await self._producer.health()

    def translate(self, error: Exception) -> BrokerError | None:
        return translate(error, self.name)
