"""Data files are written with the versions of Iceberg that were tried with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.errors import SetupError
from app.pipeline import history
from app.pipeline.archive import layouts
from app.pipeline.archive.iceberg_adapter import access, demand_known
from app.pipeline.settings import Lake
from app.spark.jars import JARS
from app.spark.settings import LakeCatalog


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


class JavaMap(dict[str, str]):
    """A map of Java."""

    def toString(self) -> str:  # noqa: N802 - the name in Java
        return str(self)


def table_with(**keys: str) -> Any:
    """Return a table of Iceberg in s3://b/t, whose catalog issues a key for each prefix."""
    interface = SimpleNamespace(getSimpleName=lambda: "SupportsStorageCredentials")
    issued = [
        SimpleNamespace(
            prefix=lambda each=prefix: f"s3://{each}", config=lambda each=key: JavaMap(key=each)
        )
        for prefix, key in keys.items()
    ]
    files = SimpleNamespace(
        properties=lambda: JavaMap(endpoint="e"),
        credentials=lambda: issued,
        getClass=lambda: SimpleNamespace(getInterfaces=lambda: [interface]),
    )
    text = SimpleNamespace(toString=lambda: "", specId=lambda: 0)
    return SimpleNamespace(
        io=lambda: files, location=lambda: "s3://b/t", schema=lambda: text, spec=lambda: text,
        properties=JavaMap,
    )  # fmt: skip


def test_of_several_credentials_the_longest_prefix_counts() -> None:
    assert access(table_with(**{"b/t": "own", "b": "bucket", "c": "other"}))["key"] == "own"


def test_new_credentials_of_a_table_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog issues them for minutes, and an archive runs for months."""
    lake = Lake(LakeCatalog("rest", "http://none:1", "events"))
    monkeypatch.setattr(layouts, "_layout", lambda table, *_: access(table))
    [version] = [each.version for each in JARS if each.artifact.startswith("iceberg")]
    session, found = session_with(version), []
    for key in ("first", "second"):
        table = table_with(b=key)
        monkeypatch.setattr(history, "iceberg_table", lambda *_, table=table: table)
        found.append(cast("Any", layouts.layout(session, lake, "of a test"))["key"])
    assert found == ["first", "second"]
