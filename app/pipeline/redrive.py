"""Move quarantined records that the decoder accepts now into ``events`` and the typed tables.

Such records decode because the decoder was corrected or accepts more than before. Or their data
fits because the schema of a typed table was widened. Each is appended as the archive would append
it: one row for each source and id. Records leave ``quarantine`` only when the tables have their
events. If a ``send`` is given, the topic must have the records, too. A
redrive that was killed can be run again and inserts no duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as f

from app.bindings.record import Record
from app.pipeline import history, tables
from app.pipeline.archive import commit, layouts, progress, typed_tables, unique
from app.pipeline.archive.derive import append, write_decoded
from app.pipeline.archive.files import DataFile
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.lock import holding_lock
from app.pipeline.archive.raw import COLUMNS, RangeRecords
from app.pipeline.archive.writing import VERDICTS, TypedTask, verdicts
from app.pipeline.decode import KEPT, SENT
from app.pipeline.settings import Lake
from app.pipeline.tables import PLACE
from app.pipeline.typed.schema import PREFIX
from app.spark.session import cached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_TOGETHER: Final = 500  # records of one batch to a topic

Observe = Callable[[str], None]
"""A callback that receives the name of each moment of a redrive: ``duplicates found``, ``events
committed``, ``sent``, ``removed``. Tests kill the process there."""

Batch = tuple[str, str, Sequence[Record]]
"""The broker and topic of some records, and the records as they were received, in order."""

Send = Callable[[Iterable[Batch]], Mapping[str, int]]
"""A function that sends all batches at least once. It returns the number of permanently refused
records by error code.
"""


class RedriveRequest(msgspec.Struct, frozen=True):
    """The quarantined records to redrive.

    Attributes:
        rules: The codes of the rules that the records broke; empty for all rules.
        limit: The largest number of records to redrive; 0 for no limit.
    """

    rules: tuple[str, ...] = ()
    limit: int = 0


class RuleCount(msgspec.Struct, frozen=True):
    """The quarantined records that broke one rule.

    Attributes:
        rule: The code of the rule.
        records: The number of records.
        decode: The number of these records that decode now and fit the table of their type.
    """

    rule: str
    records: int
    decode: int


class RedriveResult(msgspec.Struct, frozen=True):
    """The result of a redrive.

    Attributes:
        rules: The quarantined records, counted by rule.
        taken: The number of redriven records.
        events: The number of these whose event was new.
        refused: The number of records that the topic refused, by error code.
    """

    rules: Sequence[RuleCount]
    taken: int = 0
    events: int = 0
    refused: Mapping[str, int] = {}


def preview_redrive(spark: SparkSession, lake: Lake, wanted: RedriveRequest) -> RedriveResult:
    """Report what ``redrive`` would do, without changing anything.

    Raises:
        SetupError: The lake does not exist.
    """
    tables.check(spark, lake)
    with cached(_decode_again(spark, lake, wanted)) as judged:
        return RedriveResult(_by_rule(judged), _decodable(judged, wanted).count())


def redrive(
    spark: SparkSession,
    lake: Lake,
    wanted: RedriveRequest,
    *,
    send: Send | None = None,
    observe: Observe = lambda _moment: None,
) -> RedriveResult:
    """Redrive the records and return the counts.

    An archive must not run at the same time, because both could insert the same event.

    Args:
        spark: The session.
        lake: The lake.
        wanted: The records to redrive.
        send: Sends the records to their topic as well; None sends nothing.
        observe: Called with the name of each moment.

    Raises:
        SetupError: The lake does not exist, or an archive is running.
    """
    tables.check(spark, lake)
    with holding_lock(spark, lake, tell=observe):
        history.demand_clock(spark, lake.table(tables.RAW_TABLE))
        typed_tables.make(spark, lake)
        with cached(_decode_again(spark, lake, wanted)) as judged:
            rules = _by_rule(judged)
            with cached(_decodable(judged, wanted)) as taken:
                count = taken.count()
                if not count:
                    return RedriveResult(rules)
                new = _append_events(spark, lake, taken, observe)
                observe("events committed")
                refused = {} if send is None else send(_batches(spark, lake, taken))
                observe("sent")
                _remove(spark, lake, taken)
                observe("removed")
                return RedriveResult(rules, count, new, refused)


def _decode_again(spark: SparkSession, lake: Lake, wanted: RedriveRequest) -> DataFrame:
    """Decode the quarantined records again. The column ``broken`` has the rule that was recorded in
    ``quarantine``.
    """
    rows = spark.table(lake.table(tables.QUARANTINE_TABLE))
    if wanted.rules:
        rows = rows.where(f.col("rule").isin(list(wanted.rules)))
    rows = rows.dropDuplicates(list(PLACE))
    broken = rows.select(*PLACE, f.col("rule").alias("broken"))
    judge = partial(verdicts, typed=lake.tables)
    exact = rows.select(*KEPT, *SENT).mapInArrow(judge, VERDICTS)
    return exact.join(broken, list(PLACE))


def _by_rule(judged: DataFrame) -> list[RuleCount]:
    passing = f.count_if(f.col("verdict").isNull())
    rows = judged.groupBy("broken").agg(f.count(f.lit(1)), passing).collect()
    found = [RuleCount(rule or "", records, now) for rule, records, now in rows]
    return sorted(found, key=lambda rule: (-rule.records, rule.rule))


def _decodable(judged: DataFrame, wanted: RedriveRequest) -> DataFrame:
    """Return the records that decode now. With a limit, return the oldest of them."""
    passing = judged.where("verdict IS NULL")
    return passing.orderBy("record_time", *PLACE).limit(wanted.limit) if wanted.limit else passing


def _append_events(spark: SparkSession, lake: Lake, taken: DataFrame, observe: Observe) -> int:
    """Append the events and return how many were new. The new snapshot repeats the progress of the
    archive, which must not expire.
    """
    ends = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    stored = _stored(spark, lake, taken).select(*COLUMNS)
    tasks = [
        TypedTask(each, layouts.layout(spark, lake, each.table, each), unfit=False)
        for each in lake.tables
    ]
    found = write_decoded(spark, lake, RangeRecords(stored), tasks)
    with commit.removing_on_error(spark, lake.table(tables.EVENTS_TABLE), found.typed):
        new, _ = append(spark, lake, found.events, ends, observe, IdentityCache())
    for each in lake.tables:
        own = [file for file in found.typed if file.name == each.table]
        _append_typed(spark, lake, each.table, own, taken)
    return new


def _append_typed(
    spark: SparkSession, lake: Lake, name: str, files: Sequence[DataFile], taken: DataFrame
) -> None:
    """Append the rows whose events are in ``events``, and not yet in the typed table. Rows beyond
    the progress of the table are left to the archive."""
    if not files:
        return
    ends = progress.read(spark, lake.table(name), PREFIX)
    wanted = f.broadcast(taken.select(*PLACE))
    stored = spark.table(lake.table(tables.EVENTS_TABLE)).join(wanted, list(PLACE), "left_semi")
    typed = spark.table(lake.table(name)).select(
        *(f.col(PREFIX + each).alias(each) for each in PLACE)
    )
    there = typed.join(wanted, list(PLACE), "left_semi")
    missing = (
        stored.select(*PLACE)
        .where(progress.between({}, ends))
        .join(there, list(PLACE), "left_anti")
    )
    rows = unique.of_events(spark, lake, files, None, missing.toArrow())
    commit.append(spark, lake.table(name), rows, ends)


def _batches(spark: SparkSession, lake: Lake, taken: DataFrame) -> Iterator[Batch]:
    """Yield the records of each partition in the order of their offsets."""
    rows = _stored(spark, lake, taken).select(*PLACE, "key", "value", "headers")
    left = rows.orderBy(*PLACE).toLocalIterator()
    for (broker, topic), each in groupby(left, key=lambda row: (row["broker"], row["topic"])):
        while found := [_record(row) for row in islice(each, _TOGETHER)]:
            yield broker, tables.broker_topic(topic), found


def _stored(spark: SparkSession, lake: Lake, taken: DataFrame) -> DataFrame:
    """Return the records as ``quarantine`` has them, without repeats."""
    quarantined = spark.table(lake.table(tables.QUARANTINE_TABLE)).dropDuplicates(list(PLACE))
    return quarantined.join(f.broadcast(taken.select(*PLACE)), list(PLACE), "left_semi")


def _record(row: Row) -> Record:
    headers = tuple((each["key"], _bytes(each["value"])) for each in row["headers"] or ())
    return Record(_bytes(row["key"]), headers, _bytes(row["value"]))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _remove(spark: SparkSession, lake: Lake, taken: DataFrame) -> None:
    table = lake.table(tables.QUARANTINE_TABLE)
    history.delete(spark, table, taken.select(*PLACE))
