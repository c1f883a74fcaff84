"""The driver of the embedded log, which gives its engine the interface of all brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence

import apsw

from app.brokers.driver import JoinRequest, Submission
from app.brokers.embedded.commit_rounds import CommitRounds
from app.brokers.embedded.consumer import ConsumerSettings, EmbeddedConsumer, MemberContext
from app.brokers.embedded.tail import LogTail
from app.brokers.positions import checked_offset, offset_of
from app.errors import BrokerError, BrokerUnavailable
from app.interfaces import Located
from app.log.engine import LogEngine
from app.log.event_index import MOST, EventSearch
from app.log.groups.membership import HeartbeatTimer
from app.log.groups.positions import CommittedOffset, DeclaredGroup
from app.log.partitions import PartitionLog, is_topic_name
from app.log.settings import EngineSettings
from app.model.capabilities import EMBEDDED_RECORD, Capabilities
from app.model.message import Message, Partition
from app.model.metadata import (
    GroupLag,
    LogHealth,
    LogMetadata,
    PartitionMetadata,
    ReadTopics,
    TopicMetadata,
)
from app.model.start import StartAt

CAPABILITIES = Capabilities(
    replayable=True,
    partitions=True,
    seek_by_time=True,
    null_body=True,
    binary_keys=True,
    max_record=EMBEDDED_RECORD,
    generations=True,
    remembers=True,
)
SEARCH = 2.0  # seconds for a search in segments without an index of events
_GROUPS_AT_ONCE = 32  # groups whose positions are read before the event loop gets a turn
NODE = 0  # the number of the only node


class EmbeddedDriver:
    """The ``Driver`` of one embedded log. It holds no policy.

    ``declare`` sets the groups whose unread records retention must keep.
    """

    def __init__(self, settings: EngineSettings, consumers: ConsumerSettings) -> None:
        self.name = settings.name
        self.capabilities = CAPABILITIES
        self.engine = LogEngine(settings)
        self._settings = consumers
        self._shared: MemberContext | None = None
        self._consumers: dict[str, list[EmbeddedConsumer]] = {}  # by group
        self._tails: dict[Partition, LogTail] = {}

    async def start(self) -> None:
        await self.engine.start()
        self._shared = MemberContext(
            self.engine,
            self._settings,
            self._tail,
            HeartbeatTimer(self._settings.times.heartbeat_interval),
            CommitRounds(self._settings.commit_interval, self.engine.groups.commit_all),
        )
        self.engine.on_round = self._shared.commits.piggyback

    async def stop(self) -> None:
        if self._shared is None:
            return
        for consumers in self._consumers.values():
            for consumer in consumers:
                await consumer.close()
        self._consumers.clear()
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()
        self._shared.commits.close()
        self._shared = None
        await self.engine.stop()

    def publish(self, submission: Submission) -> None:
        self.engine.append(submission)

    async def subscribe(self, joining: JoinRequest) -> EmbeddedConsumer:
        shared = self._running()
        await self._begin(joining.group, joining.topics, joining.start)
        consumer = EmbeddedConsumer(shared, joining)
        self._consumers[joining.group] = [consumer, *self._members(joining.group)]
        consumer.start()
        return consumer

    async def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]:
        log = self.engine.partition(partition)
        offset = checked_offset(partition, start, log.earliest, log.next_offset)
        end = log.next_offset if until is None else min(offset_of(until), log.next_offset)
        while offset < end:
            page = await self.engine.page(partition, offset, until=end)
            for message in page.messages:
                yield message
            offset = page.next_offset

    async def locate(self, event_id: str, source: str | None, since_ms: int) -> Located:
        self._running()
        hits = await self.engine.find(EventSearch(event_id, source, since_ms, SEARCH))
        places = tuple((place, str(offset)) for place, offset in hits.places)
        missed = ""
        if hits.unread:
            missed = (
                f"{len(hits.unread)} segments of the log have no index of events and were not read in "
                f"{SEARCH:g} s: they are older than brokers.{self.name}.find.keep, or it was 0. Search from a "
                "later time with since"
            )
        elif hits.crowded:
            missed = f"more than {MOST} records may be this event: name its source"
        return Located(places, missed)

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        return str(await self.engine.offset_at(partition, time_ms))

    async def position_back(self, partition: Partition, count: int) -> str:
        log = self.engine.partition(partition)
        return str(max(log.earliest, log.next_offset - count))

    async def metadata(self, topics: Sequence[str] | None, groups: ReadTopics) -> LogMetadata:
        self._running()
        known = self.engine.topics()
        names = sorted(known) if topics is None else [name for name in topics if name in known]
        return LogMetadata(
            broker=self.name,
            topics=tuple(
                TopicMetadata(name, tuple(map(_ends, known[name].partitions))) for name in names
            ),
            groups=await self._lags_of(groups, topics),
        )

    async def create_topic(self, topic: str, partitions: int) -> None:
        self._running()
        await self.engine.create_topic(topic, partitions)

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the topics whose names are invalid, with the reason. Any other topic is created by its
        first event.

        ``health`` reports other causes why the log cannot take events.
        """
        self._running()
        return {
            topic: f"{topic[:80]!r} is not a valid topic name"
            for topic in topics
            if not is_topic_name(topic)
        }

    async def declare(self, declared: Sequence[DeclaredGroup]) -> None:
        """Set the complete list of groups whose unread records retention must keep."""
        await self.engine.groups.declare(declared, whole=True)

    async def forget(self, group: str) -> None:
        """Remove a group, because its last member has left."""
        await self.engine.groups.forget(group)

    async def health(self) -> LogHealth:
        return self.engine.health()

    def translate(self, error: Exception) -> BrokerError | None:
        if isinstance(error, apsw.Error):
            return BrokerUnavailable(
                f"the file of the embedded log failed: {error}", broker=self.name
            )
        return None

    def _members(self, group: str) -> list[EmbeddedConsumer]:
        return [one for one in self._consumers.get(group, ()) if not one.closed]

    def _tail(self, place: Partition) -> LogTail:
        tail = self._tails.get(place)
        if tail is None or tail.gone:
            settings = self._settings
            tail = self._tails[place] = LogTail(
                self.engine,
                place,
                settings.page_records,
                settings.page_bytes,
                self._running().commits.stir,
            )
        return tail

    async def _begin(self, group: str, topics: Sequence[str], start: StartAt) -> None:
        """Create missing topics, and commit the start of a group that has no position."""
        for topic in topics:
            await self.engine.create_topic(topic)
        undeclared = [t for t in topics if not self.engine.groups.positions.declares(group, t)]
        if undeclared:
            await self.engine.groups.declare([DeclaredGroup(group, tuple(undeclared))])
        known = self.engine.groups.positions.started(group)
        begun = {place.topic for place in known}
        starts: dict[Partition, CommittedOffset] = {}
        for topic in topics:
            for log in self.engine.topics()[topic].partitions:
                if log.place in known:
                    continue
                offset = log.earliest if topic in begun else await self._resolve(log, start)
                starts[log.place] = CommittedOffset(offset)
        if starts:
            await self.engine.groups.begin(group, starts)

    async def _resolve(self, log: PartitionLog, start: StartAt) -> int:
        """Return the offset at which a group without a position begins. Raise PositionOutOfRange if the log
        does not hold this offset."""
        match start.kind:
            case "earliest":
                return log.earliest
            case "latest":
                return log.next_offset
            case "time":
                return await self.engine.offset_at(log.place, start.time_ms)
            case "position":
                text = start.positions.get(log.number)
                if text is None:
                    return log.earliest  # a partition without a given position skips nothing
                return checked_offset(log.place, text, log.earliest, log.next_offset)

    async def _lags_of(
        self, groups: ReadTopics, topics: Sequence[str] | None
    ) -> tuple[GroupLag, ...]:
        """Return the lags of all groups. There may be thousands of groups, so the event loop serves other
        tasks in between."""
        found: list[GroupLag] = []
        asked = None if topics is None else frozenset(topics)
        for number, (group, read) in enumerate(groups.items()):
            found += self._lags(
                group, frozenset(read) if asked is None else asked.intersection(read)
            )
            if number % _GROUPS_AT_ONCE == _GROUPS_AT_ONCE - 1:
                await asyncio.sleep(0)
        return tuple(found)

    def _lags(self, group: str, topics: Collection[str]) -> Iterator[GroupLag]:
        known = self.engine.groups.positions.started(group)
        for place in sorted(known, key=lambda place: (place.topic, place.number)):
            committed = known[place]
            if place.topic in topics:
                lag = self.engine.partition(place).next_offset - committed.offset
                position = str(committed.offset)
                yield GroupLag(group, place.topic, place.number, position, max(0, lag))

    def _running(self) -> MemberContext:
        if self._shared is None:
            raise BrokerUnavailable(f"log {self.name} is not running", broker=self.name)
        return self._shared


def _ends(log: PartitionLog) -> PartitionMetadata:
    return PartitionMetadata(
        number=log.number,
        leader=NODE,
        replicas=(NODE,),
        isr=(NODE,),
        earliest=str(log.earliest),
        latest=str(log.next_offset),
    )
