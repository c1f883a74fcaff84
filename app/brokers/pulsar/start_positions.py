"""Create the subscription of a group at its start position, before any message is handed out.

A Pulsar subscription holds its own position. So the start is committed by creating the subscription through
the administration, before any member joins. Two kinds of crash could leave this unfinished. If this process
dies between two partitions, the next member would take the remaining partitions for new ones. And a broker
creates a subscription at the latest message and then moves it, so the broker may die in between, or find no
bookie.

So all start positions are first stored as a property of the subscription in the first partition, together
with its creation. A member that finds this property completes the work and then removes the property. The
member may be the same process, after the broker reported a partial failure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from app.brokers.positions import out_of_range
from app.brokers.pulsar.admin import MADE_WITHIN, PulsarAdmin, ask_each, ask_until
from app.brokers.pulsar.answers import SubscriptionStats
from app.brokers.pulsar.ends import ends_for
from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.positions import BEGINNING, Position, read_position
from app.libraries.httpx_client import httpx
from app.model.message import Partition
from app.model.start import StartAt

log = logging.getLogger(__name__)

INTENT = "skybridge-start"
OTHERS_WITHIN = 5.0  # seconds after which another member that began the work is taken for dead
LOOK_AGAIN = 0.2  # seconds between checks of its progress

Places = dict[int, Position]
"""The position of the first message, by number of the partition."""


async def prepare(
    admin: PulsarAdmin,
    group: str,
    topics: Sequence[str],
    start: StartAt,
    patience: float = OTHERS_WITHIN,
) -> None:
    """Create the subscription ``group``, beginning at ``start``, in each topic of which no partition has this
    subscription.

    If only some partitions of a topic have it, the other partitions are new. A member creates the
    subscription in a new partition by joining, at the earliest message. Raises PositionOutOfRange, or
    AdminError if a temporary error of the broker lasts too long.
    """

    async def begin() -> None:
        await admin.ensure(topics)
        for topic in topics:
            await _prepare(admin, group, topic, start, patience)

    await ask_until(begin, MADE_WITHIN)


async def _prepare(
    admin: PulsarAdmin, group: str, topic: str, start: StartAt, patience: float
) -> None:
    wires = await admin.wires(topic)
    there = await _existing(admin, group, topic, wires)
    if not there:
        places = await _resolve(admin, topic, wires, start)
        intent = {INTENT: msgspec.json.encode(places).decode()}
        # The member that creates the first partition's subscription decides for all partitions.
        if await admin.create_subscription(wires[0], group, places[0], intent):
            await _finish(admin, group, wires, places, there)
            return
    there = await _when_others_are_done(admin, group, topic, wires, patience)
    left = _intent(there.get(wires[0]))
    if left is not None:
        log.warning("group %s of topic %s: an unfinished start is completed now", group, topic)
        await _finish(admin, group, wires, left, there)


async def _existing(
    admin: PulsarAdmin, group: str, topic: str, wires: Mapping[int, str]
) -> dict[str, SubscriptionStats]:
    """Return the subscriptions of the group, by the full name of the partition.

    Raise AdminError if the broker left out a partition. If that partition counted as new, messages from an
    unfinished start position on would be skipped.
    """
    stats = await admin.stats(topic)
    for wire in wires.values():
        if wire not in stats and await admin.internal_if_there(wire) is not None:
            raise AdminError(httpx.codes.SERVICE_UNAVAILABLE, f"the answer lacks partition {wire}")
    return {
        wire: partition.subscriptions[group]
        for wire, partition in stats.items()
        if group in partition.subscriptions
    }


async def _when_others_are_done(
    admin: PulsarAdmin, group: str, topic: str, wires: Mapping[int, str], patience: float
) -> dict[str, SubscriptionStats]:
    """Wait until another member has finished creating the subscriptions that it began to create, for at most
    ``patience`` seconds.

    Return the subscriptions of the group, by the full name of the partition.
    """
    until = asyncio.get_running_loop().time() + patience
    while True:
        there = await _existing(admin, group, topic, wires)
        if _intent(there.get(wires[0])) is None or asyncio.get_running_loop().time() >= until:
            return there
        await asyncio.sleep(LOOK_AGAIN)


def _intent(subscription: SubscriptionStats | None) -> Places | None:
    text = subscription.subscription_properties.get(INTENT) if subscription is not None else None
    return None if text is None else msgspec.json.decode(text, type=Places)


async def _finish(
    admin: PulsarAdmin,
    group: str,
    wires: Mapping[int, str],
    places: Places,
    there: Mapping[str, SubscriptionStats],
) -> None:
    """Create all subscriptions of the group or move them to their start positions. Then remove the property
    that has these positions.

    ``there`` has the subscriptions that exist already. Another member created them, but perhaps never moved
    them.
    """

    async def begin(number: int) -> None:
        wire, place = wires[number], places.get(number, BEGINNING)
        if wire not in there and not number:
            return  # the caller has just created it
        if wire in there or not await admin.create_subscription(wire, group, place):
            await admin.move(wire, group, place)

    await ask_each(begin, wires)
    first = there.get(wires[0])
    kept = dict(first.subscription_properties) if first is not None else {}
    kept.pop(INTENT, None)
    await admin.set_properties(wires[0], group, kept)


async def _resolve(
    admin: PulsarAdmin, topic: str, wires: Mapping[int, str], start: StartAt
) -> Places:
    """Return the start positions of all partitions, before any subscription is created.

    So an invalid start position changes nothing. After a crash, another member can complete the work with the
    same positions.
    """

    async def place(number: int) -> Position:
        return await _resolved(admin, Partition(topic, number), wires[number], start)

    return dict(zip(wires, await ask_each(place, wires), strict=True))


async def _resolved(
    admin: PulsarAdmin, partition: Partition, wire: str, start: StartAt
) -> Position:
    """Return the start position of one partition. A partition that ``start`` does not name begins at the
    earliest message."""
    text = start.positions.get(partition.number)
    if start.kind == "earliest" or (start.kind == "position" and text is None):
        return BEGINNING
    if start.kind == "time":
        place = await admin.place_at(wire, start.time_ms)
        held = await admin.internal(wire)
        return held.latest if place > held.last else place
    if text is None:
        return (await admin.internal(wire)).latest
    place = read_position(text)
    held = await ends_for(admin, wire, place)
    if not held.earliest <= place <= held.latest:
        raise out_of_range(partition, text, held.earliest.text, held.latest.text)
    return place
