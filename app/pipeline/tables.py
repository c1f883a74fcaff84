"""The lake: three tables, and what their columns mean. One place for everybody who reads or writes them.

``events_raw``  every record as it was on the wire: appended by Iceberg's own streaming sink, never changed.
``events``      one row per (source, id), all versions under their 1.0 names.
``quarantine``  the records that did not decode, with the rule they broke.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from app.errors import SetupError
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT_VERSION: Final = "1"
"""Of the tables, kept as table property ``skybridge.format-version``; an unknown one is refused."""

LOCATION: Final = "broker STRING, topic STRING, partition INT, offset BIGINT, record_time TIMESTAMP"
"""Where a record was. ``broker`` as the configuration names it; ``record_time`` is the broker's clock.
``PLACE`` is one record.
"""

PLACE: Final = ("broker", "topic", "partition", "offset")

HEADERS: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
RECORD: Final = f"key BINARY, value BINARY, headers {HEADERS}"
"""What a record is: a null ``value`` is a tombstone; headers in order, with repeats and nulls."""

RAW: Final = f"{LOCATION}, {RECORD}"

ATTRIBUTES: Final = (
    "specversion STRING, id STRING, source STRING, type STRING, subject STRING, "
    "datacontenttype STRING, dataschema STRING, time TIMESTAMP, time_text STRING, "
    "extensions MAP<STRING, STRING>, types MAP<STRING, STRING>"
)
"""By 1.0 names, canonical texts (core 1.3). ``specversion`` is 1.0. ``time_text`` is the text that came, with
its offset and nanoseconds; ``time`` the instant, null where Spark has none for it. ``extensions`` has every
other attribute, empty for none; ``types`` those that are no String (``Integer``, ``Boolean``), null for none.
"""

DATA: Final = "data STRING, data_bytes BINARY, data_form STRING"
"""``data``: the payload as the very text it came as, where its bytes are UTF-8; ``data_bytes``: where they are
not. Both null without a payload. ``data_form``: ``json``, ``text``, ``opaque`` (``DataForm``).
"""

ARRIVAL: Final = "content_mode STRING, origin_version STRING"
"""``binary`` or ``structured``; a name in ``event.versions.VERSIONS``."""

DECODED: Final = f"{LOCATION}, key BINARY, {ATTRIBUTES}, {DATA}, {ARRIVAL}"
"""A decoded record. ``identity`` (xxhash64 of source and id) comes before it in the table, for its buckets."""

EVENTS: Final = f"identity BIGINT, {DECODED}"

VERDICT: Final = (
    "verdict STRING, rule STRING, detail STRING, "
    "faults ARRAY<STRUCT<code: STRING, detail: STRING, at: STRING, rule: STRING>>"
)
"""``verdict``: ``invalid`` (faults), ``foreign`` (no CloudEvent), ``unreadable`` (a format nobody here reads,
or refuses). ``rule``: code of the first fault, or of the refusal. ``detail``: for people.
"""

QUARANTINE: Final = f"{RAW}, {VERDICT}, seen TIMESTAMP"
"""``seen``: when it was put there."""

RAW_TABLE: Final = "events_raw"
EVENTS_TABLE: Final = "events"
QUARANTINE_TABLE: Final = "quarantine"
COLUMNS: Final[Mapping[str, str]] = {
    RAW_TABLE: RAW,
    EVENTS_TABLE: EVENTS,
    QUARANTINE_TABLE: QUARANTINE,
}

FORMAT_PROPERTY: Final = "skybridge.format-version"

PROGRESS_PROPERTY: Final = "skybridge.progress"
"""In the summary of a snapshot of ``events`` or ``quarantine``: how far the table is."""

Progress = Mapping[str, Mapping[str, Mapping[int, int]]]
"""By broker, topic and partition: the first offset that is not in the table yet."""

_PROPERTIES: Final[Mapping[str, str]] = {
    FORMAT_PROPERTY: FORMAT_VERSION,
    "format-version": "2",
    "write.distribution-mode": "none",  # rows are written where they are: no shuffle of wide ones
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",  # 3 costs a tenth of the speed and saves little
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.retry.num-retries": "30",  # the archive, maintain and redrive write beside each other
    "commit.retry.max-wait-ms": "2000",
    "history.expire.min-snapshots-to-keep": "10",
}


def names(columns: str) -> list[str]:
    """Of columns as they are written here: ``id STRING, faults ARRAY<STRUCT<...>>``."""
    flat = columns
    while (inner := re.sub(r"<[^<>]*>", "", flat)) != flat:
        flat = inner
    return [column.split()[0] for column in flat.split(",")]


def progress_of(text: str) -> Progress:
    """Of the text of PROGRESS_PROPERTY."""
    return msgspec.json.decode(text, type=dict[str, dict[str, dict[int, int]]])


def places(progress: Progress) -> list[tuple[str, str, int, int]]:
    """Broker, topic, partition and offset of each."""
    return [
        (broker, topic, partition, offset)
        for broker, topics in progress.items()
        for topic, offsets in topics.items()
        for partition, offset in offsets.items()
    ]


def make(spark: SparkSession, lake: Lake) -> None:
    """The namespace and the tables that are missing. What is there is checked and left as it is."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lake.namespace}")
    there = _there(spark, lake)
    for name in COLUMNS:
        if name not in there:
            spark.sql(_statement(lake, name))
    check(spark, lake)


def check(spark: SparkSession, lake: Lake) -> None:
    """Raises SetupError, with every fault, when a table is missing or of a format not known here."""
    faults = list(_faults(spark, lake))
    if faults:
        raise SetupError(
            "; ".join(fault for fault, _ in faults),
            setting="pipeline.lake",
            cure="; ".join(dict.fromkeys(cure for _, cure in faults)),
        )


def _faults(spark: SparkSession, lake: Lake) -> Iterator[tuple[str, str]]:
    there = _there(spark, lake)
    for name in COLUMNS:
        if name not in there:
            yield absent(lake, name)
            continue
        found = properties(spark, lake, name).get(FORMAT_PROPERTY, "none")
        if found != FORMAT_VERSION:
            yield of_another_format(lake, name, found)


def absent(lake: Lake, name: str) -> tuple[str, str]:
    """The fault of a table that is not there, and its cure."""
    return (
        f"there is no table {lake.table(name)} in {lake.catalog.warehouse}",
        "name the lake that was filled, or fill it: skybridge pipeline archive --once",
    )


def of_another_format(lake: Lake, name: str, found: str) -> tuple[str, str]:
    """The fault of a table of a format not known here, and its cure."""
    return (
        f"{lake.table(name)} has format {found}, known here is {FORMAT_VERSION}",
        "use the Skybridge that wrote it, or another namespace (pipeline.lake.namespace)",
    )


def properties(spark: SparkSession, lake: Lake, name: str) -> dict[str, str]:
    rows = spark.sql(f"SHOW TBLPROPERTIES {lake.table(name)}").collect()
    return {row["key"]: row["value"] for row in rows}


def _there(spark: SparkSession, lake: Lake) -> set[str]:
    return {name for name in COLUMNS if spark.catalog.tableExists(lake.table(name))}


def _statement(lake: Lake, name: str) -> str:
    partitions = {EVENTS_TABLE: f"bucket({lake.buckets}, identity)"}.get(name, "days(record_time)")
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in _PROPERTIES.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {lake.table(name)} ({COLUMNS[name]}) USING iceberg"
        f" PARTITIONED BY ({partitions}) TBLPROPERTIES ({listed})"
    )
