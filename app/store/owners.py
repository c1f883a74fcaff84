"""Who owns a partition, and the fence that every write of an owner passes (rule 5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, Row, select, update

from app.errors import StaleOwner
from app.model.message import Partition
from app.store.dialect import insert
from app.store.messages import Kept, in_partition
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
        since_ms: int,
    ) -> None:
        places = sorted(partitions, key=_order)
        await self._transactions.together(_own, subscription, broker, places, epoch, since_ms)


def fence_all(connection: Connection, kept: Iterable[Kept]) -> None:
    """``fence`` for the partition of each, in one order for all processes: two that lock the same
    partitions wait for each other instead of for themselves."""
    claims = {(each.subscription, each.broker, each.message.partition) for each in kept}
    epochs: dict[tuple[str, str, Partition], set[int]] = {claim: set() for claim in claims}
    for each in kept:
        epochs[each.subscription, each.broker, each.message.partition].add(each.message.epoch)
    for claim in sorted(claims, key=lambda one: (one[0], one[1], *_order(one[2]))):
        for epoch in sorted(epochs[claim], reverse=True):
            fence(connection, *claim, epoch)


def fence(
    connection: Connection, subscription: str, broker: str, partition: Partition, epoch: int
) -> None:
    """Raises StaleOwner when a newer owner is noted; notes an epoch that is newer itself. The owner's
    row is locked until the end of the transaction: nobody else becomes the owner before what is
    written under this epoch is there for him to see."""
    noted = _noted(connection, subscription, broker, partition, epoch)
    if epoch < noted.epoch:
        raise StaleOwner(
            f"{subscription}: {partition} is owned under epoch {noted.epoch},"
            f" refused a write under {epoch}"
        )
    if epoch > noted.epoch:
        _note(connection, subscription, broker, partition, {"epoch": epoch})


def _own(
    connection: Connection,
    subscription: str,
    broker: str,
    partitions: Collection[Partition],
    epoch: int,
    since_ms: int,
) -> None:
    """Three statements however many partitions: a thousand subscriptions that start own thousands."""
    noted = _all_noted(connection, subscription, broker, partitions, epoch)
    rows = []
    for partition in partitions:
        known_epoch, known_since = noted[partition]
        if epoch < known_epoch and since_ms <= known_since:
            raise StaleOwner(
                f"{subscription}: {partition} is owned under epoch {known_epoch},"
                f" which is no older than {epoch}"
            )
        rows.append(_row(subscription, broker, partition, epoch, max(since_ms, known_since)))
    if rows:
        new = insert(connection, owners)
        changed = {"epoch": new.excluded.epoch, "since_ms": new.excluded.since_ms}
        same = list(owners.primary_key)
        connection.execute(new.on_conflict_do_update(index_elements=same, set_=changed), rows)


def _all_noted(
    connection: Connection,
    subscription: str,
    broker: str,
    partitions: Collection[Partition],
    epoch: int,
) -> dict[Partition, tuple[int, int]]:
    """Epoch and time of each, locked in their order; new rows have this epoch and were given at no
    time."""
    rows = [_row(subscription, broker, partition, epoch, 0) for partition in partitions]
    if rows:
        connection.execute(insert(connection, owners).on_conflict_do_nothing(), rows)
    query = (
        select(owners.c.topic, owners.c.partition, owners.c.epoch, owners.c.since_ms)
        .where(owners.c.subscription == subscription, owners.c.broker == broker)
        .order_by(owners.c.topic, owners.c.partition)
        .with_for_update()
    )
    return {
        Partition(topic, number): (noted, since)
        for topic, number, noted, since in connection.execute(query)
    }


def _row(
    subscription: str, broker: str, partition: Partition, epoch: int, since_ms: int
) -> dict[str, object]:
    return {
        "subscription": subscription,
        "broker": broker,
        "topic": partition.topic,
        "partition": partition.number,
        "epoch": epoch,
        "since_ms": since_ms,
    }


def _noted(
    connection: Connection, subscription: str, broker: str, partition: Partition, epoch: int
) -> Row[int, int]:
    """The row of this partition, locked; a new one has this epoch and was given at no time."""
    query = (
        select(owners.c.epoch, owners.c.since_ms)
        .where(in_partition(owners, subscription, broker, partition))
        .with_for_update()
    )
    found = connection.execute(query).one_or_none()
    if found is None:
        row = _row(subscription, broker, partition, epoch, 0)
        connection.execute(insert(connection, owners).values(row).on_conflict_do_nothing())
        found = connection.execute(query).one()
    return found


def _note(
    connection: Connection,
    subscription: str,
    broker: str,
    partition: Partition,
    values: dict[str, int],
) -> None:
    here = in_partition(owners, subscription, broker, partition)
    connection.execute(update(owners).where(here).values(values))


def _order(partition: Partition) -> tuple[str, int]:
    return partition.topic, partition.number
