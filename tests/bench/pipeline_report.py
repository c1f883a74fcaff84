"""How long ``skybridge pipeline report`` takes, from the shell to the page.

The lake is made first, by Spark alone and without decoding, and is not part of the time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from pipeline_figures import Figure, sized, told

from app.pipeline import tables
from app.pipeline.archive import progress
from app.pipeline.settings import Lake
from app.spark.session import open_session
from app.spark.settings import LakeCatalog, SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET: Final = 60.0  # seconds, of 2,000,000 events
_CONFIG: Final = """version: 1
installation: bench
brokers:
  log: {kind: embedded, path: ./log}
pipeline:
  lake: {warehouse: "%s"}
  spark: {master: "local[2]"}
"""
_PLACE: Final = (
    *(
        "'main' AS broker",
        "'orders' AS topic",
        "CAST(id % 4 AS INT) AS partition",
        "id DIV 4 AS offset",
    ),
    "timestamp_micros(1763596800000000 + id * 43200) AS record_time",
    "CAST(concat('customer-', CAST(pow(rand(1), 3) * 50000 AS INT)) AS BINARY) AS key",
)
_DATA: Final = (
    'concat(\'{"order":\', id, \',"amount":"\', id % 997, \'.10","lines":[{"sku":"S\', id % 100, \'"}],\','
    " '\"note\":\"', repeat(sha2(CAST(id AS STRING), 256), 11), '\"}')"
)


def fill(spark: SparkSession, lake: Lake, count: int) -> None:
    """Events of about 1 kB; one record in a hundred is a duplicate, one in two hundred invalid."""
    tables.make(spark, lake)
    ids = spark.range(count).selectExpr("id", *_PLACE, f"{_DATA} AS data")
    raw = ids.selectExpr("*", "encode(data, 'UTF-8') AS value")
    _append(spark, lake, tables.RAW_TABLE, raw)
    events = ids.where("id % 100 <> 7 AND id % 200 <> 11").selectExpr(
        *("*", "CAST(id AS STRING) AS name", "concat('/shops/', id % 40) AS source"),
        "concat('com.example.order.', element_at(array('placed', 'paid', 'sent'), CAST(id % 3 AS INT) + 1)) AS type",
        *("'1.0' AS specversion", "'json' AS data_form", "'binary' AS content_mode"),
        "timestamp_micros(unix_micros(record_time) - CAST(rand(2) * 2000000 AS BIGINT)) AS time",
    )
    named = events.drop("id").withColumnRenamed("name", "id")
    whole = named.selectExpr("*", "xxhash64(source, id) AS identity").repartition(
        lake.buckets, "identity"
    )
    _append(spark, lake, tables.EVENTS_TABLE, whole)
    broken = raw.where("id % 200 = 11").selectExpr(
        *(
            "*",
            "'invalid' AS verdict",
            "'missing-attribute' AS rule",
            "'source: is required' AS detail",
        ),
    )
    ends = progress.as_text(progress.reach(raw))
    _append(
        spark,
        lake,
        tables.QUARANTINE_TABLE,
        broken,
        **{f"snapshot-property.{progress.PROPERTY}": ends},
    )


def _append(spark: SparkSession, lake: Lake, name: str, frame: DataFrame, **options: str) -> None:
    columns = spark.createDataFrame([], tables.COLUMNS[name]).schema
    writer = frame.to(columns).writeTo(lake.table(name)).options(**options)
    writer.option("fanout-enabled", "true").append()


def measured(folder: Path) -> float:
    """Seconds of the verb, by the clock."""
    config = folder / "skybridge.yaml"
    config.write_text(_CONFIG % (folder / "lake"))
    skybridge = Path(sys.executable).with_name("skybridge")
    command = [
        str(skybridge),
        "pipeline",
        "report",
        "--config",
        str(config),
        "--out",
        str(folder / "r.html"),
    ]
    started = perf_counter()
    subprocess.run([*command, "--json", "--no-deliveries"], check=True, cwd=folder)
    return perf_counter() - started


def main() -> int:
    asked = sized(__doc__, short=20_000, usual=200_000, rounds=1).parse_args()
    count = 20_000 if asked.short else asked.events
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "lake")
        place.mkdir()
        lake = Lake(LakeCatalog("jdbc", f"jdbc:sqlite:{place}/catalog.db", place.as_uri()))
        spark = open_session(
            SparkEngine(master="local[2]", memory="2g"), lake.catalog, app_name="bench"
        )
        try:
            fill(spark, lake, count)
        finally:
            spark.stop()
            spark._sc._gateway.shutdown()
        seconds = measured(Path(folder))
    what = f"report: over {count:,} events, from the shell"
    return told([Figure(what, f"{seconds:.1f} s", seconds, TARGET, most=True)], asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
