"""Messages that wait in the store for their turn (rules 4 and 5), and those given back by a redrive."""

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

from app.interfaces import Parked, ParkedCount, ParkedKey, ParkedLane
from app.model.message import Partition
from app.store.owners import fence_all, numbers
from app.store.rows import in_partition, insert, kept_of, kept_values, make_way, text
from app.store.tables import ONCE, parked
from app.store.transactions import Storing, shared_transaction, transaction

_c = parked.c
_how_many_redriven = func.sum(case((_c.redriven, 1), else_=0))

_DONE_WITH = delete(parked).where(
    _c.redriven, *(_c[name] == bindparam(f"its_{name}") for name in ONCE)
)


class ParkedMessages(Storing):
    """Fills ``interfaces.ParkedMessages``."""

    @shared_transaction
    def park(
        self, connection: Connection, rows: Sequence[Parked], *, numbered: bool = False
    ) -> None:
        if rows:
            fence_all(connection, rows)
            values = [kept_values(row, parked, detail=text(row.detail)) for row in rows]
            if numbered:
                _number(connection, rows, values)
            _insert(connection, values)

    async def lanes(
        self, subscription: str, broker: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, Mapping[bytes, ParkedLane]]:
        return await self._transactions.run(_lanes, subscription, broker, tuple(partitions))

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
        query = (
            select(parked)
            .where(
                _c.subscription == subscription,
                _c.redriven,
                _c.broker == broker,
                tuple_(_c.topic, _c.partition).in_(_places(epochs)),
                ~_is_behind(subscription, broker, epochs),
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
        rows = connection.execute(
            select(
                _c.subscription,
                func.count(),
                func.count(_c.lane.distinct()),
                func.min(_c.at_ms),
                _how_many_redriven,
            ).group_by(_c.subscription)
        )
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
        return [ParkedKey(row.rows, row.given_back, kept_of(Parked, row)) for row in rows]


def _is_behind(
    subscription: str, broker: str, epochs: Mapping[Partition, int]
) -> ColumnElement[bool]:
    """Return whether an earlier letter of the lane waits for longer. By the first rows of the lane (``parked_redriven``):
    few are read, whether none of them waits or the first does."""
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
    if written < len(rows) and make_way(connection, parked, rows):
        connection.execute(wanted, rows)


def remove(connection: Connection, ids: Collection[int]) -> None:
    connection.execute(delete(parked).where(_c.id.in_(ids)))


def give_back(
    connection: Connection, letters: Sequence[Row[Any]], rate: float, now_ms: int
) -> None:
    """Rows of dead letters as redriven ones, due one after the other at ``rate`` a second, behind those
    of their subscription that are on their way: those that failed since wait for their own reasons.

    A redriven row of the same message is done with, and about to be deleted by its id: it goes first."""
    gap = 1000 / rate if rate else 0.0
    ahead = _on_their_way(connection) if rate else {}
    rows = []
    for letter in letters:
        due = ahead.get(letter.subscription, now_ms - gap) + gap
        ahead[letter.subscription] = due = max(due, now_ms)
        rows.append(_given_back(letter, int(due), now_ms))
    make_way(connection, parked, rows)
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
    """In the order in which they are given."""
    claims = [(row.subscription, row.broker, row.message.partition) for row in rows]
    given = {
        claim: iter(numbers(connection, *claim, count)) for claim, count in Counter(claims).items()
    }
    for claim, row in zip(claims, values, strict=True):
        row["offset"] = next(given[claim])


def _lanes(
    connection: Connection, subscription: str, broker: str, partitions: Collection[Partition]
) -> dict[Partition, dict[bytes, ParkedLane]]:
    """When the oldest may be tried: of the row with the lowest offset."""
    found: dict[Partition, dict[bytes, ParkedLane]] = {}
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
        lanes = {lane: ParkedLane(count, due_ms) for lane, count, due_ms in rows}
        if lanes:
            found[partition] = lanes
    return found


def _places(partitions: Collection[Partition]) -> list[tuple[str, int]]:
    return [(partition.topic, partition.number) for partition in partitions]


def _read(
    connection: Connection, query: Any, epochs: Mapping[Partition, int] | None = None
) -> list[Parked]:
    return [kept_of(Parked, row, epochs) for row in connection.execute(query)]
