"""Requested replays, one row per partition, with their progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from app.interfaces import Replay
from app.model.message import Partition
from app.store import revision
from app.store.owners import fence
from app.store.rows import struct_of, values_of
from app.store.tables import replays as table
from app.store.transactions import (
    Gathered,
    StorePart,
    Transactions,
    shared_transaction,
    transaction,
)

_c = table.c


class Replays(StorePart):
    """The stored replays and their progress. Implements ``interfaces.Replays``."""

    @transaction
    def ask(self, connection: Connection, replays: Sequence[Replay]) -> list[int]:
        revision.grow(connection)  # first, because its row lock serialises all requests
        if any(_all(connection, name) for name in {each.subscription for each in replays}):
            return []
        return [
            connection.execute(insert(table).values(_values(each)).returning(_c.id)).scalar_one()
            for each in replays
        ]

    def __init__(self, transactions: Transactions) -> None:
        super().__init__(transactions)
        self._all: Gathered[str | None, list[Replay]] = Gathered(transactions, _for_each)

    async def all(self, subscription: str | None = None) -> list[Replay]:
        return await self._all.ask(subscription)

    @shared_transaction
    def save(self, connection: Connection, replay: Replay, epoch: int) -> None:
        fence(connection, replay.subscription, replay.broker, replay.partition, epoch)
        values = {"next": replay.next, "done": replay.done}
        connection.execute(update(table).where(_c.id == replay.id).values(values))

    @transaction
    def end(self, connection: Connection, replay: int) -> None:
        revision.grow(connection)
        connection.execute(delete(table).where(_c.id == replay))


def _for_each(connection: Connection, asked: Sequence[str | None]) -> list[list[Replay]]:
    """Return the replays of each subscription, or all of them for None. There are few."""
    every = _all(connection, None)
    return [[each for each in every if name in {None, each.subscription}] for name in asked]


def _all(connection: Connection, subscription: str | None) -> list[Replay]:
    query = select(table).order_by(_c.id)
    if subscription is not None:
        query = query.where(_c.subscription == subscription)
    return [
        struct_of(Replay, row, partition=Partition(row.topic, row.partition))
        for row in connection.execute(query)
    ]


def _values(replay: Replay) -> dict[str, Any]:
    place = replay.partition
    return values_of(replay, table, topic=place.topic, partition=place.number)
