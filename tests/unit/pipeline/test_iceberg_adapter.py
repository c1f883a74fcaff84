"""Data files are written with the versions of Iceberg that were tried with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.errors import SetupError
from app.pipeline.archive.iceberg_adapter import demand_known
from app.spark.jars import JARS


def session_with(version: str) -> Any:
    build = SimpleNamespace(version=lambda: version)
    apache = SimpleNamespace(iceberg=SimpleNamespace(IcebergBuild=build))
    return cast("Any", SimpleNamespace(_jvm=SimpleNamespace(org=SimpleNamespace(apache=apache))))


def test_the_jar_of_skybridge_is_known() -> None:
    [jar] = [each for each in JARS if each.artifact.startswith("iceberg")]
    demand_known(session_with(jar.version))


def test_jars_of_the_operator_with_another_version_name_the_cure() -> None:
    with pytest.raises(SetupError, match=r"Iceberg 1\.10\.0 is not known") as refusal:
        demand_known(session_with("1.10.0"))
    assert "spark.jars" in refusal.value.cure
