"""The exact way: ``app.bindings`` itself, over Arrow batches in Spark's Python workers.

The workers import ``app``: on a cluster the wheel has to be there (``docs/guides/pipeline-decode.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute

from app.bindings import kafka, pulsar
from app.bindings.record import Decoded, Header, Record
from app.pipeline import tables
from app.pipeline.decode.judged import Judged, judge
from app.pipeline.pulsar.options import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEPT = (*tables.PLACE, "record_time", "key")
_SENT = ("value", "headers")
_TEXTS = pa.map_(pa.string(), pa.string())
_FAULT = pa.struct([(name, pa.string()) for name in ("code", "detail", "at", "rule")])
_SCHEMA = pa.schema(
    [
        (name, {"extensions": _TEXTS, "types": _TEXTS, "data_bytes": pa.binary(),
                "faults": pa.list_(_FAULT)}.get(name, pa.string()))
        for name in Judged._fields
    ]
)  # fmt: skip
_WITHOUT_TIME = tables.ATTRIBUTES.replace("time TIMESTAMP, ", "")
_RETURNED = (
    f"{tables.LOCATION}, key BINARY, {_WITHOUT_TIME}, {tables.DATA}, {tables.ARRIVAL}, "
    f"{tables.VERDICT}, value BINARY, headers {tables.HEADERS}"
)


def judged(raw: DataFrame) -> DataFrame:
    """DECODED without ``time``, VERDICT, and ``value`` and ``headers`` of records with a verdict."""
    return raw.select(*_KEPT, *_SENT).mapInArrow(_batches, _RETURNED)


def _batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield judged_batch(batch)


def judged_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of the columns RAW, decoded."""
    decoders = map(_decoder, batch.column("topic").to_pylist())
    rows = list(map(judge, records(batch), decoders))
    refused = pa.array([row.verdict is not None for row in rows], pa.bool_())
    kept = [batch.column(name) for name in _KEPT]
    sent = [_where(refused, batch.column(name)) for name in _SENT]
    return pa.RecordBatch.from_arrays(
        [*kept, *arrays(rows, _SCHEMA), *sent], [*_KEPT, *Judged._fields, *_SENT]
    )


def arrays(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> list[pa.Array]:
    """The columns of rows."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]


def _decoder(topic: str | None) -> Callable[[Record], Decoded]:
    """By whose topic it is: names of Pulsar's are URIs, which Kafka's cannot be."""
    return pulsar.decode if (topic or "").startswith(SCHEME) else kafka.decode


def _where(refused: pa.Array, column: pa.Array) -> pa.Array:
    places = pa.array(range(len(column)), pa.int64())
    return column.take(pyarrow.compute.if_else(refused, places, None))


def records(batch: pa.RecordBatch) -> Iterator[Record]:
    """The records of a batch."""
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
    """Kafka has no header without a name; a table might."""
    return tuple(zip((name or "" for name in names), values, strict=True))
