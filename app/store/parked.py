"""Parked messages, which wait in the store for their turn, and redriven dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    case,
    delete,
    exists,
    false,
    func,
    null,
    select,
    tuple_,
    update,
)

from app.delivery.lane_id import KEYLESS
from app.interfaces import Parked, ParkedCount, ParkedKey, StoredLane
from app.model.message import Partition
from app.store.owners import fence_all, next_numbers
from app.store.rows import (
    in_partition,
    insert,
    message_row_of,
    message_row_values,
    move_conflicting,
    text,
)
from app.store.tables import ONCE, parked
from app.store.transactions import (
    Gathered,
    StorePart,
    Transactions,
    shared_transaction,
    transaction,
)

_Places = tuple[str, str, Collection[Partition]]
"""A subscription, its broker and partitions."""

_c = parked.c
_is_keyless = and_(_c.lane >= KEYLESS[0], _c.lane < KEYLESS[1])
_how_many_redriven = func.sum(case((_c.redriven, 1), else_=0))
_COUNTS = select(
    _c.subscription,
    func.count(),
    func.count(case((~_is_keyless, _c.lane)).distinct()),
    func.sum(case((_is_keyless, 1), else_=0)),
    func.min(_c.at_ms),
    _how_many_redriven,
).group_by(_c.subscription)
"""The counts of each subscription. It is asked for every few seconds, and building it leaves cycles of objects."""

_DONE_WITH = delete(parked).where(
    _c.redriven, *(_c[name] == bindparam(f"its_{name}") for name in ONCE)
)


class ParkedMessages(StorePart):
    """The stored parked messages and redriven dead letters. Implements ``interfaces.ParkedMessages``."""

    def __init__(self, transactions: Transactions) -> None:
        super().__init__(transactions)
        self._lanes: Gathered[_Places, Mapping[Partition, Mapping[bytes, StoredLane]]]
        self._lanes = Gathered(transactions, _lanes_for_each)
        self._redriven: Gathered[str, bool] = Gathered(transactions, _with_redriven)

    @shared_transaction
    def park(
        self, connection: Connection, rows: Sequence[Parked], *, numbered: bool = False
    ) -> None:
        if rows:
            fence_all(connection, rows)
            values = [message_row_values(row, parked, detail=text(row.detail)) for row in rows]
            if numbered:
                _number(connection, rows, values)
            _insert(connection, values)

    async def lanes(
        self, subscription: str, broker: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, Mapping[bytes, StoredLane]]:
        return await self._lanes.ask((subscription, broker, tuple(partitions)))

    async def rows(
        self,
        subscription: str,
        broker: str,
        partition: Partition,
        lane: bytes,
        *,
        after: int,
        limit: int,
        epoch: int | None = None,
    ) -> list[Parked]:
        query = (
            select(parked)
            .where(
                in_partition(parked, subscription, broker, partition),
                _c.lane == lane,
                _c.redriven == false(),
                _c.offset > after,
            )
            .order_by(_c.offset)
            .limit(limit)
        )
        epochs = None if epoch is None else {partition: epoch}
        return await self._transactions.run(_read, query, epochs)

    async def redriven(
        self,
        subscription: str,
        broker: str,
        epochs: Mapping[Partition, int],
        *,
        limit: int,
    ) -> list[Parked]:
        if not await self._redriven.ask(subscription):
            return []
        query = (
            select(parked)
            .where(
                _c.subscription == subscription,
                _c.redriven,
                _c.broker == broker,
                tuple_(_c.topic, _c.partition).in_(_places(epochs)),
                ~_waits_for_earlier(subscription, broker, epochs),
            )
            .order_by(_c.due_ms, _c.id)
            .limit(limit)
        )
        return await self._transactions.run(_read, query, epochs)

    @shared_transaction
    def unpark(self, connection: Connection, rows: Sequence[Parked]) -> None:
        fence_all(connection, rows)
        for first in range(0, len(rows), 500):
            remove(connection, [row.id for row in rows[first : first + 500]])

    @shared_transaction
    def defer(self, connection: Connection, row: Parked) -> None:
        fence_all(connection, [row])
        wait = {name: getattr(row, name) for name in ("steps", "attempts", "due_ms", "cause")}
        changed = update(parked).where(_c.id == row.id).values(**wait, detail=text(row.detail))
        connection.execute(changed)

    @transaction
    def count(self, connection: Connection) -> Mapping[str, ParkedCount]:
        rows = connection.execute(_COUNTS)
        return {name: ParkedCount(*counts) for name, *counts in rows}

    async def find(
        self,
        subscription: str | None = None,
        limit: int = 100,
        after: int = 0,
        event_id: str | None = None,
    ) -> list[Parked]:
        query = select(parked).where(_c.id > after).order_by(_c.id).limit(limit)
        if subscription is not None:
            query = query.where(_c.subscription == subscription)
        if event_id is not None:
            query = query.where(_c.event_id == text(event_id))
        return await self._transactions.run(_read, query)

    @transaction
    def keys(
        self, connection: Connection, subscription: str | None = None, limit: int = 100
    ) -> list[ParkedKey]:
        oldest = func.min(_c.id).label("oldest")
        lanes = (
            select(oldest, func.count().label("rows"), _how_many_redriven.label("given_back"))
            .group_by(_c.subscription, _c.broker, _c.topic, _c.partition, _c.lane)
            .order_by(oldest)
            .limit(limit)
        )
        if subscription is not None:
            lanes = lanes.where(_c.subscription == subscription)
        found = lanes.subquery()
        columns: list[Any] = [each for each in parked.c if each.name != _c.body.name]
        columns += [null().label(_c.body.name), found.c.rows, found.c.given_back]
        rows = connection.execute(
            select(*columns).join_from(parked, found, _c.id == found.c.oldest).order_by(_c.id)
        )
        return [ParkedKey(row.rows, row.given_back, message_row_of(Parked, row)) for row in rows]


def _waits_for_earlier(
    subscription: str, broker: str, epochs: Mapping[Partition, int]
) -> ColumnElement[bool]:
    """Return the condition that an earlier dead letter with the same key (``lane``) is due later.

    The index ``parked_redriven`` finds the first rows of a key, so few rows are read."""
    earlier = parked.alias("earlier").c
    place = tuple_(earlier.topic, earlier.partition)
    return exists().where(
        earlier.subscription == subscription,
        earlier.lane == _c.lane,
        earlier.letter < _c.letter,
        earlier.redriven,
        earlier.due_ms > _c.due_ms,
        earlier.broker == broker,
        place.in_(_places(epochs)),
    )


def _insert(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    wanted = insert(connection, parked).on_conflict_do_nothing()
    written = connection.execute(wanted, rows).rowcount
    if written < len(rows) and move_conflicting(connection, parked, rows):
        connection.execute(wanted, rows)


def remove(connection: Connection, ids: Collection[int]) -> None:
    """Delete parked rows by id."""
    connection.execute(delete(parked).where(_c.id.in_(ids)))


def give_back(
    connection: Connection, letters: Sequence[Row[Any]], rate: float, now_ms: int
) -> None:
    """Move dead letters to the parked rows, in the current transaction.

    They are due one after the other at ``rate`` per second (0: all at once), after the untried redriven rows of
    their subscription. A finished redriven row of the same message that is not deleted yet is deleted first.

    Args:
        connection: the connection of the transaction.
        letters: rows of dead letters.
        rate: letters per second.
        now_ms: the time in ms since the epoch.
    """
    gap = 1000 / rate if rate else 0.0
    ahead = _on_their_way(connection) if rate else {}
    rows = []
    for letter in letters:
        due = ahead.get(letter.subscription, now_ms - gap) + gap
        ahead[letter.subscription] = due = max(due, now_ms)
        rows.append(_given_back(letter, int(due), now_ms))
    move_conflicting(connection, parked, rows)
    connection.execute(_DONE_WITH, [{f"its_{name}": row[name] for name in ONCE} for row in rows])
    _insert(connection, rows)


def _on_their_way(connection: Connection) -> dict[str, float]:
    rows = connection.execute(
        select(_c.subscription, func.max(_c.due_ms))
        .where(_c.redriven, _c.attempts == 0)
        .group_by(_c.subscription)
    )
    return {subscription: float(due) for subscription, due in rows}


def _given_back(letter: Row[Any], due_ms: int, now_ms: int) -> dict[str, Any]:
    row = {name: value for name, value in letter._asdict().items() if name in _c}
    del row["id"]
    begun = {"redriven": True, "steps": 0, "attempts": 0, "due_ms": due_ms, "at_ms": now_ms}
    return row | begun | {"letter": letter.id}


def _number(
    connection: Connection, rows: Sequence[Parked], values: Sequence[dict[str, Any]]
) -> None:
    """Give the rows the next numbers of their partitions, in the given order."""
    claims = [(row.subscription, row.broker, row.message.partition) for row in rows]
    given = {
        claim: iter(next_numbers(connection, *claim, count))
        for claim, count in Counter(claims).items()
    }
    for claim, row in zip(claims, values, strict=True):
        row["offset"] = next(given[claim])


def _with_redriven(connection: Connection, asked: Sequence[str]) -> Sequence[bool]:
    """Return for each subscription whether it has redriven rows."""
    query = select(_c.subscription).where(_c.subscription.in_(set(asked)), _c.redriven).distinct()
    found = set(connection.scalars(query))
    return [name in found for name in asked]


def _lanes_for_each(
    connection: Connection, asked: Sequence[_Places]
) -> Sequence[Mapping[Partition, Mapping[bytes, StoredLane]]]:
    """Return the lanes of each request. Only partitions with parked rows need a query of their own."""
    columns = _c.subscription, _c.broker, _c.topic, _c.partition
    names = {subscription for subscription, _, _ in asked}
    query = select(*columns).where(_c.subscription.in_(names), _c.redriven == false()).distinct()
    occupied = {(name, broker, Partition(*at)) for name, broker, *at in connection.execute(query)}
    return [
        _lanes(connection, name, broker, [at for at in places if (name, broker, at) in occupied])
        for name, broker, places in asked
    ]


def _lanes(
    connection: Connection, subscription: str, broker: str, partitions: Collection[Partition]
) -> dict[Partition, dict[bytes, StoredLane]]:
    """Return the ordering keys (lanes) with parked rows in these partitions, with their number of rows and the due
    time of the first row."""
    found: dict[Partition, dict[bytes, StoredLane]] = {}
    for partition in partitions:
        mine = in_partition(parked, subscription, broker, partition) & (_c.redriven == false())
        heads = (
            select(_c.lane, func.count().label("rows"), func.min(_c.offset).label("head"))
            .where(mine)
            .group_by(_c.lane)
            .subquery()
        )
        rows = connection.execute(
            select(heads.c.lane, heads.c.rows, _c.due_ms)
            .where(mine)
            .join_from(parked, heads, and_(_c.lane == heads.c.lane, _c.offset == heads.c.head))
        )
        lanes = {lane: StoredLane(count, due_ms) for lane, count, due_ms in rows}
        if lanes:
            found[partition] = lanes
    return found


def _places(partitions: Collection[Partition]) -> list[tuple[str, int]]:
    return [(partition.topic, partition.number) for partition in partitions]


def _read(
    connection: Connection, query: Any, epochs: Mapping[Partition, int] | None = None
) -> list[Parked]:
    return [message_row_of(Parked, row, epochs) for row in connection.execute(query)]
