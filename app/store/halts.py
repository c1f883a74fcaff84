"""The stored halts of subscriptions: paused by an operator, or disabled by their target's answer 410."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from sqlalchemy import Connection, delete, select

from app.interfaces import Halt
from app.store import revision
from app.store.rows import insert, text
from app.store.tables import halts
from app.store.transactions import Gathered, StorePart, Transactions, transaction

Kind = Literal["paused", "disabled"]

_c = halts.c


class Halts(StorePart):
    """The stored halts of subscriptions. Implements ``interfaces.Halts``.

    A repeated halt keeps its time and gets the new cause."""

    def __init__(self, transactions: Transactions) -> None:
        super().__init__(transactions)
        self._all: Gathered[None, Mapping[str, Halt]] = Gathered(transactions, _all)

    async def all(self) -> Mapping[str, Halt]:
        return await self._all.ask(None)

    @transaction
    def halt(
        self, connection: Connection, subscription: str, kind: Kind, cause: str, now_ms: int
    ) -> None:
        revision.grow(connection)  # first, because its row lock serialises all changes
        found = connection.execute(
            select(halts).where(_c.subscription == subscription)
        ).one_or_none()
        if found is not None and found.kind == "disabled" and kind == "paused":
            return
        since_ms = found.since_ms if found is not None and found.kind == kind else now_ms
        values = {"kind": kind, "cause": text(cause), "since_ms": since_ms}
        connection.execute(
            insert(connection, halts)
            .values(subscription=subscription, **values)
            .on_conflict_do_update(index_elements=["subscription"], set_=values)
        )

    @transaction
    def allow(self, connection: Connection, subscription: str) -> None:
        revision.grow(connection)
        connection.execute(delete(halts).where(_c.subscription == subscription))


def _all(connection: Connection, asked: Sequence[None]) -> Sequence[Mapping[str, Halt]]:
    rows = connection.execute(select(halts))
    found = {row.subscription: Halt(row.kind, row.cause, row.since_ms) for row in rows}
    return [found for _ in asked]
