"""Write the rows of data files again, and commit the new files in place of the old ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from app.pipeline import history
from app.pipeline.archive import commit, iceberg_adapter, layouts
from app.pipeline.archive.files import FILES, Files, TableLayout, as_batch
from app.pipeline.archive.iceberg_adapter import StoredFile
from app.pipeline.archive.raw import as_shares
from app.pipeline.archive.reading import batches
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replace_files(
    spark: SparkSession,
    lake: Lake,
    name: str,
    groups: Sequence[Sequence[StoredFile]],
    since: int | None,
) -> list[StoredFile]:
    """Replace files of a table, and return the new files. They have the partitions of the table, and
    all of its columns, also those that a user has added.

    Args:
        spark: The session.
        lake: The lake.
        name: The name of the table.
        groups: The files. One task writes the rows of each group.
        since: A snapshot that has all of the files; None if the first snapshot has. The commit is
            refused if rows of the files were deleted afterwards.
    """
    table = history.iceberg_table(spark, lake.table(name))
    typed = next((each for each in lake.tables if each.table == name), None)
    columns = [str(each.name()) for each in table.schema().columns()]
    layout = msgspec.structs.replace(
        layouts.layout(spark, lake, name, typed),
        schema=iceberg_adapter.schema(table, lake.table(name), columns),
    )
    shares = as_shares([[each.path for each in group] for group in groups])
    frame = commit.one_task_each(spark, shares)
    added = commit.run_tasks(frame.mapInArrow(partial(write_again, layout=layout), FILES))
    gone = [each.java for group in groups for each in group]
    made = commit.replace(spark, lake.table(name), gone, added, since)
    return [StoredFile(file.size, file.path, each) for file, each in zip(added, made, strict=True)]


def write_again(chosen: Iterable[pa.RecordBatch], layout: TableLayout) -> Iterator[pa.RecordBatch]:
    """Write the rows of the files that the rows of ``chosen`` name to files of ``layout``, and yield a
    batch of ``FILES``. This runs in a task.
    """
    files = Files(layout)
    try:
        for batch in chosen:
            for path in (path for paths in batch.column("paths").to_pylist() for path in paths):
                for rows in batches(path, layout.access, layout.schema, complete=False):
                    files.add(rows, _identities(rows))
        found = as_batch(files.closed())
    except BaseException:
        files.discard()
        raise
    yield found


def _identities(rows: pa.RecordBatch) -> np.ndarray | None:
    return rows.column("identity").to_numpy() if "identity" in rows.schema.names else None
