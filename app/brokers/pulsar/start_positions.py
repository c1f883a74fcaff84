"""Where a group without a position begins (rule 10), decided before anything is handed out.

A subscription of Pulsar is its own position, so the start is committed by making it, through the
administration, before any member joins. Two deaths could spoil that. Ours, between two partitions:
who comes next would take the rest for new ones. And the broker's: it makes a subscription at the
latest message, and only then moves it, which no bookie may be at hand for. So all places are written
down first, as a property of the first partition's subscription, which is stored in the same step that
makes it; a member that finds the property there finishes the work, and only then removes it. That may be
we ourselves, when the broker answers that it could not do all of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from app.brokers.positions import out_of_range
from app.brokers.pulsar.admin import MADE_WITHIN, Admin, ask_each, ask_until
from app.brokers.pulsar.answers import Subscription
from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.positions import BEGINNING, Position, read_position
from app.libraries.httpx_client import httpx
from app.model.message import Partition
from app.model.start import StartAt

log = logging.getLogger(__name__)

INTENT = "skybridge-start"
OTHERS_WITHIN = 5.0  # seconds for another member to finish what it has begun; longer: it died
LOOK_AGAIN = 0.2

Places = dict[int, Position]
"""Where each partition begins, that message included."""


async def prepare(
    admin: Admin,
    group: str,
    topics: Sequence[str],
    start: StartAt,
    patience: float = OTHERS_WITHIN,
) -> None:
    """Make the subscription ``group`` in each topic of which it has no partition, beginning at ``start``. In one
    of which it has some, the others are new partitions: the member that joins there makes it, at earliest, in one
    step. Raises PositionOutOfRange, or AdminError, when the broker lacks for too long what it needs.
    """

    async def begin() -> None:
        await admin.ensure(topics)
        for topic in topics:
            await _prepare(admin, group, topic, start, patience)

    await ask_until(begin, MADE_WITHIN)


async def _prepare(admin: Admin, group: str, topic: str, start: StartAt, patience: float) -> None:
    wires = await admin.wires(topic)
    there = await _there(admin, group, topic, wires)
    if not there:
        places = await _resolve(admin, topic, wires, start)
        intent = {INTENT: msgspec.json.encode(places).decode()}
        # The member that makes the first partition's decides for all of them.
        if await admin.create_subscription(wires[0], group, places[0], intent):
            await _finish(admin, group, wires, places, there)
            return
    there = await _when_others_are_done(admin, group, topic, wires, patience)
    left = _intent(there.get(wires[0]))
    if left is not None:
        log.warning("group %s of %s: an unfinished start is completed now", group, topic)
        await _finish(admin, group, wires, left, there)


async def _there(
    admin: Admin, group: str, topic: str, wires: Mapping[int, str]
) -> dict[str, Subscription]:
    """What there is of the group, by the names of the partitions on the wire. The broker leaves out without a
    word what it could not ask just then: to take that for new would pass over an unfinished start."""
    stats = await admin.stats(topic)
    for wire in wires.values():
        if wire not in stats and await admin.internal_if_there(wire) is not None:
            raise AdminError(httpx.codes.SERVICE_UNAVAILABLE, f"nothing is told of {wire}")
    return {
        wire: partition.subscriptions[group]
        for wire, partition in stats.items()
        if group in partition.subscriptions
    }


async def _when_others_are_done(
    admin: Admin, group: str, topic: str, wires: Mapping[int, str], patience: float
) -> dict[str, Subscription]:
    """Members that come at once: one of them decides, and the others wait for it."""
    until = asyncio.get_running_loop().time() + patience
    while True:
        there = await _there(admin, group, topic, wires)
        if _intent(there.get(wires[0])) is None or asyncio.get_running_loop().time() >= until:
            return there
        await asyncio.sleep(LOOK_AGAIN)


def _intent(subscription: Subscription | None) -> Places | None:
    text = subscription.subscription_properties.get(INTENT) if subscription is not None else None
    return None if text is None else msgspec.json.decode(text, type=Places)


async def _finish(
    admin: Admin,
    group: str,
    wires: Mapping[int, str],
    places: Places,
    there: Mapping[str, Subscription],
) -> None:
    """``there``: begun by somebody who died, and perhaps never moved; so is what comes to be there
    meanwhile."""

    async def begin(number: int) -> None:
        wire, place = wires[number], places.get(number, BEGINNING)
        if wire not in there and not number:
            return  # the caller made it just now
        if wire in there or not await admin.create_subscription(wire, group, place):
            await admin.move(wire, group, place)

    await ask_each(begin, wires)
    first = there.get(wires[0])
    kept = dict(first.subscription_properties) if first is not None else {}
    kept.pop(INTENT, None)
    await admin.note(wires[0], group, kept)


async def _resolve(admin: Admin, topic: str, wires: Mapping[int, str], start: StartAt) -> Places:
    """All of them before the first is made: a start that is out of range leaves nothing behind, and
    a member that finishes it later begins where it was meant at the time."""

    async def place(number: int) -> Position:
        return await _resolved(admin, Partition(topic, number), wires[number], start)

    return dict(zip(wires, await ask_each(place, wires), strict=True))


async def _resolved(admin: Admin, partition: Partition, wire: str, start: StartAt) -> Position:
    """A partition that a start by position does not name begins at earliest."""
    text = start.positions.get(partition.number)
    if start.kind == "earliest" or (start.kind == "position" and text is None):
        return BEGINNING
    if start.kind == "time":
        place = await admin.place_at(wire, start.time_ms)
        held = await admin.internal(wire)
        return held.latest if place > held.last else place
    held = await admin.internal(wire)
    if text is None:
        return held.latest
    place = read_position(text)
    if not held.earliest <= place <= held.latest:
        raise out_of_range(partition, text, held.earliest.text, held.latest.text)
    return place
