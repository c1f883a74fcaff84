"""Reading a topic without a group: a page of it, or all that comes from now on.

Positions are opaque (design: Log), so following goes from one ``latest`` to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal

from app.errors import PositionOutOfRange
from app.interfaces import Log
from app.model.message import Message, Partition
from app.model.metadata import PartitionMetadata

LOOK_EVERY = 0.25  # seconds between two looks at a topic that rests
HEARTBEAT_EVERY = 60  # looks; a comment then keeps proxies from closing the stream

From = Literal["earliest", "latest"]


async def partitions_of(log: Log, topic: str) -> tuple[PartitionMetadata, ...] | None:
    """None: there is no such topic."""
    found = await log.metadata([topic])
    return next((each.partitions for each in found.topics if each.name == topic), None)


async def peek(
    log: Log, topic: str, *, partition: int | None, start: str | None, limit: int
) -> list[Message]:
    """At most ``limit`` messages a call, partition after partition, from ``start`` (earliest)."""
    found: list[Message] = []
    for each in await partitions_of(log, topic) or ():
        if partition not in (None, each.number) or each.earliest == each.latest:
            continue
        messages = log.read(Partition(topic, each.number), start or each.earliest, each.latest)
        async for message in messages:
            if len(found) == limit:
                return found
            found.append(message)
    return found


async def follow(
    log: Log, topic: str, begin: From, stopped: asyncio.Event
) -> AsyncIterator[Message | None]:
    """Every message from ``begin`` on, until ``stopped``; None now and then while nothing comes.

    What is there already is given in any case: ``stopped`` from the start means "to the end and no
    further". A partition that appears later is read from its earliest (rule 10).
    """
    positions: dict[int, str] = {}
    if begin == "latest":
        positions = {each.number: each.latest for each in await partitions_of(log, topic) or ()}
    rest = 0
    while True:
        rest += 1
        async for message in _news(log, topic, positions):
            rest = 0
            yield message
        if stopped.is_set():
            return
        if rest % HEARTBEAT_EVERY == 1:
            yield None
        if rest:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), LOOK_EVERY)


async def _news(log: Log, topic: str, positions: dict[int, str]) -> AsyncIterator[Message]:
    """From ``positions`` to the ends as they are now; ``positions`` moves along."""
    for each in await partitions_of(log, topic) or ():
        start = positions.get(each.number, each.earliest)
        if start == each.latest:
            continue
        with contextlib.suppress(PositionOutOfRange):  # retention was faster: go on behind it
            async for message in log.read(Partition(topic, each.number), start, each.latest):
                yield message
        positions[each.number] = each.latest
