"""The newest event of each source and subject: as a view of the catalog, and for DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.latest import create_views
from app.pipeline.maintain import rewrite_manifests
from app.pipeline.query import duck
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog
from lake_folders import session_of
from report_lake import FilledLake
from spark_answers import spark_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_view_of_the_catalog_has_the_rows_that_duckdb_has(small_lake: FilledLake) -> None:
    """One row of each source, for none has a subject. What looks for tables finds no view."""
    session, lake = small_lake.session, small_lake.lake
    for _ in range(2):  # it is created, and then replaced
        assert create_views(session, lake) == ["lake.skybridge.events_latest"]
    sql = "SELECT * FROM {} ORDER BY source"
    by_spark = spark_answer(session, lake, sql.format("lake.skybridge.events_latest"))
    assert duck.ask(lake, sql.format("events_latest"), limit=0) == by_spark
    newest: dict[object, tuple[object, object]] = {}
    order = "SELECT source, id, coalesce(time, record_time) AS moment FROM events ORDER BY moment, record_time"
    for source, name, _ in duck.ask(lake, order, limit=0).rows:
        newest[source] = (source, name)
    found = duck.ask(lake, "SELECT source, id FROM events_latest ORDER BY source", limit=0)
    assert found.rows == sorted(newest.values())
    assert tables.typed(session, lake) == []
    assert rewrite_manifests(session, lake, "events") >= 0


def test_a_catalog_without_views_is_named(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(LakeCatalog("hadoop", "", tmp_path.as_uri()))
    session = session_of(lake)
    tables.make(session, lake)
    with pytest.raises(SetupError, match="has no views") as refusal:
        create_views(session, lake)
    assert "events_latest" in refusal.value.cure
