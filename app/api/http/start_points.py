"""Where a reading of a topic begins: as a person writes it, and as places of its partitions.

===========================  =========================================================================
``earliest``, ``latest``     the ends as they are
``latest-20``                about twenty records before the end, in each partition
``2026-01-01T00:00:00Z``     the first record stored at that time or later, in each partition
``3@42,0>17``                partition 3 from position 42 on, partition 0 after position 17, others from
                             their earliest: what ``next`` and the ids of a tail say
``42``                       a position, of the one partition that is read
===========================  =========================================================================
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple

from app.api.http.problems import Refused
from app.interfaces import Log
from app.model.message import Partition
from app.model.metadata import PartitionMetadata

AT_ONCE = 16  # partitions that a broker is asked about at the same time
LATEST_MS = 253_402_300_800_000  # the year 10000

_BACK = re.compile(r"latest-(\d{1,9})", re.ASCII)
_PLACE = re.compile(r"(\d{1,6})([@>])([^,\s@>]+)", re.ASCII)


class StartPoint(NamedTuple):
    """A position, or (``after``) the one behind it, whatever it is: positions cannot be counted."""

    position: str
    after: bool = False

    def __str__(self) -> str:
        return f"{'>' if self.after else '@'}{self.position}"


_Ask = Callable[[int], Awaitable[str]]

StartPoints = Mapping[int, StartPoint]


def text_of(places: StartPoints) -> str:
    """One text for all partitions, which ``from`` and Last-Event-ID take."""
    return ",".join(f"{number}{place}" for number, place in sorted(places.items()))


def places_of(text: str) -> StartPoints | None:
    """None: it is no such text."""
    found = {}
    for each in text.split(","):
        match = _PLACE.fullmatch(each.strip())
        if match is None:
            return None
        found[int(match[1])] = StartPoint(match[3], match[2] == ">")
    return found


def time_of(text: str) -> int | None:
    """Milliseconds since the epoch of RFC 3339 with its zone; None: it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else round(moment.timestamp() * 1000)


async def resolve(
    log: Log, topic: str, ends: Sequence[PartitionMetadata], begin: str
) -> dict[int, StartPoint]:
    """The place in each of ``ends``. Raises Refused, and PositionOutOfRange for a position that the log
    does not hold."""
    if begin in ("earliest", "latest"):
        return {each.number: StartPoint(getattr(each, begin)) for each in ends}
    if back := _BACK.fullmatch(begin):
        count = int(back[1])
        return await _each(ends, lambda number: log.position_back(Partition(topic, number), count))
    places = places_of(begin)
    time_ms = time_of(begin) if places is None else None
    if time_ms is not None:
        return await by_time(log, topic, ends, time_ms)
    named = _alone(ends, begin) if places is None else places
    await _check(log, topic, ends, named)
    return resume(ends, named)


def resume(ends: Sequence[PartitionMetadata], places: StartPoints) -> dict[int, StartPoint]:
    """A partition that is not named is new, and nothing of it may be passed over (rule 10)."""
    return {each.number: places.get(each.number, StartPoint(each.earliest)) for each in ends}


async def by_time(
    log: Log, topic: str, ends: Sequence[PartitionMetadata], time_ms: int
) -> dict[int, StartPoint]:
    """The first record of each partition stored at a time or later (the guide's Offset, in which times below
    zero mean something else)."""
    since = max(0, time_ms)
    return await _each(ends, lambda number: log.position_at(Partition(topic, number), since))


async def _each(ends: Sequence[PartitionMetadata], ask: _Ask) -> dict[int, StartPoint]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> StartPoint:
        async with gate:
            return StartPoint(await ask(number))

    found = await asyncio.gather(*(one(each.number) for each in ends))
    return {each.number: place for each, place in zip(ends, found, strict=True)}


def _alone(ends: Sequence[PartitionMetadata], position: str) -> StartPoints:
    if len(ends) != 1:
        raise Refused(
            400,
            "bad-position",
            f"{position!r} is not a position of a topic: a position belongs to one partition. Name it with"
            " partition=, or write earliest, latest, latest-20, a time as 2026-01-01T00:00:00Z, or"
            " partition@position",
        )
    return {ends[0].number: StartPoint(position)}


async def _check(
    log: Log, topic: str, ends: Sequence[PartitionMetadata], places: StartPoints
) -> None:
    """An empty reading raises where the position is not held; so does a partition that is not there."""
    known = {each.number for each in ends}
    for number, place in places.items():
        if number not in known:
            raise unknown_partition(topic, number)
        position = place.position
        async with aclosing(log.read(Partition(topic, number), position, position)) as nothing:
            async for _ in nothing:
                break


def unknown_partition(topic: str, number: int) -> Refused:
    return Refused(404, "unknown-partition", f"there is no partition {number} of {topic} here")
