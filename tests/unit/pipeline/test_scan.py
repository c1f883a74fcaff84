"""Tables as datasets of Arrow. The files are written by PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, StringType

from app.pipeline.query.duck import answer_from
from app.pipeline.query.scan import LakeDataset
from app.pipeline.typed.rows import COLUMNS


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    found = SqlCatalog("x", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    found.create_namespace("skybridge")
    yield found
    found.engine.dispose()


@pytest.mark.parametrize(("outer", "inner"), [("n", "m"), ("a b", "m"), ("n", "é"), ("1st", "p/q")])
def test_columns_with_any_name_are_read(outer: str, inner: str, catalog: SqlCatalog) -> None:
    """Iceberg gives columns other names in files if Avro does not permit theirs."""
    rows = pa.table({outer: [1, 2], "data": pa.array([{inner: 3}, {inner: 4}])})
    table = catalog.create_table("skybridge.orders", schema=rows.schema)
    table.append(rows)
    scan = LakeDataset(catalog.load_table("skybridge.orders")).scanner([outer, "data"])
    assert scan.to_reader().read_all().to_pylist() == rows.to_pylist()


def test_files_of_a_schema_that_another_program_removed_are_read(catalog: SqlCatalog) -> None:
    """Iceberg's expiry can remove the schemas that no snapshot needs. Files keep the old names."""
    rows = pa.table({"n": [1, 2], "old": ["a", "b"]})
    catalog.create_table("skybridge.orders", schema=rows.schema).append(rows)
    with catalog.load_table("skybridge.orders").update_schema() as change:
        change.rename_column("old", "new")
        change.add_column("more", StringType())
    table = catalog.load_table("skybridge.orders")
    metadata = table.metadata.model_copy(update={"schemas": [table.schema()]})
    dataset = LakeDataset(StaticTable(table.name(), metadata, "", table.io, table.catalog))
    found = answer_from({"orders": dataset}, "SELECT * FROM orders WHERE new = 'b'", limit=0)
    assert found.rows == [(2, "b", None)]


def test_null_stays_null_in_files_of_an_older_schema(catalog: SqlCatalog) -> None:
    """MUST (Iceberg, Schema Evolution): inner columns are found by ids; a new one is null in old rows."""
    inner = pa.struct([("n", pa.int32()), ("old", pa.string())])
    kinds = {"s": inner, "l": pa.list_(inner), "m": pa.map_(pa.string(), inner)}
    value = {"n": 1, "old": "x"}
    values = {"s": [value, None], "l": [[value], None], "m": [[("k", value)], None]}
    rows = pa.table({name: pa.array(values[name], kind) for name, kind in kinds.items()})
    table = catalog.create_table("skybridge.orders", schema=rows.schema)
    table.append(rows)
    [task] = table.scan().plan_files()
    with table.io.new_output(task.file.file_path).create(overwrite=True) as file:
        pq.write_table(rows.cast(table.schema().as_arrow()), file)  # PyIceberg wrote empty lists
    with table.update_schema() as change:
        for path in (("s",), ("l", "element"), ("m", "value")):
            change.add_column((*path, "more"), StringType())
            change.update_column((*path, "n"), LongType())
            change.rename_column((*path, "old"), "new")
    table = catalog.load_table("skybridge.orders")
    found = answer_from({"orders": LakeDataset(table)}, "SELECT * FROM orders", limit=0).rows
    now = {"n": 1, "new": "x", "more": None}
    assert found == [(now, [now], {"k": now}), (None, None, None)]


def test_the_newest_rows_of_a_table_that_is_named_like_a_word_of_sql(catalog: SqlCatalog) -> None:
    rows = pa.table({name: ["x"] for name in COLUMNS} | {"n": [1]})
    table = catalog.create_table("skybridge.order", schema=rows.schema)
    table.append(rows)
    found = answer_from({"order": LakeDataset(table)}, "SELECT n FROM order_latest", limit=0)
    assert found.rows == [(1,)]
