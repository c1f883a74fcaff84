"""A small lake that report and query share: looking changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from report_lake import FilledLake, fill_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def small_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FilledLake:
    return fill_lake(tmp_path_factory.mktemp("small-lake"))
