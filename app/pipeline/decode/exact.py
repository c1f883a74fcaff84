"""Decode records of Arrow batches row by row with ``app.bindings``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from app.bindings.record import Header, Record
from app.pipeline.decode.bindings import binding_of
from app.pipeline.decode.judged import DecodedRow, decode_row

TEXT_MAP = pa.map_(pa.string(), pa.string())
_FAULT = pa.struct([(name, pa.string()) for name in ("code", "detail", "at", "rule")])
DECODED_ROW_SCHEMA = pa.schema(
    [
        (name, {"extensions": TEXT_MAP, "types": TEXT_MAP, "data_bytes": pa.binary(),
                "faults": pa.list_(_FAULT)}.get(name, pa.string()))
        for name in DecodedRow._fields
    ]
)  # fmt: skip
"""The columns of ``DecodedRow`` as an Arrow schema."""


def decode_rows(batch: pa.RecordBatch) -> list[DecodedRow]:
    """Decode each record of a batch of the columns RAW, by the binding of its broker."""
    bindings = map(binding_of, batch.column("topic").to_pylist())
    return list(map(decode_row, records(batch), (each.decode for each in bindings)))


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
