"""Tables as datasets of Arrow. The files are written by PyIceberg."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from app.pipeline.query.scan import LakeDataset


@pytest.mark.parametrize(("outer", "inner"), [("n", "m"), ("a b", "m"), ("n", "é"), ("1st", "p/q")])
def test_columns_with_any_name_are_read(outer: str, inner: str, tmp_path: Path) -> None:
    """Iceberg gives columns other names in files if Avro does not permit theirs."""
    catalog = SqlCatalog("x", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("skybridge")
    rows = pa.table({outer: [1, 2], "data": pa.array([{inner: 3}, {inner: 4}])})
    table = catalog.create_table("skybridge.orders", schema=rows.schema)
    table.append(rows)
    scan = LakeDataset(catalog.load_table("skybridge.orders")).scanner([outer, "data"])
    assert scan.to_reader().read_all().to_pylist() == rows.to_pylist()
    catalog.engine.dispose()
