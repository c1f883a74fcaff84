"""Positions by time and from the end (the guide's Offset), over the administration."""

from __future__ import annotations

from app.brokers.pulsar.admin import Admin
from app.brokers.pulsar.answers import Internal
from app.brokers.pulsar.places import Place
from app.brokers.pulsar.reader import wire_of
from app.model.message import Partition


async def position_at(admin: Admin, partition: Partition, time_ms: int) -> str:
    """Of the first message stored at a time or later; the next one to come where there is none."""
    wire = await wire_of(admin, partition)
    place = await admin.place_at(wire, time_ms)
    held = await admin.internal(wire)
    return (held.latest if place > held.last else max(place, held.earliest)).text


async def position_back(admin: Admin, partition: Partition, count: int) -> str:
    """``count`` entries before the end: a batch of a foreign producer is one."""
    return back(await admin.internal(await wire_of(admin, partition)), count).text


def back(held: Internal, count: int) -> Place:
    """Ledger by ledger, from the newest one."""
    missing = count
    for ledger in reversed(held.ledgers):
        is_open = ledger.ledger_id == held.last.ledger  # and not counted yet
        entries = held.last.entry + 1 if is_open else ledger.entries
        if missing <= entries:
            return Place(ledger.ledger_id, entries - missing)
        missing -= entries
    return held.earliest
