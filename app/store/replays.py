"""Ranges that are being delivered once more, one row a partition, with how far each is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from app.interfaces import Replay
from app.model.message import Partition
from app.store import revision
from app.store.owners import fence
from app.store.rows import struct_of, values_of
from app.store.tables import replays
from app.store.transactions import Transactions

_c = replays.c


class Replays:
    """Fills ``interfaces.Replays``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def ask(self, replays: Sequence[Replay]) -> list[int]:
        return await self._transactions.run(_ask, replays)

    async def all(self, subscription: str | None = None) -> list[Replay]:
        return await self._transactions.run(_all, subscription)

    async def save(self, replay: Replay, epoch: int) -> None:
        await self._transactions.together(_save, replay, epoch)

    async def end(self, replay: int) -> None:
        await self._transactions.run(_end, replay)


def _ask(connection: Connection, asked: Sequence[Replay]) -> list[int]:
    revision.grow(connection)  # first: its lock puts all who ask in a row
    if any(_all(connection, name) for name in {each.subscription for each in asked}):
        return []
    return [
        connection.execute(insert(replays).values(_values(each)).returning(_c.id)).scalar_one()
        for each in asked
    ]


def _all(connection: Connection, subscription: str | None) -> list[Replay]:
    query = select(replays).order_by(_c.id)
    if subscription is not None:
        query = query.where(_c.subscription == subscription)
    return [
        struct_of(Replay, row, partition=Partition(row.topic, row.partition))
        for row in connection.execute(query)
    ]


def _save(connection: Connection, replay: Replay, epoch: int) -> None:
    fence(connection, replay.subscription, replay.broker, replay.partition, epoch)
    values = {"next": replay.next, "done": replay.done}
    connection.execute(update(replays).where(_c.id == replay.id).values(values))


def _end(connection: Connection, replay: int) -> None:
    revision.grow(connection)
    connection.execute(delete(replays).where(_c.id == replay))


def _values(replay: Replay) -> dict[str, Any]:
    place = replay.partition
    return values_of(replay, replays, topic=place.topic, partition=place.number)
