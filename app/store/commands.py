"""Commands that the API gives to the worker of a subscription, with their answers."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from app.interfaces import Command, RetryResult
from app.store import revision
from app.store.rows import struct_of, values_of
from app.store.tables import commands
from app.store.transactions import StorePart, transaction

VOID = 60_000  # ms after which a command is no longer taken
RETRY = "retry"
KEPT = 3_600_000  # ms after which a command and its answer are deleted

_c = commands.c


class Commands(StorePart):
    """The stored commands for workers, with their answers. Implements ``interfaces.Commands``."""

    @transaction
    def ask(self, connection: Connection, command: Command) -> int:
        revision.grow(connection)
        connection.execute(delete(commands).where(_c.asked_ms <= command.asked_ms - KEPT))
        row = values_of(command, commands)
        number: int = connection.execute(insert(commands).values(row).returning(_c.id)).scalar_one()
        return number

    async def take(self, subscriptions: Collection[str], now_ms: int) -> list[Command]:
        return await self._transactions.run(_take, tuple(subscriptions), now_ms)

    @transaction
    def answer(self, connection: Connection, command: int, answer: bytes) -> None:
        connection.execute(update(commands).where(_c.id == command).values(answer=answer))

    @transaction
    def retries(
        self, connection: Connection, subscriptions: Collection[str], now_ms: int
    ) -> list[Command]:
        wanted = _c.subscription.in_(tuple(subscriptions)), _c.asked_ms > now_ms - VOID
        rows = connection.execute(select(commands).where(_c.kind == RETRY, *wanted).order_by(_c.id))
        return [struct_of(Command, row) for row in rows]

    @transaction
    def add_result(self, connection: Connection, command: int, result: RetryResult) -> None:
        mine = _c.id == command
        given = connection.execute(select(_c.answer).where(mine).with_for_update()).scalar()
        if given is not None:
            result = msgspec.json.decode(given, type=RetryResult).plus(result)
        answer = msgspec.json.encode(result)
        connection.execute(update(commands).where(mine).values(answer=answer))

    @transaction
    def get(self, connection: Connection, command: int) -> Command | None:
        row = connection.execute(select(commands).where(_c.id == command)).one_or_none()
        return None if row is None else struct_of(Command, row)


def _take(connection: Connection, subscriptions: Collection[str], now_ms: int) -> list[Command]:
    """Take the pending commands of these subscriptions. Rows that another process locks now are skipped."""
    rows = connection.execute(
        select(commands)
        .where(
            _c.subscription.in_(subscriptions),
            _c.kind != RETRY,
            _c.taken_ms.is_(None),
            _c.answer.is_(None),
            _c.asked_ms > now_ms - VOID,
        )
        .order_by(_c.id)
        .with_for_update(skip_locked=True)
    ).all()
    ids = [row.id for row in rows]
    connection.execute(update(commands).where(_c.id.in_(ids)).values(taken_ms=now_ms))
    return [struct_of(Command, row) for row in rows]
