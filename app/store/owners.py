"""The owners of partitions, the fence against old owners, and the numbers of parked rows.

Every write of an owner passes the fence. Parked rows without lasting positions are numbered in their order of
arrival. No clock is used, because the clocks of two machines may differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, select, update

from app.errors import StaleOwner
from app.model.message import Partition
from app.store.rows import MessageRow, in_partition, insert
from app.store.tables import owners
from app.store.transactions import Transactions


class Owners:
    """The stored owners of partitions. Implements ``interfaces.Owners``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def own(
        self,
        subscription: str,
        broker: str,
        partitions: Collection[Partition],
        epoch: int,
        *,
        newest: bool = False,
    ) -> None:
        places = sorted(partitions, key=_order)
        await self._transactions.together(_own, subscription, broker, places, epoch, newest)


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


def _own(
    connection: Connection,
    subscription: str,
    broker: str,
    partitions: Collection[Partition],
    epoch: int,
    newest: bool,
) -> None:
    """Store this epoch as the owner of many partitions in one statement."""
    rows = [_row(subscription, broker, partition, epoch) for partition in partitions]
    if not rows:
        return
    new = insert(connection, owners)
    same, changed = list(owners.primary_key), {"epoch": new.excluded.epoch}
    if not newest:
        connection.execute(new.on_conflict_do_update(index_elements=same, set_=changed), rows)
        return
    older = owners.c.epoch <= new.excluded.epoch
    connection.execute(
        new.on_conflict_do_update(index_elements=same, set_=changed, where=older), rows
    )
    _demand_owned(connection, subscription, broker, partitions, epoch)


def _demand_owned(
    connection: Connection,
    subscription: str,
    broker: str,
    partitions: Collection[Partition],
    epoch: int,
) -> None:
    query = select(owners.c.topic, owners.c.partition, owners.c.epoch).where(
        owners.c.subscription == subscription, owners.c.broker == broker, owners.c.epoch > epoch
    )
    for topic, number, noted in connection.execute(query):
        if (partition := Partition(topic, number)) in set(partitions):
            raise StaleOwner(
                f"{subscription}: {partition} is owned with epoch {noted}, which is not older than {epoch}"
            )


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
