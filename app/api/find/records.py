"""Find the records of an event in the logs. An embedded log has an index. Other brokers are read over a range
of time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from app.api.asked.brokers import Brokers
from app.api.asked.routes import Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.http import start_points
from app.api.http.slices import Slices
from app.api.topics.follow import READ, partitions_of, read
from app.bindings.record import Decoded, Record
from app.bindings.spooled import from_spooled
from app.bindings.table import BINDINGS
from app.brokers.portable import size_of
from app.errors import BrokerError, BrokerRefused, PositionOutOfRange, SenderError
from app.interfaces import Log
from app.model.message import Message, Partition
from app.model.metadata import PartitionMetadata
from app.model.route import Exchange, Target
from app.model.spool import spooled_route
from app.routing.places import fixed_place, is_fixed

WITHIN = 8.0  # seconds to read all topics
AT_ONCE = 4  # partitions that are read concurrently
MOST = 100  # the most records of one answer
HOUR = 3_600_000  # milliseconds that are read if the request names no time


class WantedEvent(NamedTuple):
    """The event to search for. ``source`` is None for any source. ``since_ms`` is None if the request names
    no time."""

    id: str
    source: str | None
    since_ms: int | None

    def matches(self, decoded: Decoded) -> bool:
        """Return True if the record holds the event."""
        attributes = decoded.event.attributes
        return attributes.get("id") == self.id and self.source in (None, attributes.get("source"))

    def may_match(self, record: Record) -> bool:
        """Return False if the record certainly does not contain the event. The check is fast and does not
        decode JSON, which may escape characters of the id. So True does not prove that the record has the
        event."""
        needle, body = self.id.encode(), record.body or b""
        if any(value is not None and needle in value for _, value in record.headers):
            return True
        return needle in body or (b"\\" in body and b'"id"' in body)


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on the search of one place. ``answers.LookedView`` shows it to clients."""

    where: str
    start_ms: int | None
    until_ms: int | None
    complete: bool
    detail: str = ""


class FoundRecord(NamedTuple):
    """A record that holds the event, and the broker that has it."""

    broker: str
    message: Message
    decoded: Decoded


class SearchResult(NamedTuple):
    """The records that a search found, and the places that it searched."""

    sightings: list[FoundRecord]
    looked: list[SearchReport]


def event_in(kinds: Mapping[str, str], broker: str, message: Message) -> Decoded | None:
    """Return the event in a record. Return None if the record is not an event, or if its broker is no longer
    configured."""
    try:
        broker, _, record = destination_of(broker, message)
        kind = kinds.get(broker)
        return None if kind is None else BINDINGS[kind].decode(record)
    except (SenderError, BrokerRefused):
        return None


def destination_of(broker: str, message: Message) -> tuple[str, str, Record]:
    """Return the broker, topic and record of a message, or of its target if the message is in a spool. Raise
    BrokerRefused if a message in a spool does not name its target."""
    if spooled_route(message.partition.topic) is None:
        return broker, message.partition.topic, message.record
    destination, record = from_spooled(message.record)
    return destination.log, destination.topic, record


