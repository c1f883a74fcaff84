"""Erase all events of one subject or source from every table and every snapshot.

Rows of ``events_raw`` are found by decoding them, so the form and version of an event do not
matter. An invalid record has no subject, so it is erased if it contains the text in a header or as
a JSON string. All older snapshots are then expired, and with them the files that still hold the
bytes. The properties that the archive needs are copied into the new snapshots first. The archive
and ``maintain`` cannot run at the same time, because both locks are held.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from pyspark.sql import functions as f

from app.errors import LakeUnavailable, SetupError
from app.pipeline import decode, history, tables
from app.pipeline.archive.lock import holding_all
from app.pipeline.archive.topics import keep_position
from app.pipeline.settings import Lake
from app.pipeline.typed.schema import PREFIX
from app.spark.columns import RAW, column_names
from app.spark.faults import lake_fault
from app.spark.pyspark_adapter import java_session, jvm
from app.spark.session import cached, first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Attribute = Literal["subject", "source"]

_SHORT: Final = {
    '"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t",
}  # fmt: skip
"""The characters that JSON may escape with a single character."""
_MAIN: Final = "main"
"""The branch that each table of Iceberg has."""
_ESCAPED: Final = frozenset('"\\')
"""The characters that JSON always escapes."""

_ANY_AGE: Final = 1 << 52  # ms since 1970, later than every file


class ErasureIncomplete(LakeUnavailable):
    """The error for an erasure that stopped half way. The same command continues it."""

    def __init__(self, why: Exception, rows: list[str], files: list[str]) -> None:
        """Name the tables that still have rows or files of the subject or source."""
        fault = lake_fault(why)
        cause = str(fault.args[0]).rstrip(".") if fault else first_line(why)
        rest = f"rows are left in {', '.join(rows)}; " if rows else ""
        super().__init__(
            f"the erasure is not complete: {cause}; {rest}old files are left in {', '.join(files)}",
            setting="pipeline.lake",
            cure="Remove the cause, and run the same command again.",
        )


class Erased(msgspec.Struct, frozen=True):
    """The result of an erasure for one table.

    Attributes:
        table: The name of the table.
        rows: The number of rows that name the subject or source.
        snapshots: The number of expired snapshots.
        files: The number of deleted files.
    """

    table: str
    rows: int
    snapshots: int = 0
    files: int = 0


def find(spark: SparkSession, lake: Lake, attribute: Attribute, text: str) -> list[Erased]:
    """Count the rows that ``erase`` would remove, by table, without changing anything.

    Raises:
        SetupError: The lake does not exist.
    """
    tables.check(spark, lake)
    chosen = _rows_to_erase(spark, lake, attribute, text)
    return [Erased(name, rows.count()) for name, rows in chosen.items()]


def erase(
    spark: SparkSession,
    lake: Lake,
    attribute: Attribute,
    text: str,
    *,
    tell: Callable[[str, str], None] = lambda _table, _step: None,
) -> list[Erased]:
    """Erase all rows that name this subject or source. An interrupted erasure can be run again.

    The rows of all tables are deleted before the first file is removed. Before each step, ``tell``
    is called with the table and the step. All files that no snapshot names are deleted too, because
    no other process writes to the lake meanwhile.

    Raises:
        SetupError: The lake does not exist, its files cannot be listed, a table has branches or tags,
            or an archive or upkeep is running. Nothing is erased then.
        ErasureIncomplete: A step failed. The message names the tables that are left.
    """

    def waiting(text: str) -> None:
        tell("the lake", text)

    tables.check(spark, lake)
    with holding_all(spark, lake, waiting):
        history.demand_clock(spark, lake.table(tables.RAW_TABLE))
        chosen = _rows_to_erase(spark, lake, attribute, text)
        for name in chosen:
            _demand_no_refs(spark, lake, name)
            _demand_listing(spark, lake, name)
        counts, found = dict[str, int](), list[Erased]()
        try:
            keep_position(spark, lake)
            for name, rows in chosen.items():
                tell(name, "deleting")
                count = _delete(spark, lake, name, rows)
                _rewrite_manifests(spark, lake, name)
                counts[name] = count
            for name, count in counts.items():
                tell(name, "removing old snapshots and files")
                found.append(_remove_old_files(spark, lake, name, count))
        except Exception as why:
            rows_left = [name for name in chosen if name not in counts]
            raise ErasureIncomplete(why, rows_left, [*chosen][len(found) :]) from why
        return found


def _rows_to_erase(
    spark: SparkSession, lake: Lake, attribute: Attribute, text: str
) -> dict[str, DataFrame]:
    """Return the positions of the rows to erase, by table. The table ``events_raw`` is erased first, because some
    of its rows are found by means of ``quarantine``. A repetition of a killed run must still find these rows."""
    raw = spark.table(lake.table(tables.RAW_TABLE))
    quarantined = spark.table(lake.table(tables.QUARANTINE_TABLE))
    events = spark.table(lake.table(tables.EVENTS_TABLE))
    named = decode.decoded(raw).where(f.col(attribute) == text).select(*tables.PLACE)
    unfit = quarantined.where(f.col("verdict") == tables.UNFIT).select(*column_names(RAW))
    events_there = decode.decoded(unfit).where(f.col(attribute) == text).select(*tables.PLACE)
    suspects = quarantined.where(_mentions(text)).select(*tables.PLACE).unionByName(events_there)
    return {
        tables.RAW_TABLE: named.unionByName(suspects).distinct(),
        tables.QUARANTINE_TABLE: suspects.distinct(),
        tables.EVENTS_TABLE: events.where(f.col(attribute) == text).select(*tables.PLACE),
        **{name: _typed(spark, lake, name, attribute, text) for name in tables.typed(spark, lake)},
    }


def _typed(
    spark: SparkSession, lake: Lake, name: str, attribute: Attribute, text: str
) -> DataFrame:
    """Return the positions of the rows of a typed table that name the subject or source."""
    chosen = spark.table(lake.table(name)).where(f.col(PREFIX + attribute) == text)
    return chosen.select(*(f.col(PREFIX + each).alias(each) for each in tables.PLACE))


def _mentions(text: str) -> Column:
    """Return a condition that the text is the value of a header or a string in a JSON document."""
    found = f.exists("headers", lambda header: header["value"].eqNullSafe(f.lit(text.encode())))
    found |= f.coalesce(f.col("value").cast("string").rlike(json_pattern(text)), f.lit(False))
    return f.coalesce(found, f.lit(False))


def json_pattern(text: str) -> str:
    """Return a pattern of all spellings that a text may have as a string in JSON (RFC 8259, 7).

    Writers differ: PHP escapes the slash, .NET and Go also escape some signs and letters.
    """
    return f'"{"".join(map(_spellings, text))}"'


def _spellings(character: str) -> str:
    codes = character.encode("utf-16-be", "surrogatepass").hex()
    digits = [f"[{each}{each.upper()}]" if each.isalpha() else each for each in codes]
    escaped = "".join(r"\\u" + "".join(digits[at : at + 4]) for at in range(0, len(digits), 4))
    short = _SHORT.get(character)
    plain = [] if character in _ESCAPED else [re.escape(character)]
    more = [] if short is None else [r"\\" + re.escape(short)]
    return f"(?:{'|'.join((*plain, *more, escaped))})"


def _delete(spark: SparkSession, lake: Lake, name: str, rows: DataFrame) -> int:
    """Delete the rows and return their number. The new snapshot carries the properties of the
    archive even if no row is deleted.
    """
    table = lake.table(name)
    with cached(rows) as doomed:
        count = doomed.count()
        if count:
            history.delete(spark, table, doomed, "" if name in tables.COLUMNS else PREFIX)
        else:
            with history.keeping_position(spark, table):
                spark.table(table).limit(0).writeTo(table).append()
    return count


def _rewrite_manifests(spark: SparkSession, lake: Lake, name: str) -> None:
    """Rewrite the manifests of a table, so that they no longer list deleted files.

    A manifest keeps the least and greatest text of each column of a deleted file, and that may be
    the erased text. Iceberg's own procedure does not rewrite a table that has a single manifest.
    """
    table = lake.table(name)
    together = jvm(spark).com.google.common.base.Functions.constant("")  # Spark ships this class
    rewriting = history.iceberg_table(spark, table).rewriteManifests().clusterBy(together)
    for each, text in history.archive_properties(spark, table).items():
        rewriting = rewriting.set(each, text)
    rewriting.commit()


def _demand_no_refs(spark: SparkSession, lake: Lake, name: str) -> None:
    """Raise SetupError if a table has branches or tags. Their snapshots do not expire, and so the files
    of these would keep the rows."""
    table = lake.table(name)
    refs = dict(history.iceberg_table(spark, table).refs())
    if found := sorted(refs.keys() - {_MAIN}):
        kind = "BRANCH" if refs[found[0]].isBranch() else "TAG"
        raise SetupError(
            f"{table} has branches or tags that would keep the rows, so nothing was erased: {', '.join(found)}",
            setting="pipeline.lake",
            cure=f"ALTER TABLE {table} DROP {kind} `{found[0]}`, and so on",
        )


def _demand_listing(spark: SparkSession, lake: Lake, name: str) -> None:
    """Raise SetupError if Iceberg cannot list the files of a table, and so could not remove them."""
    loaded = history.iceberg_table(spark, lake.table(name))
    try:
        loaded.io().listPrefix(loaded.location()).iterator().hasNext()
    except Exception as why:
        if (fault := lake_fault(why)) is not None:
            raise fault from why
        raise SetupError(
            f"the files of {lake.table(name)} cannot be listed, so nothing was erased: {first_line(why)}",
            setting="pipeline.lake.catalog.properties",
            cure="name an io-impl that lists files, or set pipeline.storage",
        ) from why


def _remove_old_files(spark: SparkSession, lake: Lake, name: str, count: int) -> Erased:
    """Expire all snapshots but the newest, and delete their files and the files of killed writers.

    Iceberg only logs files that it cannot delete. So the files are listed a second time.
    """
    table = lake.table(name)
    loaded = history.iceberg_table(spark, table)
    # Those that were rolled back too. Clocks of writers differ: an older one may have a later time.
    made = [each.timestampMillis() for each in loaded.snapshots()]
    edge = max(made) + 1
    # Iceberg's procedure refuses to remove snapshots younger than a day, so its actions are called
    actions = jvm(spark).org.apache.iceberg.spark.actions.SparkActions.get(java_session(spark))
    expired = actions.expireSnapshots(loaded).expireOlderThan(edge).retainLast(1).execute()
    orphans = _remove_unnamed(actions, loaded)
    if again := _remove_unnamed(actions, loaded):
        raise OSError(f"{len(again)} files of {table} are not deleted, such as {again[0]}")
    left = len(history.iceberg_table(spark, table).snapshots())
    files = expired.deletedDataFilesCount() + len(orphans)
    return Erased(name, count, len(made) - left, files)


def _remove_unnamed(actions: Any, loaded: Any) -> list[str]:
    """Delete the files that no snapshot names, of any age, and return them. They are listed by
    Iceberg's FileIO, because Hadoop has no file system for some storages.
    """
    removing = actions.deleteOrphanFiles(loaded).usePrefixListing(True).olderThan(_ANY_AGE)
    return [str(each) for each in removing.execute().orphanFileLocations()]
