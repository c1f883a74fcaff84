"""The positions of groups in RabbitMQ streams, which do not store them themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import ColumnElement, Connection, and_, select, update

from app.errors import StaleOwner
from app.interfaces import Commit
from app.model.message import Partition
from app.store.rows import insert
from app.store.tables import stream_offsets
from app.store.transactions import Transactions

_columns = stream_offsets.c


class StreamOffsets:
    """The stored positions of groups in streams. Implements ``interfaces.OffsetStore``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def offsets(
        self, broker: str, group: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, Commit]:
        return await self._transactions.run(_load, broker, group, tuple(partitions))

    async def start_offsets(
        self, broker: str, group: str, commits: Mapping[Partition, Commit]
    ) -> None:
        await self._transactions.run(_start, broker, group, dict(commits))

    async def own_offsets(
        self, broker: str, group: str, epoch: int, partitions: Collection[Partition]
    ) -> Mapping[Partition, Commit]:
        return await self._transactions.run(_own, broker, group, epoch, tuple(partitions))

    async def save_offsets(
        self, broker: str, group: str, epoch: int, commits: Mapping[Partition, Commit]
    ) -> None:
        stale = await self._transactions.run(_save, broker, group, epoch, dict(commits))
        if stale:
            names = ", ".join(map(str, stale))
            raise StaleOwner(
                f"{group}: {names} have another owner; a commit with epoch {epoch} was refused"
            )


def _load(
    connection: Connection, broker: str, group: str, partitions: Collection[Partition]
) -> dict[Partition, Commit]:
    topics = {partition.topic for partition in partitions}
    rows = connection.execute(
        select(stream_offsets).where(
            _columns.broker == broker, _columns.group == group, _columns.topic.in_(topics)
        )
    )
    found = {Partition(row.topic, row.partition): Commit(row.offset, row.finished) for row in rows}
    return {partition: found[partition] for partition in partitions if partition in found}


def _start(
    connection: Connection, broker: str, group: str, commits: Mapping[Partition, Commit]
) -> None:
    """Store start positions of a group for partitions that have no position yet. No epoch owns them yet."""
    for partition, commit in commits.items():
        row = _row(broker, group, 0, partition, commit)
        connection.execute(insert(connection, stream_offsets).values(row).on_conflict_do_nothing())


def _own(
    connection: Connection,
    broker: str,
    group: str,
    epoch: int,
    partitions: Collection[Partition],
) -> dict[Partition, Commit]:
    """Make this epoch the owner, whatever epoch was stored, because the broker has just assigned the partitions."""
    known = _load(connection, broker, group, partitions)
    for partition in known:
        connection.execute(
            update(stream_offsets).where(_at(broker, group, partition)).values(epoch=epoch)
        )
    return known


def _save(
    connection: Connection,
    broker: str,
    group: str,
    epoch: int,
    commits: Mapping[Partition, Commit],
) -> list[Partition]:
    """Store the positions, and return the partitions that another epoch owns."""
    return [
        partition
        for partition, commit in commits.items()
        if not _save_one(connection, broker, group, epoch, partition, commit)
    ]


def _save_one(
    connection: Connection,
    broker: str,
    group: str,
    epoch: int,
    partition: Partition,
    commit: Commit,
) -> bool:
    row = _row(broker, group, epoch, partition, commit)
    values = {name: row[name] for name in ("epoch", "offset", "finished")}
    statement = insert(connection, stream_offsets).values(row)
    written = connection.execute(
        statement.on_conflict_do_update(
            index_elements=["broker", "group", "topic", "partition"],
            set_=values,
            where=_columns.epoch == epoch,
        ).returning(_columns.epoch)
    )
    return written.first() is not None


def _row(
    broker: str, group: str, epoch: int, partition: Partition, commit: Commit
) -> dict[str, str | int]:
    return {
        "broker": broker,
        "group": group,
        "topic": partition.topic,
        "partition": partition.number,
        "epoch": epoch,
        "offset": commit.offset,
        "finished": commit.metadata,
    }


def _at(broker: str, group: str, partition: Partition) -> ColumnElement[bool]:
    return and_(
        _columns.broker == broker,
        _columns.group == group,
        _columns.topic == partition.topic,
        _columns.partition == partition.number,
    )
