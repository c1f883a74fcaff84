"""Columns inside other columns of files, whose names may be older than those of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import SetupError
from app.pipeline.archive.layouts import demand_inner
from app.pipeline.archive.nested import FIELD_ID
from app.pipeline.archive.reading import batches
from app.pipeline.kinds import Field, Items, Leaf, Properties, TypedTable


def column(name: str, number: int, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: b"%d" % number})


INT, LONG = pa.int32(), pa.int64()
BEFORE = pa.struct([column("count", 5, INT), column("gone", 6, INT)])
AFTER = pa.struct([column("gone", 9, INT), column("quantity", 5, LONG)])
"""``count`` was renamed and became wider; ``gone`` was dropped, and added again."""
OLD, NEW = {"count": 7, "gone": 8}, {"gone": None, "quantity": 7}


@pytest.mark.parametrize(
    ("before", "after", "values", "wanted"),
    [
        (BEFORE, AFTER, [OLD, None, OLD], [NEW, None, NEW]),
        (pa.list_(column("element", 2, BEFORE)), pa.list_(column("element", 2, AFTER)),
         [[OLD, None], None, [], [OLD]], [[NEW, None], None, [], [NEW]]),
        (pa.map_(pa.string(), column("value", 3, BEFORE)), pa.map_(pa.string(), column("value", 3, AFTER)),
         [[("k", OLD)], None, []], [[("k", NEW)], None, []]),
        (pa.struct([column("a", 2, pa.list_(column("element", 3, BEFORE)))]),
         pa.struct([column("b", 2, pa.list_(column("element", 3, AFTER)))]), [{"a": [OLD]}], [{"b": [NEW]}]),
        (BEFORE, BEFORE, [OLD], [OLD]),
    ],
)  # fmt: skip
def test_inner_columns_are_found_by_their_ids(
    before: pa.DataType, after: pa.DataType, values: list[Any], wanted: list[Any], tmp_path: Path
) -> None:
    """MUST (Iceberg, Column Projection): columns are selected by field ids, never by their names."""
    file = tmp_path / "old.parquet"
    table = pa.table({"n": values}, pa.schema([column("n", 1, before)]))
    pq.write_table(table, file, store_schema=False)
    schema = pa.schema([column("n", 1, after)])
    [found] = batches(file.as_uri(), {}, schema, complete=False)
    assert found.column("n").cast(after).to_pylist() == wanted


def test_a_typed_table_that_lost_an_inner_column_is_refused() -> None:
    lines = Items(Properties((Field("sku", Leaf("string")), Field("note", Leaf("json")))))
    typed = TypedTable("com.example.order", "orders", Properties((Field("lines", lines),)))
    inner = [("sku", pa.string()), ("note", pa.string())]
    demand_inner(pa.schema([("lines", pa.list_(pa.struct(inner)))]), "orders", typed)
    with pytest.raises(SetupError, match=r"orders has lost columns: lines\.element\.note"):
        demand_inner(pa.schema([("lines", pa.list_(pa.struct(inner[:1])))]), "orders", typed)
