"""The position of the archive's stream, in a property of ``events_raw``, and its checkpoint.

A batch that another process has begun is never run again from its checkpoint. Iceberg names its files
by the stream, the batch and the number of the task, which each process counts from 0. So the files
of the repetition could replace files that a snapshot names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from app.pipeline import history, tables
from app.pipeline.archive import progress
from app.pipeline.history import EPOCH, QUERY
from app.pipeline.settings import Lake
from app.spark.session import hadoop_file, read_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROPERTY: Final = "skybridge.archive."


class CheckpointState(msgspec.Struct, frozen=True):
    """The state of the stream, kept in a property of ``events_raw``.

    Attributes:
        checkpoint: The folder of the current checkpoint.
        topics: The topics of the checkpoint.
        starts: The first offset of each partition, with which the checkpoint began.
        ids: The ids that each topic has had.
        erased: Up to where the lake had records before erasures, which may have removed the last
            ones, by the values of the column ``topic``.
    """

    checkpoint: str
    topics: tuple[str, ...]
    starts: dict[str, dict[int, int]]
    ids: dict[str, tuple[str, ...]] = {}
    erased: dict[str, dict[int, int]] = {}


def keep_positions(spark: SparkSession, lake: Lake) -> None:
    """Store up to where the lake has records, so that the archive does not read them again after
    an erasure.
    """
    reached = progress.reach(spark.table(lake.table(tables.RAW_TABLE)))
    for broker, found in reached.items():
        if (state := stored_state(spark, lake, broker)) is not None:
            erased = progress.merged({broker: state.erased}, {broker: found})[broker]
            keep(spark, lake, broker, msgspec.structs.replace(state, erased=erased))


def stored_state(spark: SparkSession, lake: Lake, broker: str) -> CheckpointState | None:
    text = tables.properties(spark, lake, tables.RAW_TABLE).get(_PROPERTY + broker)
    return None if text is None else msgspec.json.decode(text, type=CheckpointState)


def keep(spark: SparkSession, lake: Lake, broker: str, state: CheckpointState) -> None:
    told = {_PROPERTY + broker: msgspec.json.encode(state).decode()}
    table, listed = lake.table(tables.RAW_TABLE), tables.property_list(told)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({listed})")


def is_usable(spark: SparkSession, lake: Lake, checkpoint: str) -> bool:
    """Return True if the checkpoint can be used: every batch that was begun there has ended there.

    A checkpoint that lost files with the power of its machine may lack a batch that a snapshot has.
    """
    begun, ended = (_newest_batch(spark, f"{checkpoint}/{name}") for name in ("offsets", "commits"))
    return begun is not None and begun == ended and _stored_batch(spark, lake, checkpoint) <= ended


def _stored_batch(spark: SparkSession, lake: Lake, checkpoint: str) -> int:
    """Return the last batch of a checkpoint that a snapshot of ``events_raw`` names, in the property
    that Iceberg's sink uses; -1 if none does.
    """
    query = msgspec.json.decode(read_file(spark, f"{checkpoint}/metadata") or b"{}").get("id")
    newest = (
        int(each.summary[EPOCH])
        for each in history.snapshots(spark, lake.table(tables.RAW_TABLE))
        if each.summary.get(QUERY) == query and EPOCH in each.summary
    )
    return next(newest, -1)


def _newest_batch(spark: SparkSession, folder: str) -> int | None:
    """Return the number of the last batch in a folder of the checkpoint; None if there is none."""
    system, path = hadoop_file(spark, folder)
    if not system.exists(path):
        return None
    names = (each.getPath().getName() for each in system.listStatus(path))
    return max((int(name) for name in names if name.isdigit()), default=None)
