"""The pull queues: messages that wait for a consumer. A received message is locked, and later messages with its key
wait."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from app.interfaces import DeadLetter, EventName, PullMessage, QueueCount
from app.model.message import Partition
from app.store.dead_letters import DeadLetters
from app.store.owners import fence_all
from app.store.pulled_sql import OFFERED, Values, statements
from app.store.rows import message_columns, message_of, move_conflicting, text
from app.store.tables import pulled
from app.store.transactions import Transactions

DEAD_LETTER_LOCK = 60_000  # ms that a process has to dead-letter messages with too many deliveries


class PullQueue:
    """The messages of pull queues. Implements ``interfaces.PullQueue``.

    The oldest message with a key is the one that was offered first. Lock tokens, not epochs, fence the changes of a
    received message, because a consumer owns no partition. A token is a secret and the id of its row. The messages
    of one receive share the secret, because they went to one consumer."""

    def __init__(self, transactions: Transactions, letters: DeadLetters) -> None:
        self._transactions = transactions
        self._letters = letters

    async def offer(self, rows: Sequence[PullMessage]) -> None:
        await self._transactions.together(_offer, rows)

    async def receive(
        self,
        subscription: str,
        *,
        most: int,
        most_bytes: int,
        lock_ms: int,
        now_ms: int,
        consumer: str = "",
    ) -> list[PullMessage]:
        return await self._transactions.run(
            _receive, subscription, most, most_bytes, lock_ms, now_ms, text(consumer)
        )

    async def at(
        self, subscription: str, broker: str, partition: Partition, position: str
    ) -> PullMessage | None:
        return await self._transactions.run(_at, subscription, broker, partition, position)

    async def named(self, event_id: str, most: int) -> list[PullMessage]:
        return await self._transactions.run(_named, event_id, most)

    async def locked(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> list[PullMessage]:
        return await self._transactions.run(_locked, subscription, tokens, now_ms)

    async def acknowledge(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> Mapping[str, bool]:
        return await self._transactions.together(_acknowledge, subscription, tokens, now_ms)

    async def release(
        self, subscription: str, tokens: Sequence[str], *, delay_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        until = now_ms + delay_ms
        return await self._transactions.together(_release, subscription, tokens, now_ms, until)

    async def renew(
        self, subscription: str, tokens: Sequence[str], *, lock_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        until = now_ms + lock_ms
        return await self._transactions.together(_renew, subscription, tokens, now_ms, until)

    async def bury(self, letters: Mapping[str, DeadLetter], now_ms: int) -> Mapping[str, bool]:
        return await self._transactions.together(self._bury, letters, now_ms)

    async def worn_out(
        self, subscription: str, *, most_deliveries: int, now_ms: int
    ) -> list[PullMessage]:
        return await self._transactions.run(_worn_out, subscription, most_deliveries, now_ms)

    async def count(self, subscription: str) -> int:
        return await self._transactions.run(_count, subscription)

    async def count_all(self) -> Mapping[str, QueueCount]:
        return await self._transactions.run(_count_all)

    def _bury(
        self, connection: Connection, letters: Mapping[str, DeadLetter], now_ms: int
    ) -> dict[str, bool]:
        held = _held(connection, None, letters, now_ms)
        for token in held:
            self._letters.write(connection, letters[token])
        return _change(connection, statements(connection).remove, (), held, letters)


def _offer(connection: Connection, rows: Sequence[PullMessage]) -> None:
    if rows:
        fence_all(connection, rows)
        sql = statements(connection)
        values = [
            (row.subscription, row.broker, row.lane, row.at_ms, *message_columns(row))
            for row in rows
        ]
        offered = sql.offered(values)
        count = connection.exec_driver_sql(sql.insert, offered).rowcount
        named = (dict(zip(OFFERED, each, strict=True)) for each in values)
        if count < len(rows) and move_conflicting(connection, pulled, named):
            connection.exec_driver_sql(sql.insert, offered)


def _receive(
    connection: Connection,
    subscription: str,
    most: int,
    most_bytes: int,
    lock_ms: int,
    now_ms: int,
    consumer: str,
) -> list[PullMessage]:
    """Lock and return the oldest free messages. If another process locks a message now, all messages with its key
    are skipped."""
    free = connection.exec_driver_sql(statements(connection).free, (subscription, now_ms, most))
    ids, left = [], most_bytes
    for number, size in free:
        ids.append(number)
        left -= size
        if left <= 0:
            break
    return _hand_out(connection, ids, now_ms + lock_ms, 1, consumer)


def _at(
    connection: Connection, subscription: str, broker: str, partition: Partition, position: str
) -> PullMessage | None:
    place = subscription, broker, partition.topic, partition.number, position
    rows = connection.exec_driver_sql(statements(connection).found, place)
    return next(map(_offered, rows), None)


def _named(connection: Connection, event_id: str, most: int) -> list[PullMessage]:
    rows = connection.exec_driver_sql(statements(connection).named, (text(event_id), most))
    return list(map(_offered, rows))


def _worn_out(
    connection: Connection, subscription: str, most_deliveries: int, now_ms: int
) -> list[PullMessage]:
    asked = (subscription, now_ms, most_deliveries)
    worn = connection.exec_driver_sql(statements(connection).worn, asked)
    return _hand_out(connection, list(worn.scalars()), now_ms + DEAD_LETTER_LOCK, 0)


def _hand_out(
    connection: Connection,
    ids: Sequence[int],
    until_ms: int,
    deliveries: int,
    consumer: str = "",
) -> list[PullMessage]:
    """Lock these rows, each with a token of its own, in one statement. ``deliveries`` is added to their delivery
    count."""
    if not ids:
        return []
    sql = statements(connection)
    asked = (f"{secrets.token_urlsafe(18)}.", until_ms, deliveries, consumer, sql.listed(ids))
    rows = connection.exec_driver_sql(sql.hand_out, asked)
    return sorted(map(_offered, rows), key=lambda row: row.id)


def _locked(
    connection: Connection, subscription: str, tokens: Collection[str], now_ms: int
) -> list[PullMessage]:
    sql, held = statements(connection), _held(connection, subscription, tokens, now_ms)
    found = connection.exec_driver_sql(sql.rows, (sql.listed(list(held.values())),))
    return list(map(_offered, found))


def _acknowledge(
    connection: Connection, subscription: str, tokens: Collection[str], now_ms: int
) -> dict[str, bool]:
    sql = statements(connection).remove
    return _change(connection, sql, (), _held(connection, subscription, tokens, now_ms), tokens)


def _release(
    connection: Connection, subscription: str, tokens: Collection[str], now_ms: int, until_ms: int
) -> dict[str, bool]:
    sql, held = statements(connection).release, _held(connection, subscription, tokens, now_ms)
    return _change(connection, sql, (until_ms,), held, tokens)


def _renew(
    connection: Connection, subscription: str, tokens: Collection[str], now_ms: int, until_ms: int
) -> dict[str, bool]:
    sql, held = statements(connection).renew, _held(connection, subscription, tokens, now_ms)
    return _change(connection, sql, (until_ms,), held, tokens)


def _change(
    connection: Connection,
    sql: str,
    values: Values,
    held: Mapping[str, int],
    tokens: Collection[str],
) -> dict[str, bool]:
    ids = statements(connection).listed(list(held.values()))
    connection.exec_driver_sql(sql, (*values, ids))
    return {token: token in held for token in tokens}


def _held(
    connection: Connection, subscription: str | None, tokens: Collection[str], now_ms: int
) -> dict[str, int]:
    """Lock the rows whose token is valid, and return their ids by token. ``subscription`` None means any."""
    sql = statements(connection)
    known = [text(token) for token in tokens if token]  # ``text`` changes no valid token
    rows = connection.exec_driver_sql(sql.held, (sql.listed(known), now_ms))
    return {token: number for token, number, its in rows if subscription in (None, its)}


def _count(connection: Connection, subscription: str) -> int:
    found = connection.exec_driver_sql(statements(connection).count, (subscription,))
    count: int = found.scalar_one()
    return count


def _count_all(connection: Connection) -> dict[str, QueueCount]:
    rows = connection.exec_driver_sql(statements(connection).count_all)
    return {name: QueueCount(*counts) for name, *counts in rows}


def _offered(row: Sequence[Any]) -> PullMessage:
    """Return the message of a row with the columns ``pulled_sql.ROW``."""
    number, subscription, broker, lane, deliveries, token, until_ms, at_ms = row[:8]
    return PullMessage(
        subscription=subscription,
        broker=broker,
        message=message_of(*row[8:-4]),
        lane=lane,
        deliveries=deliveries,
        token=token,
        locked_until_ms=until_ms,
        at_ms=at_ms,
        event=EventName(*row[-4:-1]),
        consumer=row[-1],
        id=number,
    )
