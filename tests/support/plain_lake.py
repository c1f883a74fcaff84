"""A lake of many rows that PyIceberg writes without Spark. It has so many rows that a short query
ends before it has read all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from app.pipeline import tables
from app.pipeline.settings import Lake
from app.spark.session import CATALOG
from app.spark.settings import LakeCatalog

FILE: Final = 50_000  # rows in one data file

_TEXT, _TIME = pa.string(), pa.timestamp("us", "UTC")
_LOCATION: Final = (
    ("broker", _TEXT), ("topic", _TEXT), ("partition", pa.int32()), ("offset", pa.int64()), ("record_time", _TIME),
)  # fmt: skip
_HEADERS: Final = pa.list_(pa.struct([("key", _TEXT), ("value", pa.binary())]))
_RAW: Final = (*_LOCATION, ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS))
_TEXTS: Final = pa.map_(_TEXT, _TEXT)
_FAULT: Final = pa.struct([(name, _TEXT) for name in ("code", "detail", "at", "rule")])
_SCHEMAS: Final = {
    tables.RAW_TABLE: pa.schema(_RAW),
    tables.EVENTS_TABLE: pa.schema([
        ("identity", pa.int64()), *_LOCATION, ("key", pa.binary()),
        *((name, _TEXT) for name in ("specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema")),
        ("time", _TIME), ("time_text", _TEXT), ("extensions", _TEXTS), ("types", _TEXTS), ("data", _TEXT),
        ("data_bytes", pa.binary()), ("data_form", _TEXT), ("content_mode", _TEXT), ("origin_version", _TEXT),
    ]),
    tables.QUARANTINE_TABLE: pa.schema(
        [*_RAW, ("verdict", _TEXT), ("rule", _TEXT), ("detail", _TEXT), ("faults", pa.list_(_FAULT)), ("seen", _TIME)]
    ),
}  # fmt: skip


_ROWS: Final = """
SELECT n AS identity, 'main' AS broker, 'orders' AS topic, n % 2 AS partition, n // 2 AS offset,
    TIMESTAMPTZ '2026-11-20 00:00:00Z' + to_microseconds(n) AS record_time, encode('k' || n % 99) AS key,
    encode(data) AS value, '1.0' AS specversion, 'n-' || n AS id, '/shop/' || n % 5 AS source,
    'com.example.' || n % 3 AS type, data, 'json' AS data_form, 'binary' AS content_mode
FROM (SELECT range AS n, '{{"n": ' || range || ', "note": "' || sha256(range::VARCHAR) || '"}}' AS data FROM range({begin}, {end}))
"""


def fill(folder: Path, count: int) -> Lake:
    """Write ``count`` events and their records into a new lake at ``folder``, ``FILE`` rows a data
    file."""
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    try:
        catalog.create_namespace("skybridge")
        properties = {tables.FORMAT_PROPERTY: tables.FORMAT_VERSION}
        made = {
            name: catalog.create_table(f"skybridge.{name}", schema, properties=properties)
            for name, schema in _SCHEMAS.items()
        }
        for begin in range(0, count, FILE):
            sql = _ROWS.format(begin=begin, end=min(begin + FILE, count))
            with duckdb.connect() as made_by:
                rows = made_by.sql(sql).to_arrow_table()
            for name in (tables.RAW_TABLE, tables.EVENTS_TABLE):
                made[name].append(_fitted(rows, _SCHEMAS[name]))
    finally:
        catalog.engine.dispose()
    return Lake(LakeCatalog("jdbc", f"jdbc:sqlite:{folder}/catalog.db", folder.as_uri()))


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns of ``schema``. Columns that the rows lack are null."""
    columns = [
        rows[each.name].cast(each.type)
        if each.name in rows.column_names
        else pa.nulls(len(rows), each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
