"""Answers of Spark to compare with those of ``pipeline query``: another reader of the same tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.pipeline import tables
from app.pipeline.query.duck import QueryAnswer
from app.pipeline.settings import Lake
from arrow_to_python import python_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_answer(spark: SparkSession, lake: Lake, sql: str) -> QueryAnswer:
    """Return all rows of a query of Spark, in which the tables have their short names."""
    for name in tables.COLUMNS:
        spark.table(lake.table(name)).createOrReplaceTempView(name)
    found = spark.sql(sql)
    columns = map(
        python_values, found.toArrow().columns
    )  # rows of pyspark have times of another zone
    return QueryAnswer(found.columns, list(zip(*columns, strict=True)), more=False)
