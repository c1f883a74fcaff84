"""The ends of a partition, as its owner states them.

A broker that was cut off from the metadata of its cluster still takes itself for the owner of a partition. It does not know
the newest messages, so a position may seem to be out of range, and a replay would end too early.
"""

from __future__ import annotations

from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.answers import PartitionInternals
from app.brokers.pulsar.positions import Position


async def ends_for(admin: PulsarAdmin, wire: str, *asked: Position) -> PartitionInternals:
    """Return the ends of a partition. If they do not enclose all positions asked for, they are those of the confirmed owner.

    Raises AdminError if the brokers name different owners, and httpx.HTTPError if one of them does not answer.
    """
    held = await admin.internal(wire)
    if all(held.earliest <= each <= held.latest for each in asked):
        return held
    await admin.confirm_owner(wire)
    return await admin.internal(wire)
