"""Records that hold an event: by the index of the embedded log, by reading a range of time elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from app.api.http import start_points
from app.api.http.slices import Slices
from app.api.running import Running
from app.api.topics.follow import READ, partitions_of, read
from app.bindings.record import Decoded, Record
from app.bindings.spooled import restored
from app.bindings.table import BINDINGS
from app.brokers.portable import size_of
from app.errors import BrokerError, BrokerRefused, SenderError
from app.interfaces import Log
from app.model.message import Message, Partition
from app.model.metadata import PartitionMetadata
from app.model.route import Exchange, Target
from app.model.spool import spooled_route
from app.routing.places import fixed_place, is_fixed

WITHIN = 8.0  # seconds for all topics that are read
AT_ONCE = 4  # partitions that are read at the same time
MOST = 100  # records of one answer
HOUR = 3_600_000  # milliseconds that are read where the request names no time


class Wanted(NamedTuple):
    """``source`` None: of any. ``since_ms`` None: the request names no time."""

    id: str
    source: str | None
    since_ms: int | None

    def is_in(self, decoded: Decoded) -> bool:
        attributes = decoded.event.attributes
        return attributes.get("id") == self.id and self.source in (None, attributes.get("source"))

    def may_be_in(self, record: Record) -> bool:
        """Cheap, and never wrongly no: JSON may write a character in several ways."""
        needle, body = self.id.encode(), record.body or b""
        if any(value is not None and needle in value for _, value in record.headers):
            return True
        return needle in body or (b"\\" in body and b'"id"' in body)


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """How far one search went; see ``found.LookedView``."""

    where: str
    start_ms: int | None
    until_ms: int | None
    complete: bool
    detail: str = ""


class Sighting(NamedTuple):
    """A record of the event."""

    broker: str
    message: Message
    decoded: Decoded


class Searched(NamedTuple):
    sightings: list[Sighting]
    looked: list[Looked]


def event_in(running: Running, broker: str, message: Message) -> Decoded | None:
    """None: it is no event, or its broker is configured no more."""
    try:
        broker, _, record = bound_for(broker, message)
        kind = running.kinds.get(broker)
        return None if kind is None else BINDINGS[kind].decode(record)
    except (SenderError, BrokerRefused):
        return None


def bound_for(broker: str, message: Message) -> tuple[str, str, Record]:
    """Broker, topic and record: of a record in a spool those of its target, of any other its own. Raises
    BrokerRefused for one that nobody spooled."""
    if spooled_route(message.partition.topic) is None:
        return broker, message.partition.topic, message.record
    destination, record = restored(message.record)
    return destination.log, destination.topic, record


async def search(running: Running, wanted: Wanted, now_ms: int) -> Searched:
    """All brokers at the same time. One that does not answer says so in ``looked``."""
    found = Searched([], [])
    for each in await asyncio.gather(
        *(_search(running, name, wanted, now_ms) for name in running.kinds if name in running.logs)
    ):
        found.sightings.extend(each.sightings)
        found.looked.extend(each.looked)
    return found


async def _search(running: Running, name: str, wanted: Wanted, now_ms: int) -> Searched:
    log = running.logs[name]
    start = wanted.since_ms
    try:
        located = await log.locate(wanted.id, wanted.source, start or 0)
        if located is None:
            return await _by_time(running, log, wanted, now_ms)
        found, missed = await _at(running, log, located.places, wanted), located.missed
    except BrokerError as error:
        return Searched([], [_unread(name, start, str(error))])
    looked = Looked(where=name, start_ms=start, until_ms=now_ms, complete=not missed, detail=missed)
    return Searched(found, [looked])


def _unread(where: str, start: int | None, why: str) -> Looked:
    return Looked(where=where, start_ms=start, until_ms=None, complete=False, detail=why)


async def _at(
    running: Running, log: Log, places: Iterable[tuple[Partition, str]], wanted: Wanted
) -> list[Sighting]:
    found: list[Sighting] = []
    for place, position in places:
        message = await message_at(log, place, position)
        if message is not None and message.time_ms >= (wanted.since_ms or 0):
            decoded = event_in(running, log.name, message)
            if decoded is not None and wanted.is_in(decoded):
                found.append(Sighting(log.name, message, decoded))
        if len(found) == MOST:
            break
    return found


async def message_at(log: Log, place: Partition, position: str) -> Message | None:
    """The record at a numbered position; None where it is gone."""
    if not position.isdecimal():
        return None
    try:
        async with aclosing(log.read(place, position, str(int(position) + 1))) as messages:
            async for message in messages:
                return message
    except BrokerError:
        return None
    return None


async def _by_time(running: Running, log: Log, wanted: Wanted, now_ms: int) -> Searched:
    """Topics of the configuration, from a time on."""
    kind = running.kinds[log.name]
    if kind != "kafka":
        why = (
            f"records of {kind} are not read for it: only the store and attempts know of the event"
        )
        return Searched([], [_unread(log.name, wanted.since_ms, why)])
    start = now_ms - HOUR if wanted.since_ms is None else wanted.since_ms
    topics, open_ended = await _topics(running, log.name)
    found = Searched([], [])
    gate, ends = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop().time() + WITHIN
    for each in await asyncio.gather(
        *(_read_topic(running, log, topic, wanted, start, gate, ends) for topic in topics)
    ):
        found.sightings.extend(each.sightings)
        found.looked.extend(
            msgspec.structs.replace(looked, until_ms=now_ms if looked.complete else None)
            for looked in each.looked
        )
    if open_ended:
        found.looked.append(
            _unread(
                log.name, start, f"topics that are made of attributes were not read: {open_ended}"
            )
        )
    return found


async def _topics(running: Running, broker: str) -> tuple[list[str], str]:
    """Those that the configuration names, and templates whose topics it does not."""
    declared = await running.declared()
    targets = [target for route in running.routes for target in route.to]
    targets += [each.sink for each in declared if isinstance(each.sink, Target | Exchange)]
    here = [target for target in targets if target.broker == broker]
    named = {fixed_place(target) for target in here if is_fixed(target)}
    for each in declared:
        if each.source.broker == broker:
            named.update(each.source.topics)
    templates = sorted({target.place for target in here if not is_fixed(target)})
    return sorted(named), ", ".join(templates)


async def _read_topic(
    running: Running,
    log: Log,
    topic: str,
    wanted: Wanted,
    start: int,
    gate: asyncio.Semaphore,
    ends: float,
) -> Searched:
    """Until the moment ``ends`` of the loop's clock."""
    where, found = f"{log.name}/{topic}", list[Sighting]()
    why = ""
    try:
        async with asyncio.timeout_at(ends):
            partitions = await partitions_of(log, topic) or ()
            places = await start_points.by_time(log, topic, partitions, start)
            await asyncio.gather(
                *(
                    _read_partition(running, log, topic, each, places, wanted, found, gate)
                    for each in partitions
                )
            )
    except TimeoutError:
        why = f"not all of it was read within {WITHIN:g} s: search from a later time with since"
    except BrokerError as error:
        why = str(error)
    return Searched(
        found,
        [Looked(where=where, start_ms=start, until_ms=None, complete=not why, detail=why)],
    )


async def _read_partition(
    running: Running,
    log: Log,
    topic: str,
    end: PartitionMetadata,
    places: Mapping[int, start_points.StartPoint],
    wanted: Wanted,
    found: list[Sighting],
    gate: asyncio.Semaphore,
) -> None:
    async with gate, aclosing(read(log, topic, end, places[end.number])) as messages:
        async for sighting in _sighted(running, log.name, messages, wanted):
            if len(found) < MOST:
                found.append(sighting)


async def _sighted(
    running: Running, broker: str, messages: AsyncIterator[Message], wanted: Wanted
) -> AsyncIterator[Sighting]:
    slices = Slices()
    async for message in messages:
        await slices.spend(READ + (size_of(message.record) >> 10))
        if wanted.may_be_in(message.record):
            decoded = event_in(running, broker, message)
            if decoded is not None and wanted.is_in(decoded):
                yield Sighting(broker, message, decoded)


def once(sightings: Collection[Sighting]) -> list[Sighting]:
    """Each place once, the oldest first."""
    by_place = {
        (each.broker, each.message.partition, each.message.position): each for each in sightings
    }
    return sorted(by_place.values(), key=lambda each: each.message.time_ms)
