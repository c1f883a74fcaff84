"""Messages that wait to be pulled: locked while somebody has them, one of a lane at a time."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, func, select, update

from app.interfaces import DeadLetter, Offered
from app.store.dead_letters import DeadLetters
from app.store.owners import fence_all
from app.store.rows import insert, kept_of, kept_values, text
from app.store.tables import pulled
from app.store.transactions import Transactions

BURIAL = 60_000  # milliseconds that whoever buries worn-out messages has for it

_c = pulled.c


class PullQueue:
    """Fills ``interfaces.PullQueue``. The oldest of a lane is the one that was offered first. Tokens
    fence what is done with a message that was handed out, not epochs: whoever pulls owns nothing."""

    def __init__(self, transactions: Transactions, letters: DeadLetters) -> None:
        self._transactions = transactions
        self._letters = letters

    async def offer(self, rows: Sequence[Offered]) -> None:
        await self._transactions.together(_offer, rows)

    async def receive(
        self, subscription: str, *, most: int, lock_ms: int, now_ms: int
    ) -> list[Offered]:
        return await self._transactions.run(_receive, subscription, most, lock_ms, now_ms)

    async def locked(self, subscription: str, tokens: Sequence[str], now_ms: int) -> list[Offered]:
        return await self._transactions.run(_locked, subscription, tokens, now_ms)

    async def acknowledge(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> Mapping[str, bool]:
        return await self._transactions.together(_acknowledge, subscription, tokens, now_ms)

    async def release(
        self, subscription: str, tokens: Sequence[str], *, delay_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        values = {"token": "", "locked_until_ms": now_ms + delay_ms}
        return await self._transactions.together(_change, subscription, tokens, now_ms, values)

    async def renew(
        self, subscription: str, tokens: Sequence[str], *, lock_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        values = {"locked_until_ms": now_ms + lock_ms}
        return await self._transactions.together(_change, subscription, tokens, now_ms, values)

    async def bury(self, letters: Mapping[str, DeadLetter], now_ms: int) -> Mapping[str, bool]:
        return await self._transactions.together(self._bury, letters, now_ms)

    async def worn_out(
        self, subscription: str, *, most_deliveries: int, now_ms: int
    ) -> list[Offered]:
        return await self._transactions.run(_worn_out, subscription, most_deliveries, now_ms)

    async def count(self) -> Mapping[str, int]:
        return await self._transactions.run(_count)

    def _bury(
        self, connection: Connection, letters: Mapping[str, DeadLetter], now_ms: int
    ) -> dict[str, bool]:
        held = {row.token: row.id for row in _holders(connection, letters, now_ms)}
        for token in held:
            self._letters.write(connection, letters[token])
        _remove(connection, held.values())
        return {token: token in held for token in letters}


def _offer(connection: Connection, rows: Sequence[Offered]) -> None:
    if rows:
        fence_all(connection, rows)
        values = [kept_values(row, pulled) for row in rows]
        connection.execute(insert(connection, pulled).on_conflict_do_nothing(), values)


def _receive(
    connection: Connection, subscription: str, most: int, lock_ms: int, now_ms: int
) -> list[Offered]:
    """Rows that another takes at this moment are passed over, and with them the rest of their lanes."""
    older = pulled.alias("older")
    held_up = select(older.c.id).where(
        older.c.subscription == subscription, older.c.lane == _c.lane, older.c.id < _c.id
    )
    rows = connection.execute(
        select(pulled)
        .where(*_free(subscription, now_ms), ~held_up.exists())
        .order_by(_c.id)
        .limit(most)
        .with_for_update(skip_locked=True)
    ).all()
    return _hand_out(connection, rows, now_ms + lock_ms, 1)


def _worn_out(
    connection: Connection, subscription: str, most_deliveries: int, now_ms: int
) -> list[Offered]:
    rows = connection.execute(
        select(pulled)
        .where(*_free(subscription, now_ms), _c.deliveries >= most_deliveries)
        .order_by(_c.id)
        .with_for_update(skip_locked=True)
    ).all()
    return _hand_out(connection, rows, now_ms + BURIAL, 0)


def _free(subscription: str, now_ms: int) -> tuple[ColumnElement[bool], ...]:
    return _c.subscription == subscription, _c.locked_until_ms <= now_ms


def _hand_out(
    connection: Connection, rows: Sequence[Row[Any]], until_ms: int, deliveries: int
) -> list[Offered]:
    """Each under a token of its own, in one statement. ``deliveries``: how many are added."""
    locks = [
        {
            "token": secrets.token_urlsafe(18),
            "locked_until_ms": until_ms,
            "deliveries": row.deliveries + deliveries,
        }
        for row in rows
    ]
    if locks:
        named = [{"its": row.id, **lock} for row, lock in zip(rows, locks, strict=True)]
        connection.execute(update(pulled).where(_c.id == bindparam("its")), named)
    return [kept_of(Offered, row, None, **lock) for row, lock in zip(rows, locks, strict=True)]


def _locked(
    connection: Connection, subscription: str, tokens: Collection[str], now_ms: int
) -> list[Offered]:
    rows = _holders(connection, tokens, now_ms)
    return [kept_of(Offered, row) for row in rows if row.subscription == subscription]


def _acknowledge(
    connection: Connection, subscription: str, tokens: Collection[str], now_ms: int
) -> dict[str, bool]:
    held = _held(connection, subscription, tokens, now_ms)
    _remove(connection, held.values())
    return {token: token in held for token in tokens}


def _change(
    connection: Connection,
    subscription: str,
    tokens: Collection[str],
    now_ms: int,
    values: dict[str, Any],
) -> dict[str, bool]:
    held = _held(connection, subscription, tokens, now_ms)
    connection.execute(update(pulled).where(_c.id.in_(held.values())).values(values))
    return {token: token in held for token in tokens}


def _held(
    connection: Connection, subscription: str, tokens: Collection[str], now_ms: int
) -> dict[str, int]:
    rows = _holders(connection, tokens, now_ms)
    return {row.token: row.id for row in rows if row.subscription == subscription}


def _holders(connection: Connection, tokens: Collection[str], now_ms: int) -> Sequence[Row[Any]]:
    """Rows whose token holds, locked. A free row has no token, and none finds it."""
    known = [text(token) for token in tokens if token]  # no token of ours is changed by it
    query = select(pulled).where(_c.token.in_(known), _c.locked_until_ms > now_ms)
    return connection.execute(query.order_by(_c.id).with_for_update()).all()


def _remove(connection: Connection, ids: Collection[int]) -> None:
    connection.execute(delete(pulled).where(_c.id.in_(ids)))


def _count(connection: Connection) -> dict[str, int]:
    rows = connection.execute(select(_c.subscription, func.count()).group_by(_c.subscription))
    return {subscription: count for subscription, count in rows}  # noqa: C416 - rows are not tuples
