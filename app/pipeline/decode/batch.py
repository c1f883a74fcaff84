"""Decode Arrow batches of records to events by column. Each row has the result of ``judged.decode_row``,
in the same order.

=========== ======================================================================
headers     binary mode, all versions: each name is looked up once a batch, values by column
documents   one content type, JSON in UTF-8: the members are decoded in the same way
doubtful    all other records: ``decode_row`` decodes the whole ``Record``
=========== ======================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from app.bindings.record import ContentMode
from app.pipeline.decode.bindings import KAFKA, ColumnBinding, binding_of
from app.pipeline.decode.buffers import (
    Numbers,
    is_text,
    is_utf8,
    offsets_of,
    take_or_null,
    validity_of,
)
from app.pipeline.decode.columns import OPAQUE, EventPart, Payload, event_columns, replaced
from app.pipeline.decode.document_columns import read_documents
from app.pipeline.decode.exact import decode_rows
from app.pipeline.decode.header_columns import read_headers
from app.pipeline.decode.times import instants
from app.pipeline.tables import PLACE

_log = logging.getLogger(__name__)

KEPT: Final = (*PLACE, "record_time", "key")
SENT: Final = ("value", "headers")
LARGEST: Final = 1 << 28
"""The number of bytes of values that are decoded at once, so that 32-bit offsets suffice for every
column made of them.
"""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_READ: Final = {"value": pa.binary(), "headers": _HEADERS}
"""The types of the sent columns, with 32-bit offsets, regardless of Spark's setting
useLargeVarTypes.
"""


def decoded_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode batches of the columns RAW."""
    for batch in batches:
        yield from map(decoded_batch, parts(batch))


def parts(batch: pa.RecordBatch, largest: int = LARGEST) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts: it is halved until the values of a part have at most ``largest``
    bytes.
    """
    rows = batch.num_rows
    if rows > 1 and (batch.column("value").nbytes + batch.column("headers").nbytes) > largest:
        yield from parts(batch.slice(0, rows // 2), largest)
        yield from parts(batch.slice(rows // 2), largest)
    else:
        yield batch


def decoded_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode a batch and add the column ``time``: the instant of a time, or null if no instant can
    be computed.
    """
    told = decode_without_times(batch)
    return told.append_column("time", instants(told.column("time_text")))


def decode_without_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode a batch of the columns RAW into KEPT, the columns of ``DecodedRow`` and SENT. SENT is null
    for valid events.
    """
    of_binding = _by_binding(batch.column("topic"))
    if len(of_binding) > 1:
        rows = list(of_binding.values())
        mixed = pa.concat_batches([decode_without_times(_rows(batch, some)) for some in rows])
        return mixed.take(pa.array(np.argsort(np.concatenate(rows))))
    told = _decoded(batch, next(iter(of_binding), KAFKA))
    refused = told.column("verdict").is_valid()
    sent = [_where(refused, batch.column(name).cast(_READ[name])) for name in SENT]
    kept = [batch.column(name) for name in KEPT]
    columns = [*kept, *told.columns, *sent]
    return pa.RecordBatch.from_arrays(columns, [*KEPT, *told.schema.names, *SENT])


def _by_binding(topics: pa.Array) -> dict[ColumnBinding, Numbers]:
    """Return the row numbers of the batch by the binding of their broker."""
    coded = topics.dictionary_encode()
    bindings = [*map(binding_of, coded.dictionary.to_pylist()), binding_of(None)]
    codes = coded.indices.fill_null(len(bindings) - 1).to_numpy()
    present = {bindings[code] for code in np.unique(codes).tolist()}
    return {
        each: np.flatnonzero(np.array([of is each for of in bindings])[codes]) for each in present
    }


def _decoded(batch: pa.RecordBatch, binding: ColumnBinding) -> pa.RecordBatch:
    """Return the columns of ``DecodedRow``.

    If decoding by column fails, the batch is decoded row by row. A record that causes an error must
    not end the query, because a restarted query would read it again.
    """
    try:
        columns, clear = event_columns(_parts_by_mode(batch, binding))
    except Exception:  # noqa: BLE001 - a restarted query would read the record again
        _log.exception("a batch could not be decoded by column; it is decoded row by row")
        return decode_rows(batch)
    left = np.flatnonzero(~clear)
    return replaced(columns, left, decode_rows(_rows(batch, left))) if len(left) else columns


def _parts_by_mode(batch: pa.RecordBatch, binding: ColumnBinding) -> list[EventPart]:
    """Return the events in binary mode, and the documents. If all rows are documents, return these alone."""
    values, headers = (batch.column(name).cast(_READ[name]) for name in SENT)
    utf8 = is_utf8(values)
    told = read_headers(headers, binding)
    payload = _binary_payload(values, told.events.clear, binding, utf8=utf8)
    all_rows = np.arange(len(values))
    found = [EventPart(ContentMode.BINARY, all_rows, told.events, told.values.texts, payload)]
    rows = _nonempty(told.documents, values)
    if len(rows):
        found.append(read_documents(_rows(values, rows), rows, utf8=utf8))
    return found[-1:] if len(rows) == len(values) else found


def _binary_payload(
    values: pa.Array, clear: Numbers, binding: ColumnBinding, *, utf8: bool
) -> Payload:
    """Return the data of events in binary mode, which is the value of the record."""
    at, are_text = np.arange(len(values)), np.ones(len(values), bool)
    if binding.empty_is_none:
        at[np.diff(offsets_of(values)) == 0] = -1
    if not utf8:
        rows = np.flatnonzero(clear)
        are_text[rows] = list(map(is_text, values.take(pa.array(rows)).to_pylist()))
    return Payload(values, at, np.full(len(values), OPAQUE, np.int8), are_text)


def _nonempty(rows: Numbers, values: pa.Array) -> Numbers:
    """Return the row numbers among ``rows`` whose value is not empty."""
    filled: Numbers = (np.diff(offsets_of(values)) > 0) & validity_of(values)
    return rows[filled[rows]]


def _rows(of: Any, numbers: Numbers) -> Any:
    """Return these rows of a batch or an array. All rows are not copied."""
    return of if len(numbers) == len(of) else of.take(pa.array(numbers))


def _where(refused: pa.Array, column: pa.Array) -> pa.Array:
    if not refused.true_count:
        return pa.nulls(len(column), column.type)
    places = np.where(refused.to_numpy(zero_copy_only=False), np.arange(len(column)), -1)
    return take_or_null(column, places)
