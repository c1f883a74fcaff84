"""Parse where to start reading a topic, and find that place in each partition.

=========================== =========================================================================
``earliest``, ``latest``    the first record that is kept, or the end
``latest-20``               about twenty records before the end, in each partition
``2026-01-01T00:00:00Z``    the first record stored at that time or later, in each partition
``3@42,0>17``               partition 3 from position 42 on, partition 0 after position 17, others from
                            their earliest; ``next`` and the event ids of a tail have this form
``42``                      a position, if a single partition is read
=========================== =========================================================================
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple

from app.api.http.problems import RequestRefused
from app.interfaces import Log
from app.model.message import Partition
from app.model.metadata import PartitionMetadata
from app.model.moment import time_of

AT_ONCE = 16  # concurrent requests to a broker about partitions

_BACK = re.compile(r"latest-(\d{1,9})", re.ASCII)
_PLACE = re.compile(r"(\d{1,6})([@>])([^,\s@>]+)", re.ASCII)


class StartPoint(NamedTuple):
    """A place in a partition at which reading starts. With ``after``, reading starts at the record after
    ``position``. Positions are opaque, so the next position cannot be computed."""

    position: str
    after: bool = False

    def __str__(self) -> str:
        return f"{'>' if self.after else '@'}{self.position}"


_Ask = Callable[[int], Awaitable[str]]

StartPoints = Mapping[int, StartPoint]
"""The start point of each partition, by number."""


def text_of(places: StartPoints) -> str:
    """Return the start points as one text, which the parameter ``from`` and the header Last-Event-ID accept."""
    return ",".join(f"{number}{place}" for number, place in sorted(places.items()))


def places_of(text: str) -> StartPoints | None:
    """Parse the text of ``text_of``. Return None if it has another form."""
    found = {}
    for each in text.split(","):
        match = _PLACE.fullmatch(each.strip())
        if match is None:
            return None
        found[int(match[1])] = StartPoint(match[3], match[2] == ">")
    return found


async def resolve(
    log: Log, topic: str, ends: Sequence[PartitionMetadata], begin: str
) -> dict[int, StartPoint]:
    """Return the start point of each partition for a text such as ``latest-20``.

    Args:
        log: The broker's log.
        topic: The topic to read.
        ends: The partitions to read, with their earliest and latest positions.
        begin: The text from the request, in a form that this module lists.

    Raises:
        Refused: The text has none of the forms, or names an unknown partition.
        PositionOutOfRange: The log does not have the position.
    """
    if begin in ("earliest", "latest"):
        return {each.number: StartPoint(getattr(each, begin)) for each in ends}
    if back := _BACK.fullmatch(begin):
        count = int(back[1])
        return await _for_each(
            ends, lambda number: log.position_back(Partition(topic, number), count)
        )
    places = places_of(begin)
    time_ms = time_of(begin) if places is None else None
    if time_ms is not None:
        return await by_time(log, topic, ends, time_ms)
    named = _only_partition(ends, begin) if places is None else places
    await _demand_existing(log, topic, ends, named)
    return resume(ends, named)


def resume(ends: Sequence[PartitionMetadata], places: StartPoints) -> dict[int, StartPoint]:
    """Return the start point of each partition after an interruption. A partition that ``places`` does not
    have is new, and starts at its earliest record, so that nothing is skipped."""
    return {each.number: places.get(each.number, StartPoint(each.earliest)) for each in ends}


async def by_time(
    log: Log, topic: str, ends: Sequence[PartitionMetadata], time_ms: int
) -> dict[int, StartPoint]:
    """Return, for each partition, the position of the first record stored at ``time_ms`` or later. Negative
    times count as 0, because Kafka's ListOffsets gives them another meaning."""
    since = max(0, time_ms)
    return await _for_each(ends, lambda number: log.position_at(Partition(topic, number), since))


async def _for_each(ends: Sequence[PartitionMetadata], ask: _Ask) -> dict[int, StartPoint]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> StartPoint:
        async with gate:
            return StartPoint(await ask(number))

    found = await asyncio.gather(*(one(each.number) for each in ends))
    return {each.number: place for each, place in zip(ends, found, strict=True)}


def _only_partition(ends: Sequence[PartitionMetadata], position: str) -> StartPoints:
    """Return the start point of the only partition. Raise Refused with 400 if there are several."""
    if len(ends) != 1:
        raise RequestRefused(
            400,
            "bad-position",
            f"position {position[:50]!r} names no partition, and the topic has {len(ends)}",
        )
    return {ends[0].number: StartPoint(position)}


async def _demand_existing(
    log: Log, topic: str, ends: Sequence[PartitionMetadata], places: StartPoints
) -> None:
    """Raise Refused for an unknown partition, and PositionOutOfRange for a position that the log does not
    have."""
    known = {each.number for each in ends}
    for number, place in places.items():
        if number not in known:
            raise unknown_partition(topic, number)
        position = place.position
        async with aclosing(log.read(Partition(topic, number), position, position)) as nothing:
            async for _ in nothing:
                break


def unknown_partition(topic: str, number: int) -> RequestRefused:
    """Return the refusal with 404 of a partition that the topic does not have."""
    return RequestRefused(404, "unknown-partition", f"topic {topic} has no partition {number}")
