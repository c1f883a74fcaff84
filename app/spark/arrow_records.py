"""Convert Arrow batches with the columns RAW to records, and rows to Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from app.bindings.record import Header, Record


def arrays(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> list[pa.Array]:
    """Return rows as a list of Arrow columns with the types of the schema."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]


def records(batch: pa.RecordBatch) -> Iterator[Record]:
    """Yield the records of a batch."""
    headers = batch.column("headers")
    offsets = headers.offsets.to_pylist()
    pairs = headers.values
    names, values = pairs.field("key").to_pylist(), pairs.field("value").to_pylist()
    there = headers.is_valid().to_pylist()
    columns = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    for at, (key, body) in enumerate(zip(*columns, strict=True)):
        start, stop = (offsets[at], offsets[at + 1]) if there[at] else (0, 0)
        yield Record(key, _headers(names[start:stop], values[start:stop]), body)


def _headers(names: list[str | None], values: list[bytes | None]) -> tuple[Header, ...]:
    """Return pairs of name and value. A null name becomes empty: Kafka never has one, but a table
    may.
    """
    return tuple(zip((name or "" for name in names), values, strict=True))
