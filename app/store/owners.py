"""Who owns a partition, as the store knows it. Plain functions on a connection."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from app.errors import StaleOwner
from app.interfaces import DeadLetter
from app.model.message import Partition
from app.store.tables import owners


def own(
    connection: Connection,
    subscription: str,
    broker: str,
    partitions: Iterable[Partition],
    epoch: int,
) -> None:
    """From now on this epoch is the newest, whatever was noted: the log has just said so, and some
    logs begin to count anew when a group was away for long."""
    for partition in partitions:
        values = {
            "subscription": subscription,
            "broker": broker,
            "topic": partition.topic,
            "partition": partition.number,
            "epoch": epoch,
        }
        connection.execute(
            insert(owners).values(values).on_conflict_do_update(set_={"epoch": epoch})
        )


def check(connection: Connection, letter: DeadLetter) -> None:
    """Raises StaleOwner when a newer owner is noted; notes an epoch that is newer itself."""
    message = letter.message
    noted = connection.scalar(
        select(owners.c.epoch).where(
            owners.c.subscription == letter.subscription,
            owners.c.broker == letter.broker,
            owners.c.topic == message.partition.topic,
            owners.c.partition == message.partition.number,
        )
    )
    if noted is not None and message.epoch < noted:
        raise StaleOwner(
            f"{letter.subscription}: {message.partition} is owned under epoch {noted},"
            f" refused a write under {message.epoch}"
        )
    if noted is None or message.epoch > noted:
        own(connection, letter.subscription, letter.broker, [message.partition], message.epoch)