class LogSearch:
    """A search for one event in all logs. ``now_ms`` is the time at which the search began."""

    def __init__(
        self,
        brokers: Brokers,
        subscriptions: Subscriptions,
        routes: Routes,
        wanted: WantedEvent,
        now_ms: int,
    ) -> None:
        self._brokers = brokers
        self._subscriptions = subscriptions
        self._routes = routes
        self._wanted = wanted
        self._now_ms = now_ms

    async def run(self) -> SearchResult:
        """Search all brokers concurrently. A broker that fails is reported in ``looked``."""
        logs = self._brokers.logs
        asked = (self._search(logs[name]) for name in self._brokers.kinds if name in logs)
        found = SearchResult([], [])
        for each in await asyncio.gather(*asked):
            found.sightings.extend(each.sightings)
            found.looked.extend(each.looked)
        return found

    async def _search(self, log: Log) -> SearchResult:
        """Search one log, by its index or by time."""
        wanted = self._wanted
        start = wanted.since_ms
        try:
            located = await log.locate(wanted.id, wanted.source, start or 0)
            if located is None:
                return await self._by_time(log)
            found, missed = await self._records_at(log, located.places)
            missed = located.missed or missed
        except BrokerError as error:
            return SearchResult([], [incomplete(log.name, start, str(error))])
        looked = SearchReport(
            where=log.name,
            start_ms=start,
            until_ms=self._now_ms,
            complete=not missed,
            detail=missed,
        )
        return SearchResult(found, [looked])

    async def _records_at(
        self, log: Log, places: Iterable[tuple[Partition, str]]
    ) -> tuple[list[FoundRecord], str]:
        """Return the records of the event at these places, and why one of them could not be read, or ""."""
        found: list[FoundRecord] = []
        missed = ""
        for place, position in places:
            try:
                message = await message_at(log, place, position)
            except BrokerError as error:
                missed = missed or str(error)
                continue
            if message is not None and message.time_ms >= (self._wanted.since_ms or 0):
                found += self._matching(log, message)
            if len(found) == MOST:
                break
        return found, missed

    def _matching(self, log: Log, message: Message) -> list[FoundRecord]:
        """Return a list with the record of the message, or an empty list if the message does not contain the
        event."""
        decoded = event_in(self._brokers.kinds, log.name, message)
        if decoded is None or not self._wanted.matches(decoded):
            return []
        return [FoundRecord(log.name, message, decoded)]

    async def _by_time(self, log: Log) -> SearchResult:
        """Read the configured topics of a Kafka broker from a point in time onwards. Other brokers without an
        index are not searched."""
        kind, wanted, now_ms = self._brokers.kinds[log.name], self._wanted, self._now_ms
        if kind != "kafka":
            why = f"topics of {kind} cannot be searched, only the store and attempts"
            return SearchResult([], [incomplete(log.name, wanted.since_ms, why)])
        start = now_ms - HOUR if wanted.since_ms is None else wanted.since_ms
        health = await log.health()
        if not health.healthy:  # reported once, not for each topic
            return SearchResult([], [incomplete(log.name, start, health.cause)])
        topics, open_ended = await self._topics(log.name)
        found = SearchResult([], [])
        gate, ends = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop().time() + WITHIN
        for each in await asyncio.gather(
            *(self._read_topic(log, topic, start, gate, ends) for topic in topics)
        ):
            found.sightings.extend(each.sightings)
            found.looked.extend(
                msgspec.structs.replace(looked, until_ms=now_ms if looked.complete else None)
                for looked in each.looked
            )
        if open_ended:
            why = f"topics whose names depend on attributes were not searched: {open_ended}"
            found.looked.append(incomplete(log.name, start, why))
        return found

    async def _topics(self, broker: str) -> tuple[list[str], str]:
        """Return the topics of a broker that the configuration names. Return also the topic templates whose
        names depend on attributes of the event."""
        declared = await self._subscriptions.declared()
        targets = [target for route in self._routes.routes for target in route.to]
        targets += [each.sink for each in declared if isinstance(each.sink, Target | Exchange)]
        here = [target for target in targets if target.broker == broker]
        named = {fixed_place(target) for target in here if is_fixed(target)}
        for each in declared:
            if each.source.broker == broker:
                named.update(each.source.topics)
        templates = sorted({target.place for target in here if not is_fixed(target)})
        return sorted(named), ", ".join(templates)

    async def _read_topic(
        self, log: Log, topic: str, start: int, gate: asyncio.Semaphore, ends: float
    ) -> SearchResult:
        """Read a topic from ``start`` until its end, or until the moment ``ends`` of the loop's clock."""
        where, found = f"{log.name}/{topic}", list[FoundRecord]()
        why = ""
        try:
            async with asyncio.timeout_at(ends):
                partitions = await partitions_of(log, topic) or ()
                places = await start_points.by_time(log, topic, partitions, start)
                await asyncio.gather(
                    *(
                        self._read_partition(log, topic, each, places[each.number], found, gate)
                        for each in partitions
                    )
                )
        except TimeoutError:
            why = f"not all of the topic was read within {WITHIN:g} s. Cure: search from a later time with since"
        except BrokerError as error:
            why = str(error)
        looked = SearchReport(
            where=where, start_ms=start, until_ms=None, complete=not why, detail=why
        )
        return SearchResult(found, [looked])

    async def _read_partition(
        self,
        log: Log,
        topic: str,
        end: PartitionMetadata,
        start: start_points.StartPoint,
        found: list[FoundRecord],
        gate: asyncio.Semaphore,
    ) -> None:
        """Read a partition and add records of the event to ``found``."""
        slices = Slices()
        async with gate, aclosing(read(log, topic, end, start)) as messages:
            async for message in messages:
                await slices.spend(READ + (size_of(message.record) >> 10))
                if self._wanted.may_match(message.record) and len(found) < MOST:
                    found += self._matching(log, message)


def incomplete(where: str, start: int | None, why: str) -> SearchReport:
    """Return the report of a place that was not searched completely."""
    return SearchReport(where=where, start_ms=start, until_ms=None, complete=False, detail=why)


async def message_at(log: Log, place: Partition, position: str) -> Message | None:
    """Return the message at a numbered position, or None if the log no longer has it. Raise BrokerError."""
    if not position.isdecimal():
        return None
    try:
        async with aclosing(log.read(place, position, str(int(position) + 1))) as messages:
            async for message in messages:
                return message
    except PositionOutOfRange:
        return None
    return None


def unique_records(sightings: Collection[FoundRecord]) -> list[FoundRecord]:
    """Return the records without repetitions, the oldest first."""
    by_place = {
        (each.broker, each.message.partition, each.message.position): each for each in sightings
    }
    return sorted(by_place.values(), key=lambda each: each.message.time_ms)
