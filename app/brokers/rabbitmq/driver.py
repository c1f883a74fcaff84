"""RabbitMQ behind the portable log: who does what."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from weakref import WeakSet

from msgspec import structs

from app.brokers.driver import Joining, Submission, quieten
from app.brokers.rabbitmq.admin import Admin
from app.brokers.rabbitmq.consumer import RabbitConsumer
from app.brokers.rabbitmq.errors import translate
from app.brokers.rabbitmq.producer import Producer
from app.brokers.rabbitmq.settings import MAX_RECORD, RabbitSettings
from app.brokers.rabbitmq.stream import StreamConsumer
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerError, BrokerRefused
from app.interfaces import Consumer, OffsetStore
from app.model.capabilities import Capabilities
from app.model.message import Message, Partition
from app.model.metadata import Health, LogMetadata
from app.model.start import StartAt

CAPABILITIES = Capabilities(
    replayable=False,
    partitions=True,
    seek_by_time=False,
    null_body=False,
    binary_keys=True,
    null_headers=True,
    repeated_headers=False,
    positions=False,
    own_groups=False,
    max_record=MAX_RECORD,
)


STREAM_CAPABILITIES = structs.replace(
    CAPABILITIES, replayable=True, own_groups=True, seek_by_time=True, time_grain=1_000
)


class RabbitDriver:
    """One cluster, its topics quorum queues or streams."""

    def __init__(self, settings: RabbitSettings, offsets: OffsetStore | None = None) -> None:
        """``offsets``: where the groups of streams are kept; without it streams are only read."""
        self.name = settings.name
        capabilities = STREAM_CAPABILITIES if settings.kind == "stream" else CAPABILITIES
        self.capabilities = structs.replace(capabilities, max_record=settings.max_record)
        self._offsets = offsets
        settings.urls()  # addresses and files are looked at before anything is connected
        settings.ssl_context()
        self._settings = settings
        self._topology = Topology(settings)
        self._producer = Producer(settings, self._topology)
        self._admin = Admin(settings, self._topology, self._unsettled, offsets)
        self._consumers: WeakSet[RabbitConsumer] = WeakSet()
        self._topics: dict[str, None] = {}  # in use here: AMQP lists none

    async def start(self) -> None:
        quieten("aiormq")
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    def publish(self, submission: Submission) -> None:
        self._producer.publish(submission)

    async def subscribe(self, joining: Joining) -> Consumer:
        self._refuse(joining.start)
        consumer = self._member(joining)
        await consumer.start()
        self._consumers.add(consumer)
        self._topics.update(dict.fromkeys(joining.topics))
        return consumer

    def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]:
        return self._admin.read(partition, start, until)

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        return await self._admin.position_at(partition, time_ms)

    async def position_back(self, partition: Partition, count: int) -> str:
        return await self._admin.position_back(partition, count)

    async def metadata(self, topics: Sequence[str] | None, groups: Sequence[str]) -> LogMetadata:
        known = [*self._topics, *self._producer.targets.known]
        asked = list(dict.fromkeys(known)) if topics is None else list(topics)
        return await self._admin.metadata(asked, groups)

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._admin.create_topic(topic, partitions)
        self._topics[topic] = None

    async def health(self) -> Health:
        return await self._producer.health()

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        return await self._admin.check_targets(topics)

    async def inspect(self, topics: Collection[str]) -> tuple[str, ...]:
        """Warnings of the queues of topics that are there, before anybody consumes them."""
        return await self._admin.inspect(topics)

    def warnings(self) -> tuple[str, ...]:
        """What a person should know though it works: queues of others that promise less."""
        return tuple(self._topology.declared.warnings.values())

    def translate(self, error: Exception) -> BrokerError | None:
        return translate(error, self.name)

    def _refuse(self, start: StartAt) -> None:
        """A queue has no past to begin in: what is in it is to be done, and what was done is gone."""
        if start.kind in {"time", "position"} and not self.capabilities.replayable:
            raise BrokerRefused(
                f"RabbitMQ {self.name} cannot start at a {start.kind}: use earliest or latest",
                kind="not-capable",
                broker=self.name,
            )

    def _member(self, joining: Joining) -> RabbitConsumer:
        settings, topology = self._settings, self._topology
        if settings.kind == "quorum":
            return RabbitConsumer(settings, topology, joining)
        if self._offsets is None:
            raise BrokerRefused(
                f"RabbitMQ {self.name} has no store for the offsets of streams",
                kind="not-capable",
                broker=self.name,
            )
        return StreamConsumer(settings, topology, joining, self._offsets)

    def _unsettled(self, group: str, partition: Partition) -> int:
        members = (each for each in self._consumers if each.group == group)
        return sum(member.unsettled(partition) for member in members)
