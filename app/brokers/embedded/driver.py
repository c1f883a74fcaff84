"""The embedded log as a driver: the engine behind the interface that every broker has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

import apsw

from app.brokers.driver import Submission
from app.brokers.embedded.consumer import ConsumerSettings, EmbeddedConsumer
from app.brokers.embedded.starts import resolve, to_offset
from app.errors import BrokerError, BrokerUnavailable
from app.log.catalogue import PartitionLog
from app.log.coordinator import Coordinator
from app.log.engine import Engine
from app.log.positions import Committed, Declared
from app.log.settings import EngineSettings
from app.model.capabilities import Capabilities
from app.model.message import Message, Partition
from app.model.metadata import (
    GroupLag,
    Health,
    LogMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from app.model.start import StartAt

CAPABILITIES = Capabilities(
    replayable=True,
    partitions=True,
    seek_by_time=True,
    null_body=True,
    binary_keys=True,
    max_record=16 << 20,
)
NODE = 0  # the one that leads everything


class EmbeddedDriver:
    """Holds no policy. ``declare`` tells retention which groups' unread records to keep."""

    def __init__(self, settings: EngineSettings, consumers: ConsumerSettings) -> None:
        self.name = settings.name
        self.capabilities = CAPABILITIES
        self.engine = Engine(settings)
        self._settings = consumers
        self._coordinator: Coordinator | None = None
        self._consumers: list[EmbeddedConsumer] = []

    async def start(self) -> None:
        await self.engine.start()
        self._coordinator = Coordinator(self.engine)

    async def stop(self) -> None:
        if self._coordinator is None:
            return
        for consumer in self._consumers:
            await consumer.close()
        self._consumers.clear()
        self._coordinator.close()
        self._coordinator = None
        await self.engine.stop()

    def publish(self, submission: Submission) -> None:
        self.engine.append(submission)

    async def subscribe(
        self, group: str, topics: Sequence[str], start: StartAt, client_id: str
    ) -> EmbeddedConsumer:
        coordinator = self._running()
        await self._begin(group, topics, start)
        consumer = EmbeddedConsumer(
            self.engine,
            coordinator,
            group=group,
            topics=topics,
            client_id=client_id,
            settings=self._settings,
        )
        self._consumers = [known for known in self._consumers if not known.closed]
        self._consumers.append(consumer)
        consumer.start()
        return consumer

    async def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncIterator[Message]:
        log = self.engine.partition(partition)
        offset = to_offset(start, log)
        end = log.next_offset if until is None else min(to_offset(until, log), log.next_offset)
        log.check(offset)
        while offset < end:
            page = await self.engine.page(partition, offset, until=end)
            for message in page.messages:
                yield message
            offset = page.next_offset

    async def metadata(self, topics: Sequence[str] | None, groups: Sequence[str]) -> LogMetadata:
        self._running()
        known = self.engine.topics()
        names = sorted(known) if topics is None else [name for name in topics if name in known]
        return LogMetadata(
            broker=self.name,
            topics=tuple(
                TopicMetadata(name, tuple(map(_ends, known[name].partitions))) for name in names
            ),
            groups=tuple(lag for group in groups for lag in self._lags(group, topics)),
        )

    async def create_topic(self, topic: str, partitions: int) -> None:
        self._running()
        await self.engine.create_topic(topic, partitions)

    async def declare(self, declared: Sequence[Declared]) -> None:
        """All groups whose unread records retention must keep; others are declared no more."""
        await self.engine.declare(declared, whole=True)

    async def health(self) -> Health:
        return self.engine.health()

    def explain(self, error: Exception) -> BrokerError | None:
        if isinstance(error, apsw.Error):
            return BrokerUnavailable(f"the log's file: {error}", broker=self.name)
        return None

    async def _begin(self, group: str, topics: Sequence[str], start: StartAt) -> None:
        """Topics that are missing come to be; a group without a position gets one (rule 10)."""
        for topic in topics:
            await self.engine.create_topic(topic)
        undeclared = [t for t in topics if not self.engine.positions.declares(group, t)]
        if undeclared:
            await self.engine.declare([Declared(group, tuple(undeclared))])
        known = self.engine.positions.of(group)
        begun = {place.topic for place in known}
        starts: dict[Partition, Committed] = {}
        for topic in topics:
            for log in self.engine.topics()[topic].partitions:
                if log.place in known:
                    continue
                offset = log.earliest if topic in begun else await resolve(self.engine, log, start)
                starts[log.place] = Committed(offset)
        if starts:
            await self.engine.begin(group, starts)

    def _lags(self, group: str, topics: Sequence[str] | None) -> Iterator[GroupLag]:
        for place, committed in sorted(
            self.engine.positions.of(group).items(),
            key=lambda item: (item[0].topic, item[0].number),
        ):
            if topics is None or place.topic in topics:
                lag = self.engine.partition(place).next_offset - committed.offset
                yield GroupLag(group, place.topic, place.number, str(committed.offset), max(0, lag))

    def _running(self) -> Coordinator:
        if self._coordinator is None:
            raise BrokerUnavailable(f"log {self.name} is not running", broker=self.name)
        return self._coordinator


def _ends(log: PartitionLog) -> PartitionMetadata:
    return PartitionMetadata(
        number=log.number,
        leader=NODE,
        replicas=(NODE,),
        isr=(NODE,),
        earliest=str(log.earliest),
        latest=str(log.next_offset),
    )
