"""Decode records of Arrow batches row by row with ``app.bindings``."""

from __future__ import annotations

import pyarrow as pa

from app.pipeline.decode.bindings import binding_of
from app.pipeline.decode.judged import DecodedRow, decode_row
from app.spark.arrow_records import arrays, records

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


def decode_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode each record of a batch of the columns RAW, by the binding of its broker."""
    bindings = map(binding_of, batch.column("topic").to_pylist())
    rows = list(map(decode_row, records(batch), (each.decode for each in bindings)))
    return pa.RecordBatch.from_arrays(arrays(rows, DECODED_ROW_SCHEMA), schema=DECODED_ROW_SCHEMA)
