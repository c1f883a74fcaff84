"""Quarantined records that decode now go on into ``events``.

They decode because the decoder was mended, or takes more than it did. Each is merged as the archive would
have: one row a source and id. They leave ``quarantine`` only when ``events`` has them (and, where that is
asked, their topic): a redrive that is killed between is done again, and inserts nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as f

from app.bindings.record import Record
from app.pipeline import decode, history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.derive import event_rows, first_of_each, merge
from app.pipeline.archive.lock import alone
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_WHERE: Final = ("broker", "topic", "partition", "offset")
_ORDER: Final = ("broker", "topic", "partition", "offset")
_TOGETHER: Final = 500  # records of one batch to a topic
_DOOMED: Final = "skybridge_redriven"

Observe = Callable[[str], None]
"""Told of named moments: ``events committed``, ``sent``, ``removed``. Tests kill there."""

Batch = tuple[str, str, Sequence[Record]]
"""Broker and topic that records came from, and the records as they came, in order."""

Send = Callable[[Iterable[Batch]], Mapping[str, int]]
"""Sends all of it; how many were refused for good, by the code of why. At least once."""


class Wanted(msgspec.Struct, frozen=True):
    """``rules``: codes that the records broke; none: whatever it was. ``limit``: of records that go on; 0: all."""

    rules: tuple[str, ...] = ()
    limit: int = 0


class Rule(msgspec.Struct, frozen=True):
    """Records of a rule: how many there are, how many of these decode now."""

    rule: str
    records: int
    decode: int


class Redriven(msgspec.Struct, frozen=True):
    """``taken`` records went on; ``events`` of them were new. ``refused``: by the topic, by the code of why."""

    rules: Sequence[Rule]
    taken: int = 0
    events: int = 0
    refused: Mapping[str, int] = {}


def look(spark: SparkSession, lake: Lake, wanted: Wanted) -> Redriven:
    """What would go on. Nothing is changed. Raises SetupError for no lake."""
    tables.check(spark, lake)
    with _judged(spark, lake, wanted) as judged:
        return Redriven(_by_rule(judged), _taken(judged, wanted).count())


def redrive(
    spark: SparkSession,
    lake: Lake,
    wanted: Wanted,
    *,
    send: Send | None = None,
    observe: Observe = lambda _moment: None,
) -> Redriven:
    """Raises SetupError for no lake, or where an archive runs: two that insert the same event at one moment
    would both.
    """
    tables.check(spark, lake)
    with alone(spark, lake), _judged(spark, lake, wanted) as judged:
        rules = _by_rule(judged)
        taken = _taken(judged, wanted).persist()
        try:
            count = taken.count()
            if not count:
                return Redriven(rules)
            new = _merged(spark, lake, taken)
            observe("events committed")
            refused = {} if send is None else send(_batches(spark, lake, taken))
            observe("sent")
            _remove(spark, lake, taken)
            observe("removed")
            return Redriven(rules, count, new, refused)
        finally:
            taken.unpersist()


@contextmanager
def _judged(spark: SparkSession, lake: Lake, wanted: Wanted) -> Iterator[DataFrame]:
    """By the decoder of today, beside ``broken``: the rule of then."""
    rows = spark.table(lake.table(tables.QUARANTINE_TABLE))
    if wanted.rules:
        rows = rows.where(f.col("rule").isin(list(wanted.rules)))
    rows = rows.dropDuplicates(list(_WHERE))
    broken = rows.select(*_WHERE, f.col("rule").alias("broken"))
    exact = decode.exactly(rows.select(*tables.names(tables.RAW)))
    judged = exact.drop("value", "headers").join(broken, list(_WHERE)).persist()
    try:
        yield judged
    finally:
        judged.unpersist()


def _by_rule(judged: DataFrame) -> list[Rule]:
    passing = f.count_if(f.col("verdict").isNull())
    rows = judged.groupBy("broken").agg(f.count(f.lit(1)), passing).collect()
    found = [Rule(rule or "", records, now) for rule, records, now in rows]
    return sorted(found, key=lambda rule: (-rule.records, rule.rule))


def _taken(judged: DataFrame, wanted: Wanted) -> DataFrame:
    """The oldest first, where there is a limit."""
    passing = judged.where("verdict IS NULL")
    return passing.orderBy("record_time", *_ORDER).limit(wanted.limit) if wanted.limit else passing


def _merged(spark: SparkSession, lake: Lake, taken: DataFrame) -> int:
    """The snapshot says again how far the archive is: whatever expires later, it is said."""
    ends = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    return merge(spark, lake, first_of_each(event_rows(taken)), progress.as_text(ends))


def _batches(spark: SparkSession, lake: Lake, taken: DataFrame) -> Iterator[Batch]:
    """Each partition's records in the order of their offsets."""
    quarantined = spark.table(lake.table(tables.QUARANTINE_TABLE)).dropDuplicates(list(_WHERE))
    rows = quarantined.join(f.broadcast(taken.select(*_WHERE)), list(_WHERE), "left_semi")
    left = rows.select(*_WHERE, "key", "value", "headers").orderBy(*_ORDER).toLocalIterator()
    place: tuple[str, str] | None = None
    found: list[Record] = []
    while several := list(islice(left, _TOGETHER)):
        for row in several:
            if place is not None and place != (row["broker"], row["topic"]):
                yield *place, found
                found = []
            place = row["broker"], row["topic"]
            found.append(_record(row))
        if place is not None and found:
            yield *place, found
            found = []


def _record(row: Row) -> Record:
    headers = tuple((each["key"], _bytes(each["value"])) for each in row["headers"] or ())
    return Record(_bytes(row["key"]), headers, _bytes(row["value"]))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _remove(spark: SparkSession, lake: Lake, taken: DataFrame) -> None:
    table = lake.table(tables.QUARANTINE_TABLE)
    ends = progress.as_text(progress.read(spark, table))
    taken.select(*_WHERE).createOrReplaceTempView(_DOOMED)
    same = " AND ".join(f"{table}.{each} = d.{each}" for each in _WHERE)
    try:
        with history.carrying(spark, {progress.PROPERTY: ends}):
            chosen = f"EXISTS (SELECT 1 FROM {_DOOMED} d WHERE {same})"  # noqa: S608 - names of ours
            spark.sql(f"DELETE FROM {table} WHERE {chosen}")  # noqa: S608 - likewise
    finally:
        spark.catalog.dropTempView(_DOOMED)
