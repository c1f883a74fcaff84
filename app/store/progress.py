"""The positions of subscriptions that share the membership of one Kafka group (ADR 0055).

Each subscription has a row for each partition. The shared group has one more row in ``stream_offsets``: the floor of the
partition, with the epoch of its owner, which fences all writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, delete, select, update

from app.delivery.offsets import decode_runs, encode_runs
from app.errors import StaleOwner
from app.interfaces import Commit, Progress
from app.model.message import Partition
from app.store.rows import insert
from app.store.tables import progress, stream_offsets
from app.store.transactions import StorePart, shared_transaction

_c, _floor = progress.c, stream_offsets.c
AT_A_TIME = 5_000  # groups in one statement; SQLite allows 32,766 variables

Rows = Mapping[Partition, Mapping[str, Progress]]


class SharedProgress(StorePart):
    """The stored positions of subscriptions in shared groups. Implements ``interfaces.ProgressStore``."""

    @shared_transaction
    def begin(
        self,
        connection: Connection,
        broker: str,
        shared: str,
        starts: Mapping[str, Mapping[Partition, Commit]],
    ) -> None:
        rows = [
            {
                **_key(broker, group, partition),
                "shared": shared,
                "offset": commit.offset,
                "finished": commit.metadata,
                "apart": True,
            }
            for group, commits in starts.items()
            for partition, commit in commits.items()
        ]
        if rows:
            connection.execute(insert(connection, progress).on_conflict_do_nothing(), rows)

    @shared_transaction
    def find(
        self, connection: Connection, broker: str, groups: Collection[str]
    ) -> Mapping[str, Mapping[Partition, Progress]]:
        found: dict[str, dict[Partition, Progress]] = {}
        for some in _slices(groups):
            where = and_(_c.broker == broker, _c.group.in_(some))
            for row in connection.execute(_with_floors().where(where)):
                at = Partition(row.topic, row.partition)
                found.setdefault(row.group, {})[at] = _progress_of(row)
        return found

    @shared_transaction
    def own(
        self,
        connection: Connection,
        broker: str,
        shared: str,
        epoch: int,
        partitions: Collection[Partition],
        *,
        newest: bool = False,
    ) -> tuple[Mapping[Partition, int], Rows]:
        floors, rows = {}, {}
        for partition in sorted(partitions, key=lambda each: (each.topic, each.number)):
            floors[partition] = _own(connection, broker, shared, epoch, partition, newest)
            where = and_(
                *(_c.broker == broker, _c.shared == shared),
                *(_c.topic == partition.topic, _c.partition == partition.number),
            )
            found = connection.execute(_with_floors().where(where))
            rows[partition] = {row.group: _progress_of(row) for row in found}
        return floors, rows

    @shared_transaction
    def save(
        self,
        connection: Connection,
        broker: str,
        shared: str,
        epoch: int,
        floors: Mapping[Partition, int],
        changed: Rows,
    ) -> Collection[tuple[str, Partition]]:
        for partition, floor in sorted(floors.items(), key=lambda each: each[0].number):
            if not _raise_floor(connection, broker, shared, epoch, partition, floor):
                raise StaleOwner(
                    f"{shared}: {partition} has another owner; positions with epoch {epoch} were refused"
                )
        rows = [
            {
                **{f"of_{name}": value for name, value in _key(broker, group, at).items()},
                "to": each.offset,
                "runs": each.finished,
                "left": each.apart,
            }
            for at, groups in changed.items()
            for group, each in groups.items()
        ]
        if rows and connection.execute(_UPDATE, rows).rowcount != len(rows):
            return _missing(connection, broker, changed)
        return ()

    @shared_transaction
    def remove(self, connection: Connection, broker: str, groups: Collection[str]) -> None:
        for some in _slices(groups):
            connection.execute(delete(progress).where(_c.broker == broker, _c.group.in_(some)))


_UPDATE = (
    update(progress)
    .where(
        *(_c[name] == bindparam(f"of_{name}") for name in ("broker", "group", "topic", "partition"))
    )
    .values(offset=bindparam("to"), finished=bindparam("runs"), apart=bindparam("left"))
)


def _with_floors() -> Any:
    """Return a query of rows with the floors of their partitions."""
    same = and_(
        *(_floor.broker == _c.broker, _floor.group == _c.shared),
        *(_floor.topic == _c.topic, _floor.partition == _c.partition),
    )
    return select(progress, _floor.offset.label("floor")).join(stream_offsets, same, isouter=True)


def _progress_of(row: Row[Any]) -> Progress:
    """Return the position of a row: that of the floor if it is higher and the subscription follows the floor."""
    floor = row.floor or 0
    if row.apart or row.offset >= floor:
        return Progress(row.offset, row.finished, row.apart)
    runs = decode_runs(row.offset, row.finished)
    above = [(max(first, floor), last) for first, last in runs if last >= floor]
    return Progress(floor, encode_runs(floor, above), False)


def _own(
    connection: Connection,
    broker: str,
    shared: str,
    epoch: int,
    partition: Partition,
    newest: bool,
) -> int:
    """Make this epoch the owner of the floor, and return the floor."""
    here = _floor_at(broker, shared, partition)
    row = {**_key(broker, shared, partition), "epoch": epoch, "offset": 0, "finished": ""}
    connection.execute(insert(connection, stream_offsets).values(row).on_conflict_do_nothing())
    query = select(_floor.epoch, _floor.offset).where(here).with_for_update()
    known, floor = connection.execute(query).one()
    if newest and known > epoch:
        raise StaleOwner(f"{shared}: {partition} is owned with epoch {known}, not {epoch}")
    connection.execute(update(stream_offsets).where(here).values(epoch=epoch))
    return int(floor)


def _raise_floor(
    connection: Connection, broker: str, shared: str, epoch: int, partition: Partition, floor: int
) -> bool:
    """Lock the row of the floor until the end of the transaction, and raise the floor. Return False if another epoch
    owns it."""
    owned = update(stream_offsets).where(
        _floor_at(broker, shared, partition), _floor.epoch == epoch
    )
    written = connection.execute(owned.values(offset=floor).returning(_floor.epoch))
    return written.first() is not None


def _missing(
    connection: Connection, broker: str, changed: Rows
) -> Collection[tuple[str, Partition]]:
    """Return the changed rows that do not exist, because their subscriptions were moved or deleted."""
    wanted = {(group, at) for at, groups in changed.items() for group in groups}
    for some in _slices({group for group, _ in wanted}):
        query = select(_c.group, _c.topic, _c.partition).where(
            _c.broker == broker, _c.group.in_(some)
        )
        wanted -= {(group, Partition(*at)) for group, *at in connection.execute(query)}
    return wanted


def _key(broker: str, group: str, partition: Partition) -> dict[str, str | int]:
    return {
        "broker": broker,
        "group": group,
        "topic": partition.topic,
        "partition": partition.number,
    }


def _floor_at(broker: str, shared: str, partition: Partition) -> Any:
    key = _key(broker, shared, partition).items()
    return and_(*(_floor[name] == value for name, value in key))


def _slices(groups: Collection[str]) -> Iterable[Sequence[str]]:
    every = sorted(groups)
    return (every[n : n + AT_A_TIME] for n in range(0, len(every), AT_A_TIME))
