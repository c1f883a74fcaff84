"""Lakes for tests of the pipeline, each in its own folder, in the Spark that all tests of a run
share.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog

from app.pipeline.archive.job import ArchivePlan
from app.pipeline.settings import Lake
from app.spark.session import open_session
from app.spark.settings import KafkaPlace, LakeCatalog, SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lake_in(folder: Path) -> Lake:
    folder.mkdir(parents=True, exist_ok=True)
    uri = f"jdbc:sqlite:{folder}/catalog.db"
    return Lake(LakeCatalog("jdbc", uri, folder.as_uri()), buckets=2)


def session_of(lake: Lake) -> SparkSession:
    """Return a session of the lake in the Spark of the fixture ``spark``, which also ends it."""
    return open_session(SparkEngine(), lake.catalog, app_name="tests")


def read_table(folder: Path, table: str, columns: tuple[str, ...] = ("*",)) -> Any:
    """Return a table of ``lake_in(folder)`` as Arrow, read with PyIceberg and none of our code."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    try:
        return catalog.load_table(f"skybridge.{table}").scan(selected_fields=columns).to_arrow()
    finally:
        catalog.engine.dispose()


def plan_for(
    lake: Lake,
    bootstrap_servers: str,
    topic: str,
    *,
    most: int = 5_000,
    trigger: float = 1.0,
) -> ArchivePlan:
    return ArchivePlan(
        place=KafkaPlace("main", bootstrap_servers),
        topics=(topic,),
        most=most,
        at_once=most,
        trigger=trigger,
    )


CUT = 15
"""Iceberg cuts bounds after 16 characters, and makes the last one of an upper bound greater."""


def holding(folder: Path, text: str) -> list[Path]:
    """Files with the text in them, or its begin: compressed columns as Parquet reads them, manifests as Avro."""
    import pyarrow.parquet as pq
    from fastavro import reader

    found = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        seen = path.read_bytes()
        if path.suffix == ".parquet":
            seen += repr(pq.read_table(path).to_pylist()).encode()
        if path.suffix == ".avro":
            with path.open("rb") as manifest:
                seen += repr(list(reader(manifest))).encode()
        if text[:CUT].encode() in seen:
            found.append(path)
    return found
