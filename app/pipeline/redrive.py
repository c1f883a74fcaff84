"""Quarantined records that decode now go on into ``events``.

They decode because the decoder was mended, or takes more than it did. Each is appended as the archive would
have: one row a source and id. They leave ``quarantine`` only when ``events`` has them (and, where that is
asked, their topic): a redrive that is killed between is done again, and inserts nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as f

from app.bindings.record import Record
from app.pipeline import decode, history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.derive import append, decoded
from app.pipeline.archive.known import Known
from app.pipeline.archive.lock import alone
from app.pipeline.archive.raw import COLUMNS, Records
from app.pipeline.session import kept
from app.pipeline.settings import Lake
from app.pipeline.tables import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_TOGETHER: Final = 500  # records of one batch to a topic

Observe = Callable[[str], None]
"""Told of named moments: ``duplicates found``, ``events committed``, ``sent``, ``removed``. Tests kill there."""

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
    with kept(_judged(spark, lake, wanted)) as judged:
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
    with alone(spark, lake), kept(_judged(spark, lake, wanted)) as judged:
        rules = _by_rule(judged)
        with kept(_taken(judged, wanted)) as taken:
            count = taken.count()
            if not count:
                return Redriven(rules)
            new = _appended(spark, lake, taken, observe)
            observe("events committed")
            refused = {} if send is None else send(_batches(spark, lake, taken))
            observe("sent")
            _remove(spark, lake, taken)
            observe("removed")
            return Redriven(rules, count, new, refused)


def _judged(spark: SparkSession, lake: Lake, wanted: Wanted) -> DataFrame:
    """By the decoder of today, beside ``broken``: the rule of then."""
    rows = spark.table(lake.table(tables.QUARANTINE_TABLE))
    if wanted.rules:
        rows = rows.where(f.col("rule").isin(list(wanted.rules)))
    rows = rows.dropDuplicates(list(PLACE))
    broken = rows.select(*PLACE, f.col("rule").alias("broken"))
    exact = decode.decoded(rows.select(*tables.names(tables.RAW)))
    return exact.select(*PLACE, "record_time", "verdict").join(broken, list(PLACE))


def _by_rule(judged: DataFrame) -> list[Rule]:
    passing = f.count_if(f.col("verdict").isNull())
    rows = judged.groupBy("broken").agg(f.count(f.lit(1)), passing).collect()
    found = [Rule(rule or "", records, now) for rule, records, now in rows]
    return sorted(found, key=lambda rule: (-rule.records, rule.rule))


def _taken(judged: DataFrame, wanted: Wanted) -> DataFrame:
    """The oldest first, where there is a limit."""
    passing = judged.where("verdict IS NULL")
    return passing.orderBy("record_time", *PLACE).limit(wanted.limit) if wanted.limit else passing


def _appended(spark: SparkSession, lake: Lake, taken: DataFrame, observe: Observe) -> int:
    """The snapshot says again how far the archive is: whatever expires later, it is said."""
    ends = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    stored = _stored(spark, lake, taken).select(*COLUMNS)
    events, _ = decoded(spark, lake, Records(stored))
    return append(spark, lake, events, ends, observe, Known())


def _batches(spark: SparkSession, lake: Lake, taken: DataFrame) -> Iterator[Batch]:
    """Each partition's records in the order of their offsets."""
    rows = _stored(spark, lake, taken).select(*PLACE, "key", "value", "headers")
    left = rows.orderBy(*PLACE).toLocalIterator()
    for (broker, topic), each in groupby(left, key=lambda row: (row["broker"], row["topic"])):
        while found := [_record(row) for row in islice(each, _TOGETHER)]:
            yield broker, topic, found


def _stored(spark: SparkSession, lake: Lake, taken: DataFrame) -> DataFrame:
    """The records as ``quarantine`` has them, each once."""
    quarantined = spark.table(lake.table(tables.QUARANTINE_TABLE)).dropDuplicates(list(PLACE))
    return quarantined.join(f.broadcast(taken.select(*PLACE)), list(PLACE), "left_semi")


def _record(row: Row) -> Record:
    headers = tuple((each["key"], _bytes(each["value"])) for each in row["headers"] or ())
    return Record(_bytes(row["key"]), headers, _bytes(row["value"]))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _remove(spark: SparkSession, lake: Lake, taken: DataFrame) -> None:
    table = lake.table(tables.QUARANTINE_TABLE)
    ends = progress.as_text(progress.read(spark, table))
    with history.carrying(spark, {progress.PROPERTY: ends}):
        history.delete(spark, table, taken.select(*PLACE))
