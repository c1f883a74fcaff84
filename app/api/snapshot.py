"""What ``/metrics`` tells of: measured without FastAPI."""

from __future__ import annotations

from collections.abc import Mapping

from app.api.answers import ParkedOfSubscription
from app.api.metrics import Snapshot
from app.api.running import Running
from app.errors import StoreUnavailable
from app.interfaces import LetterChoice
from app.model.metadata import Health


async def snapshot(running: Running) -> Snapshot:
    return Snapshot(
        counters=running.counters,
        roles=await running.readiness(),
        brokers=await brokers_of(running),
        subscriptions=await running.subscriptions(),
        lag=await running.lag(),
        dead_letters=await letters_of(running),
        parked=await parked_of(running),
        kafka_listeners=running.kafka_listeners(),
        disks=await running.disks(),
        spools=await running.spools(),
        certificates=await running.certificates(),
        configured=running.configured,
    )


async def brokers_of(running: Running) -> dict[str, Health]:
    return {name: await log.health() for name, log in running.logs.items()}


async def letters_of(running: Running) -> Mapping[tuple[str, str], int]:
    """Nothing where the store cannot be asked: the rest of the status must be seen all the same."""
    if running.store is None:
        return {}
    try:
        return await running.store.letters.count(LetterChoice())
    except StoreUnavailable:
        return {}


async def parked_of(running: Running) -> Mapping[str, ParkedOfSubscription]:
    """As ``letters_of``."""
    if running.store is None:
        return {}
    try:
        found = await running.store.parked.count()
    except StoreUnavailable:
        return {}
    now = running.clock.now()
    return {
        name: ParkedOfSubscription(
            rows=each.rows,
            keys=each.lanes,
            oldest_seconds=max(0.0, round(now - each.oldest_ms / 1000, 3)),
        )
        for name, each in found.items()
    }
