"""The RabbitMQ driver: one object that combines publishing, reading and administration."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from weakref import WeakSet

from msgspec import structs

from app.brokers.driver import JoinRequest, Submission, quieten
from app.brokers.rabbitmq.admin import RabbitAdmin
from app.brokers.rabbitmq.consumer import RabbitConsumer
from app.brokers.rabbitmq.errors import translate
from app.brokers.rabbitmq.producer import RabbitPublisher
from app.brokers.rabbitmq.settings import MAX_RECORD, RabbitSettings
from app.brokers.rabbitmq.stream import StreamConsumer
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerError, BrokerRefused
from app.interfaces import Consumer, OffsetStore
from app.model.capabilities import Capabilities
from app.model.message import Message, Partition
from app.model.metadata import LogHealth, LogMetadata, ReadTopics
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
    """The ``Driver`` of one RabbitMQ cluster, whose topics are quorum queues or streams."""

    def __init__(self, settings: RabbitSettings, offsets: OffsetStore | None = None) -> None:
        """Create the driver without connecting it. Raise SetupError for a wrong address or TLS file.

        ``offsets`` stores the positions of groups in streams. Without it, streams can be read but not
        consumed in a group.
        """
        self.name = settings.name
        capabilities = STREAM_CAPABILITIES if settings.kind == "stream" else CAPABILITIES
        self.capabilities = structs.replace(capabilities, max_record=settings.max_record)
        self._offsets = offsets
        settings.urls()  # checks the addresses before any connection
        settings.ssl_context()
        self._settings = settings
        self._topology = Topology(settings)
        self._producer = RabbitPublisher(settings, self._topology)
        self._admin = RabbitAdmin(settings, self._topology, self._unsettled, offsets)
        self._consumers: WeakSet[RabbitConsumer] = WeakSet()
        self._topics: dict[str, None] = {}  # topics in use here, because AMQP cannot list topics

    async def start(self) -> None:
        quieten("aiormq")
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    def publish(self, submission: Submission) -> None:
        self._producer.publish(submission)

    async def subscribe(self, joining: JoinRequest) -> Consumer:
        self._check_start(joining.start)
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

    async def metadata(self, topics: Sequence[str] | None, groups: ReadTopics) -> LogMetadata:
        known = [*self._topics, *self._producer.targets.known]
        asked = list(dict.fromkeys(known)) if topics is None else list(topics)
        return await self._admin.metadata(asked, groups)

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._admin.create_topic(topic, partitions)
        self._topics[topic] = None

    async def health(self) -> LogHealth:
        return await self._producer.health()

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        return await self._admin.check_targets(topics)

    async def inspect(self, topics: Collection[str]) -> tuple[str, ...]:
        """Return warnings about the existing queues of these topics, before a member consumes them."""
        return await self._admin.inspect(topics)

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about queues that other clients declared with weaker guarantees."""
        return tuple(self._topology.declared.warnings.values())

    def translate(self, error: Exception) -> BrokerError | None:
        return translate(error, self.name)

    def _check_start(self, start: StartAt) -> None:
        """Raise BrokerRefused if a queue cannot begin at ``start``. A queue holds unfinished messages only."""
        if start.kind in {"time", "position"} and not self.capabilities.replayable:
            raise BrokerRefused(
                f"RabbitMQ {self.name} cannot start at a {start.kind}: use earliest or latest",
                kind="not-capable",
                broker=self.name,
            )

    def _member(self, joining: JoinRequest) -> RabbitConsumer:
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
