"""Dead letters: what will not be delivered, until somebody redrives or discards it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select

from app.errors import StoreFull
from app.interfaces import DeadLetter, LetterChoice
from app.store import parked, revision
from app.store.owners import fence
from app.store.rows import insert, kept_of, kept_values, make_way, text
from app.store.tables import dead_letters
from app.store.transactions import Storing, Transactions, transaction

STRIDE = 1_000  # rows after which all are counted again: other processes write, and people discard


class Room:
    """A bound on the rows of a table, without counting them at every write. Several processes overstep it
    together by at most STRIDE rows each.
    """

    def __init__(self, table: Table, max_rows: int) -> None:
        self._table = table
        self._max_rows = max_rows
        self._left = 0  # of what was there when it was last counted

    def take(self, connection: Connection) -> bool:
        """Whether a row that was just written may stay."""
        if self._left <= 0:
            rows = connection.scalar(select(func.count()).select_from(self._table)) or 0
            self._left = min(STRIDE, self._max_rows - rows + 1)
        if self._left <= 0:
            return False
        self._left -= 1
        return True


AT_ONCE = 5_000  # letters that one transaction discards

_c = dead_letters.c


class DeadLetters(Storing):
    """Fills ``interfaces.DeadLetters``. ``full``: why the last one was refused, until one is taken."""

    def __init__(self, transactions: Transactions, max_rows: int) -> None:
        super().__init__(transactions)
        self._room = Room(dead_letters, max_rows)
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
        choice: LetterChoice,
        limit: int = 100,
        before: int | None = None,
    ) -> list[DeadLetter]:
        query = select(dead_letters).where(*_chosen(choice)).order_by(_c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(_c.id < before)
        return [kept_of(DeadLetter, row) for row in connection.execute(query)]

    @transaction
    def count(self, connection: Connection, choice: LetterChoice) -> Mapping[tuple[str, str], int]:
        rows = connection.execute(
            select(_c.subscription, _c.cause, func.count())
            .where(*_chosen(choice))
            .group_by(_c.subscription, _c.cause)
        )
        return {(subscription, cause): count for subscription, cause, count in rows}

    @transaction
    def count_over_time(
        self, connection: Connection, choice: LetterChoice, every_ms: int
    ) -> Mapping[tuple[int, str], int]:
        start = (_c.at_ms - _c.at_ms % every_ms).label("start")
        rows = connection.execute(
            select(start, _c.cause, func.count()).where(*_chosen(choice)).group_by(start, _c.cause)
        )
        return {(at_ms, cause): count for at_ms, cause, count in rows}

    async def discard(self, choice: LetterChoice) -> int:
        """A portion a transaction: a million letters must not keep others waiting, nor run into the
        time-out."""
        gone = 0
        while True:
            count = await self._transactions.run(_discard, choice)
            gone += count
            if count < AT_ONCE:
                return gone

    @transaction
    def redrive(
        self, connection: Connection, choice: LetterChoice, *, rate: float, now_ms: int, limit: int
    ) -> int:
        """Locked first: of two that redrive the same, the second moves what the first left."""
        query = select(dead_letters).where(*_chosen(choice)).order_by(_c.id).limit(limit)
        rows = connection.execute(query.with_for_update(skip_locked=True)).all()
        if rows:
            parked.give_back(connection, rows, rate, now_ms)
            for some in _hundreds([row.id for row in rows]):
                connection.execute(delete(dead_letters).where(_c.id.in_(some)))
            revision.grow(connection)
        return len(rows)

    def write(self, connection: Connection, letter: DeadLetter) -> None:
        """A second write of the same message changes nothing, also where there is no room (rule 5)."""
        values = kept_values(letter, dead_letters, detail=text(letter.detail))
        written = _insert(connection, values)
        if not written and make_way(connection, dead_letters, [values]):
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
    """Whether it was not there."""
    wanted = insert(connection, dead_letters).values(values).on_conflict_do_nothing()
    return connection.execute(wanted.returning(_c.id)).first() is not None


def _discard(connection: Connection, choice: LetterChoice) -> int:
    some = select(_c.id).where(*_chosen(choice)).order_by(_c.id).limit(AT_ONCE)
    return connection.execute(delete(dead_letters).where(_c.id.in_(some))).rowcount


def _hundreds(ids: list[int]) -> Iterator[list[int]]:
    """SQLite takes a bounded number of parameters."""
    for first in range(0, len(ids), 500):
        yield ids[first : first + 500]


def _chosen(choice: LetterChoice) -> Iterator[ColumnElement[bool]]:
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


def _named(choice: LetterChoice) -> Iterator[ColumnElement[bool]]:
    if choice.event_id is not None:
        yield _c.event_id == text(choice.event_id)
    if choice.ids:
        yield _c.id.in_(choice.ids)


def _of_type(wanted: str) -> ColumnElement[bool]:
    """Not LIKE: on SQLite it does not tell cases apart."""
    if not wanted.endswith("*"):
        return _c.event_type == wanted
    prefix = wanted[:-1]
    return func.substr(_c.event_type, 1, len(prefix)) == prefix
