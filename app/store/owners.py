"""The owner of a partition, the fence that every write of an owner passes, and the numbers of what is parked
in the order of its coming (rule 5). No clock is asked: those of two machines may differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, select, update

from app.errors import StaleOwner
from app.model.message import Partition
from app.store.rows import Kept, in_partition, insert
from app.store.tables import owners
from app.store.transactions import Transactions


class Owners:
    """Fills ``interfaces.Owners``."""

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


def fence_all(connection: Connection, kept: Iterable[Kept]) -> None:
    """``fence`` for the partition of each, in one order for all processes: two that lock the same
    partitions wait for each other instead of for themselves."""
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
    """Raises StaleOwner when another owner is noted; where none is, this one is noted. The owner's
    row is locked until the end of the transaction: nobody else becomes the owner before what is
    written under this epoch is there for him to see."""
    _fence(connection, subscription, broker, partition.topic, {(partition.number, epoch)})


def _fence(
    connection: Connection,
    subscription: str,
    broker: str,
    topic: str,
    claims: Collection[tuple[int, int]],
) -> None:
    """Of partitions of one topic, by number and epoch: one statement for all of them."""
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
                f"{subscription}: {Partition(topic, number)} is owned under epoch"
                f" {noted.get(number)}, refused a write under {epoch}"
            )


def _epochs(
    connection: Connection,
    subscription: str,
    broker: str,
    topic: str,
    claims: Collection[tuple[int, int]],
) -> dict[int, int]:
    """Of those that have an owner, whose rows are locked in their order."""
    numbers = sorted({number for number, _ in claims})
    query = select(owners.c.partition, owners.c.epoch).where(
        owners.c.subscription == subscription,
        owners.c.broker == broker,
        owners.c.topic == topic,
        owners.c.partition.in_(numbers),
    )
    found = connection.execute(query.order_by(owners.c.partition).with_for_update())
    return dict(map(tuple, found))


def numbers(
    connection: Connection, subscription: str, broker: str, partition: Partition, count: int
) -> range:
    """The next so many of this partition, whose owner's row is there. They are above all that were ever
    given, whatever became of the rows that got them."""
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
    """One statement however many partitions: a thousand subscriptions that start own thousands."""
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
                f"{subscription}: {partition} is owned under epoch {noted}, which is no older than {epoch}"
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
