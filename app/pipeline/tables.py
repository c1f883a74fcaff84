"""The lake: its tables and the meaning of their columns, for all code that reads or writes them.

- ``events_raw``: Every record as it was on the wire. The archive appends rows and never changes them.
- ``events``: One row for each (source, id). Events of all versions have their 1.0 names.
- ``quarantine``: The records that did not decode, with the rule that they broke.
- typed tables (``pipeline.typed``): One row for each event of a type, with columns for its data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from app.errors import SetupError
from app.pipeline.settings import Lake
from app.spark.columns import LOCATION, RAW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT_VERSION: Final = "1"
"""The format of the tables, stored in the table property ``skybridge.format-version``. Other
formats are refused.
"""

PLACE: Final = ("broker", "topic", "partition", "offset")

CREATED_AGAIN: Final = "^([^:/@]+)@[0-9]+$"
"""The stored name of a topic that was created again. Neither ``@`` nor ``:`` is legal in Kafka's
names; a topic of Pulsar begins with ``persistent:``.
"""

ATTRIBUTES: Final = (
    "specversion STRING, id STRING, source STRING, type STRING, subject STRING, "
    "datacontenttype STRING, dataschema STRING, time TIMESTAMP, time_text STRING, "
    "extensions MAP<STRING, STRING>, types MAP<STRING, STRING>"
)
"""The columns of an event's attributes, with 1.0 names and canonical texts (CloudEvents core 1.3).

- ``specversion``: Always 1.0.
- ``time_text``: The time as it was received, with its offset and nanoseconds.
- ``time``: The instant; null if Spark cannot represent it.
- ``extensions``: All other attributes; empty if there are none.
- ``types``: The types of extensions that are not String (``Integer``, ``Boolean``); null if there
  are none.
"""

DATA: Final = "data STRING, data_bytes BINARY, data_form STRING"
"""The columns of an event's payload. Without a payload, ``data`` and ``data_bytes`` are null.

- ``data``: The payload as text, exactly as received, if its bytes are UTF-8.
- ``data_bytes``: The payload if its bytes are not UTF-8.
- ``data_form``: ``json``, ``text`` or ``opaque`` (``DataForm``).
"""

ARRIVAL: Final = "content_mode STRING, origin_version STRING"
"""The columns of the received form: the content mode ``binary`` or ``structured``, and a name in
``event.versions.VERSIONS``.
"""

DECODED: Final = f"{LOCATION}, key BINARY, {ATTRIBUTES}, {DATA}, {ARRIVAL}"
"""The columns of a decoded record. The table also has ``identity`` (xxhash64 of source and id), by
which rows are bucketed.
"""

EVENTS: Final = f"identity BIGINT, {DECODED}"

VERDICT: Final = (
    "verdict STRING, rule STRING, detail STRING, "
    "faults ARRAY<STRUCT<code: STRING, detail: STRING, at: STRING, rule: STRING>>"
)
"""The columns that state why a record did not decode.

- ``verdict``: ``invalid`` (it has faults), ``foreign`` (not a CloudEvent), ``unreadable`` (an
  unsupported or refused format) or ``unfit``. An ``unfit`` event is valid and in ``events``, but its
  data does not fit its typed table.
