"""The owners of partitions, the fence against old owners, and the numbers of parked rows.

Every write of an owner passes the fence. Parked rows without lasting positions are numbered in their order of
arrival. No clock is used, because the clocks of two machines may differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from app.errors import StaleOwner
from app.model.message import Partition
from app.store.rows import MessageRow, in_partition, insert
from app.store.tables import owners
from app.store.transactions import Gathered, Transactions


class _Claim(NamedTuple):
    """A request to own partitions, as ``interfaces.Owners.own`` takes it."""

    subscription: str
    broker: str
    partitions: Collection[Partition]
    epoch: int
    newest: bool


class Owners:
    """The stored owners of partitions. Implements ``interfaces.Owners``."""

    def __init__(self, transactions: Transactions) -> None:
        self._claims: Gathered[_Claim, None] = Gathered(transactions, _own_each)

    async def own(
        self,
        subscription: str,
        broker: str,
        partitions: Collection[Partition],
        epoch: int,
        *,
        newest: bool = False,
    ) -> None:
        await self._claims.ask(_Claim(subscription, broker, tuple(partitions), epoch, newest))


def fence_all(connection: Connection, kept: Iterable[MessageRow]) -> None:
    """Check the owner of the partition of each row, as ``fence`` does.

    Partitions are locked in one order, so that two processes cannot deadlock."""
    claims: dict[tuple[str, str, str], set[tuple[int, int]]] = {}
    for each in kept:
        partition = each.message.partition
        topic = each.subscription, each.broker, partition.topic
        claims.setdefault(topic, set()).add((partition.number, each.message.epoch))
    for topic in sorted(claims):
        _fence(connection, *topic, claims[topic])


def fence(
    connection: Connection, subscription: str, broker: str, partition: Partition, epoch: int
) -> None:
    """Lock the partition's owner until the end of the transaction, and store this epoch if there is no owner.

    No other process can become the owner before it sees what this transaction writes.

    Raises:
        StaleOwner: another epoch owns the partition.
    """
    _fence(connection, subscription, broker, partition.topic, {(partition.number, epoch)})


def _fence(
    connection: Connection,
    subscription: str,
    broker: str,
    topic: str,
    claims: Collection[tuple[int, int]],
) -> None:
    """Check partitions of one topic, given as numbers and epochs, in one statement."""
    noted = _epochs(connection, subscription, broker, topic, claims)
    new = [(number, epoch) for number, epoch in sorted(claims) if number not in noted]
    if new:
        rows = [
            _row(subscription, broker, Partition(topic, number), epoch) for number, epoch in new
        ]
        connection.execute(insert(connection, owners).on_conflict_do_nothing(), rows)
        noted = _epochs(connection, subscription, broker, topic, claims)
    for number, epoch in claims:
        if epoch != noted.get(number):
            raise StaleOwner(
                f"{subscription}: {Partition(topic, number)} is owned with epoch"
                f" {noted.get(number)}; a write with epoch {epoch} was refused"
            )


def _epochs(
    connection: Connection,
    subscription: str,
    broker: str,
    topic: str,
    claims: Collection[tuple[int, int]],
) -> dict[int, int]:
    """Lock the owners of these partitions in order, and return their epochs by partition number."""
    numbers = sorted({number for number, _ in claims})
    query = select(owners.c.partition, owners.c.epoch).where(
        owners.c.subscription == subscription,
        owners.c.broker == broker,
        owners.c.topic == topic,
        owners.c.partition.in_(numbers),
    )
    found = connection.execute(query.order_by(owners.c.partition).with_for_update())
    return dict(map(tuple, found))


def next_numbers(
    connection: Connection, subscription: str, broker: str, partition: Partition, count: int
) -> range:
    """Return the next ``count`` numbers of a partition that has an owner. They are higher than all earlier ones."""
    here = in_partition(owners, subscription, broker, partition)
    counted = update(owners).where(here).values(number=owners.c.number + count)
    last: int = connection.execute(counted.returning(owners.c.number)).scalar_one()
    return range(last - count + 1, last + 1)


def _own_each(connection: Connection, claims: Sequence[_Claim]) -> Sequence[StaleOwner | None]:
    """Store the epochs of all claims that are not stale, in two statements. Return the error of each stale claim."""
    stale = _stale(connection, claims)
    rows = {
        (claim.subscription, claim.broker, *_order(at)): _row(
            claim.subscription, claim.broker, at, claim.epoch
        )
        for claim, error in zip(claims, stale, strict=True)
        if error is None
        for at in claim.partitions
    }
    if rows:  # in one order, so that two processes cannot deadlock
        new = insert(connection, owners)
        same, changed = list(owners.primary_key), {"epoch": new.excluded.epoch}
        write = new.on_conflict_do_update(index_elements=same, set_=changed)
        connection.execute(write, [row for _, row in sorted(rows.items())])
    return stale


def _stale(connection: Connection, claims: Sequence[_Claim]) -> Sequence[StaleOwner | None]:
    """Lock the owners of the claimed partitions, and return an error for each claim with a greater epoch in the store."""
    names = {claim.subscription for claim in claims if claim.newest}
    if not names:
        return [None] * len(claims)
    columns = owners.c.subscription, owners.c.broker, owners.c.topic, owners.c.partition
    query = select(*columns, owners.c.epoch).where(owners.c.subscription.in_(names))
    found = connection.execute(query.order_by(*columns).with_for_update())
    known = {(name, broker, Partition(*at)): epoch for name, broker, *at, epoch in found}
    return [_fault(claim, known) for claim in claims]


def _fault(claim: _Claim, known: Mapping[tuple[str, str, Partition], int]) -> StaleOwner | None:
    for at in claim.partitions if claim.newest else ():
        noted = known.get((claim.subscription, claim.broker, at), claim.epoch)
        if noted > claim.epoch:
            return StaleOwner(
                f"{claim.subscription}: {at} is owned with epoch {noted}, which is not older than {claim.epoch}"
            )
    return None


def _row(subscription: str, broker: str, partition: Partition, epoch: int) -> dict[str, object]:
    return {
        "subscription": subscription,
        "broker": broker,
        "topic": partition.topic,
        "partition": partition.number,
        "epoch": epoch,
        "number": 0,
    }


def _order(partition: Partition) -> tuple[str, int]:
    return partition.topic, partition.number
