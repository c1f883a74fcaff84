"""The stored dead letters: messages that are not delivered until an operator redrives or discards them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select

from app.errors import StoreFull
from app.interfaces import DeadLetter, DeadLetterFilter
from app.store import parked, revision
from app.store.owners import fence
from app.store.rows import insert, message_row_of, message_row_values, move_conflicting, text
from app.store.tables import dead_letters
from app.store.transactions import StorePart, Transactions, transaction

STRIDE = (
    1_000  # rows after which all are counted again, because other processes write and delete too
)


class RowBound:
    """A bound on the rows of a table that does not count them at every write.

    Several processes together exceed it by at most 1,000 rows each."""

    def __init__(self, table: Table, max_rows: int) -> None:
        self._table = table
        self._max_rows = max_rows
        self._left = 0  # rows that still fit, as of the last count

    def take(self, connection: Connection) -> bool:
        """Return True if the row that was just written may stay."""
        if self._left <= 0:
            rows = connection.scalar(select(func.count()).select_from(self._table)) or 0
            self._left = min(STRIDE, self._max_rows - rows + 1)
        if self._left <= 0:
            return False
        self._left -= 1
        return True


AT_ONCE = 5_000  # letters that one transaction discards

_c = dead_letters.c


class DeadLetters(StorePart):
    """The stored dead letters, up to a bound. Implements ``interfaces.DeadLetters``.

    ``full`` is why the last letter was refused, or "" after a stored one."""

    def __init__(self, transactions: Transactions, max_rows: int) -> None:
        super().__init__(transactions)
        self._room = RowBound(dead_letters, max_rows)
        self._max_rows = max_rows
        self.full = ""

    async def add(self, letter: DeadLetter, parked: int | None = None) -> None:
        try:
            await self._transactions.together(self._add, letter, parked)
        except StoreFull as error:
            self.full = str(error)
            raise
        self.full = ""

    @transaction
    def find(
        self,
        connection: Connection,
        choice: DeadLetterFilter,
        limit: int = 100,
        before: int | None = None,
    ) -> list[DeadLetter]:
        query = select(dead_letters).where(*_chosen(choice)).order_by(_c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(_c.id < before)
        return [message_row_of(DeadLetter, row) for row in connection.execute(query)]

    @transaction
    def count(
        self, connection: Connection, choice: DeadLetterFilter
    ) -> Mapping[tuple[str, str], int]:
        rows = connection.execute(
            select(_c.subscription, _c.cause, func.count())
            .where(*_chosen(choice))
            .group_by(_c.subscription, _c.cause)
        )
        return {(subscription, cause): count for subscription, cause, count in rows}

    @transaction
    def count_over_time(
        self, connection: Connection, choice: DeadLetterFilter, every_ms: int
    ) -> Mapping[tuple[int, str], int]:
        start = (_c.at_ms - _c.at_ms % every_ms).label("start")
        rows = connection.execute(
            select(start, _c.cause, func.count()).where(*_chosen(choice)).group_by(start, _c.cause)
        )
        return {(at_ms, cause): count for at_ms, cause, count in rows}

    async def discard(self, choice: DeadLetterFilter) -> int:
        """Delete the chosen letters, 5,000 per transaction, so that other writes need not wait. Return their
        number."""
        gone = 0
        while True:
            count = await self._transactions.run(_discard, choice)
            gone += count
            if count < AT_ONCE:
                return gone

    @transaction
    def redrive(
        self,
        connection: Connection,
        choice: DeadLetterFilter,
        *,
        rate: float,
        now_ms: int,
        limit: int,
    ) -> int:
        """Move the chosen letters to the parked rows, and return their number.

        The letters are locked first, so that two redrives at once do not move the same ones."""
        query = select(dead_letters).where(*_chosen(choice)).order_by(_c.id).limit(limit)
        rows = connection.execute(query.with_for_update(skip_locked=True)).all()
        if rows:
            parked.give_back(connection, rows, rate, now_ms)
            for some in _hundreds([row.id for row in rows]):
                connection.execute(delete(dead_letters).where(_c.id.in_(some)))
            revision.grow(connection)
        return len(rows)

    def write(self, connection: Connection, letter: DeadLetter) -> None:
        """Write a dead letter in the current transaction. If the message already has a dead letter, nothing
        changes, even if the store is full."""
        values = message_row_values(letter, dead_letters, detail=text(letter.detail))
        written = _insert(connection, values)
        if not written and move_conflicting(connection, dead_letters, [values]):
            written = _insert(connection, values)
        if written and not self._room.take(connection):
            raise StoreFull(
                f"{self._max_rows} dead letters are stored, which is the bound: redrive or discard some, or raise"
                " store.dead_letters.max_rows"
            )

    def _add(self, connection: Connection, letter: DeadLetter, row: int | None) -> None:
        message = letter.message
        fence(connection, letter.subscription, letter.broker, message.partition, message.epoch)
        self.write(connection, letter)
        if row is not None:
            parked.remove(connection, [row])


def _insert(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Insert a row, and return True if it was not there before."""
    wanted = insert(connection, dead_letters).values(values).on_conflict_do_nothing()
    return connection.execute(wanted.returning(_c.id)).first() is not None


def _discard(connection: Connection, choice: DeadLetterFilter) -> int:
    some = select(_c.id).where(*_chosen(choice)).order_by(_c.id).limit(AT_ONCE)
    return connection.execute(delete(dead_letters).where(_c.id.in_(some))).rowcount


def _hundreds(ids: list[int]) -> Iterator[list[int]]:
    """Yield the ids in lists of 500, because SQLite bounds the parameters of a statement."""
    for first in range(0, len(ids), 500):
        yield ids[first : first + 500]


def _chosen(choice: DeadLetterFilter) -> Iterator[ColumnElement[bool]]:
    if choice.subscription is not None:
        yield _c.subscription == choice.subscription
    if choice.subscriptions:
        yield _c.subscription.in_(choice.subscriptions)
    if choice.causes:
        yield _c.cause.in_(choice.causes)
    if choice.since_ms is not None:
        yield _c.at_ms >= choice.since_ms
    if choice.until_ms is not None:
        yield _c.at_ms < choice.until_ms
    if choice.source is not None:
        yield _c.event_source == choice.source
    if choice.type is not None:
        yield _of_type(choice.type)
    yield from _named(choice)


def _named(choice: DeadLetterFilter) -> Iterator[ColumnElement[bool]]:
    if choice.event_id is not None:
        yield _c.event_id == text(choice.event_id)
    if choice.ids:
        yield _c.id.in_(choice.ids)


def _of_type(wanted: str) -> ColumnElement[bool]:
    """Return the condition for an event type or type prefix. LIKE is not used, because on SQLite it ignores case."""
    if not wanted.endswith("*"):
        return _c.event_type == wanted
    prefix = wanted[:-1]
    return func.substr(_c.event_type, 1, len(prefix)) == prefix