- ``rule``: The code of the first fault or of the refusal.
- ``detail``: An explanation for people.
"""

UNFIT: Final = "unfit"
"""The verdict of a valid event whose data does not fit the typed table of its type."""

QUARANTINE: Final = f"{RAW}, {VERDICT}, seen TIMESTAMP"
"""The columns of ``quarantine``. ``seen`` is the time at which the row was written."""

RAW_TABLE: Final = "events_raw"
EVENTS_TABLE: Final = "events"
QUARANTINE_TABLE: Final = "quarantine"
COLUMNS: Final[Mapping[str, str]] = {
    RAW_TABLE: RAW,
    EVENTS_TABLE: EVENTS,
    QUARANTINE_TABLE: QUARANTINE,
}

FORMAT_PROPERTY: Final = "skybridge.format-version"
TYPE_PROPERTY: Final = "skybridge.type"
"""The property of a typed table that names the type of its events."""

PROGRESS_PROPERTY: Final = "skybridge.progress"
"""The summary property in which snapshots store the progress of the table."""

UNFIT_PROPERTY: Final = "skybridge.progress.unfit"
"""The summary property of ``quarantine`` that states for each typed table up to which offsets
``quarantine`` has the records whose data does not fit. Null means the progress of
``quarantine`` itself.
"""

Progress = Mapping[str, Mapping[str, Mapping[int, int]]]
"""The first offset that a table does not yet have, by broker, topic and partition."""

PROPERTIES: Final[Mapping[str, str]] = {
    FORMAT_PROPERTY: FORMAT_VERSION,
    "format-version": "2",
    "write.distribution-mode": "none",  # each task writes its own rows: wide rows are not shuffled
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",  # level 3 costs a tenth of the speed and saves little
    "write.parquet.row-group-check-min-record-count": "1",  # a hundred large records would fill the memory
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.retry.num-retries": "30",  # the archive, maintain and redrive write concurrently
    "commit.retry.max-wait-ms": "2000",
    "history.expire.min-snapshots-to-keep": "10",
}


def stored_topic(topic: str, number: int) -> str:
    """Return the value of the column ``topic`` for the first, second, ... topic of one name:
    ``orders``, ``orders@2``, ...
    """
    return topic if number < 2 else f"{topic}@{number}"  # noqa: PLR2004 - only the first has no number


def broker_topic(stored: str) -> str:
    """Return the name by which the broker knows a topic of the column ``topic``."""
    found = re.match(CREATED_AGAIN, stored)
    return found[1] if found else stored


def progress_of(text: str) -> Progress:
    """Parse the text of PROGRESS_PROPERTY."""
    return msgspec.json.decode(text, type=dict[str, dict[str, dict[int, int]]])


def places(progress: Progress) -> list[tuple[str, str, int, int]]:
    """Return the progress as tuples of broker, topic, partition and offset."""
    return [
        (broker, topic, partition, offset)
        for broker, topics in progress.items()
        for topic, offsets in topics.items()
        for partition, offset in offsets.items()
    ]


def make(spark: SparkSession, lake: Lake) -> None:
    """Create the namespace and the missing tables. Existing tables are checked and not changed.

    Raises:
        SetupError: A table has a format that this version does not support.
    """
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lake.namespace}")
    formats = _formats(spark, lake)
    demand_formats(lake, {name: found for name, found in formats.items() if found is not None})
    for name, found in formats.items():
        if found is None:
            spark.sql(_statement(lake, name))


def check(spark: SparkSession, lake: Lake) -> None:
    """Raise SetupError with every fault if a table is missing or has a format that this version
    does not support.
    """
    demand_formats(lake, _formats(spark, lake))


def demand_formats(lake: Lake, formats: Mapping[str, str | None]) -> None:
    """Raise SetupError with every fault if a table is missing or has an unsupported format.

    Args:
        lake: The lake.
        formats: The format of each table by its name; None for a table that is missing.
    """
    faults: dict[str, str] = {}
    for name, found in formats.items():
        table = lake.table(name)
        if found is None:
            faults[f"there is no table {table} in {lake.catalog.warehouse}"] = (
                "name the lake that was filled, or fill it: skybridge pipeline archive --once"
            )
        elif found != FORMAT_VERSION:
            faults[f"{table} has format {found}, but this Skybridge supports {FORMAT_VERSION}"] = (
                "use the Skybridge that wrote it, or another namespace (pipeline.lake.namespace)"
            )
    if faults:
        cure = "; ".join(dict.fromkeys(faults.values()))
        raise SetupError("; ".join(faults), setting="pipeline.lake", cure=cure)


def _formats(spark: SparkSession, lake: Lake) -> dict[str, str | None]:
    return {
        name: properties(spark, lake, name).get(FORMAT_PROPERTY, "none")
        if spark.catalog.tableExists(lake.table(name))
        else None
        for name in COLUMNS
    }


def properties(spark: SparkSession, lake: Lake, name: str) -> dict[str, str]:
    rows = spark.sql(f"SHOW TBLPROPERTIES {lake.table(name)}").collect()
    return {row["key"]: row["value"] for row in rows}


def _statement(lake: Lake, name: str) -> str:
    partitions = "days(record_time)"
    if name == EVENTS_TABLE:
        partitions = (
            f"days(time), bucket({lake.buckets}, identity)" if lake.buckets > 1 else "days(time)"
        )
    listed = property_list(PROPERTIES)
    return (
        f"CREATE TABLE IF NOT EXISTS {lake.table(name)} ({COLUMNS[name]}) USING iceberg"
        f" PARTITIONED BY ({partitions}) TBLPROPERTIES ({listed})"
    )


def property_list(properties: Mapping[str, str]) -> str:
    """Return table properties as Spark's SQL takes them."""
    texts = (value.replace("\\", "\\\\").replace("'", "\\'") for value in properties.values())
    return ", ".join(f"'{key}' = '{text}'" for key, text in zip(properties, texts, strict=True))


def typed(spark: SparkSession, lake: Lake) -> list[str]:
    """Return the names of all typed tables of a lake, also of those that are configured no more."""
    rows = spark.sql(f"SHOW TABLES IN lake.{lake.namespace}").collect()
    names = sorted({row["tableName"] for row in rows} - set(COLUMNS))
    return [name for name in names if TYPE_PROPERTY in properties(spark, lake, name)]
