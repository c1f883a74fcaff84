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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from app.bindings.record import ContentMode
from app.pipeline.decode.bindings import KAFKA, PULSAR, ColumnBinding, binding_of
from app.pipeline.decode.buffers import (
    Numbers,
    is_text,
    is_utf8,
    offsets_of,
    take_or_null,
    validity_of,
)
from app.pipeline.decode.columns import OPAQUE, Payload, event_columns
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

Piece = tuple[Numbers, pa.RecordBatch]
"""Decoded rows of a batch, with their numbers in it."""


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
    told = _in_order(
        [(rows, _decoded(_rows(batch, rows), binding)) for binding, rows in of_binding]
    )
    refused = told.column("verdict").is_valid()
    sent = [_where(refused, batch.column(name).cast(_READ[name])) for name in SENT]
    kept = [batch.column(name) for name in KEPT]
    columns = [*kept, *told.columns, *sent]
    return pa.RecordBatch.from_arrays(columns, [*KEPT, *told.schema.names, *SENT])


def _by_binding(topics: pa.Array) -> list[tuple[ColumnBinding, Numbers]]:
    """Return each binding of the batch's brokers with the numbers of its rows."""
    coded = topics.dictionary_encode()
    bindings = [*map(binding_of, coded.dictionary.to_pylist()), binding_of(None)]
    codes = coded.indices.fill_null(len(bindings) - 1).to_numpy()
    of_code = np.array([each is KAFKA for each in bindings])[codes]
    found = [(KAFKA, np.flatnonzero(of_code)), (PULSAR, np.flatnonzero(~of_code))]
    return [(binding, rows) for binding, rows in found if len(rows)] or found[:1]


def _in_order(pieces: Sequence[Piece]) -> pa.RecordBatch:
    """Return the rows of all pieces in the order of their numbers. A single piece is not copied."""
    some = [piece for piece in pieces if len(piece[0])] or pieces[:1]
    if len(some) == 1:
        return some[0][1]
    numbers, batches = zip(*some, strict=True)
    order = np.argsort(np.concatenate(numbers), kind="stable")  # quick: the numbers are runs
    return pa.concat_batches(batches).take(pa.array(order))


def _decoded(batch: pa.RecordBatch, binding: ColumnBinding) -> pa.RecordBatch:
    """Return the columns of ``DecodedRow``.

    If decoding by column fails, the batch is decoded row by row. A record that causes an error must
    not end the query, because a restarted query would read it again.
    """
    try:
        pieces = _by_column(batch, binding)
    except Exception:  # noqa: BLE001 - a restarted query would read the record again
        _log.exception("a batch could not be decoded by column; it is decoded row by row")
        pieces = []
    in_doubt = np.ones(len(batch), bool)
    for numbers, _ in pieces:
        in_doubt[numbers] = False
    left = np.flatnonzero(in_doubt)
    if len(left) or not pieces:
        pieces.append((left, decode_rows(_rows(batch, left))))
    return _in_order(pieces)


def _by_column(batch: pa.RecordBatch, binding: ColumnBinding) -> list[Piece]:
    """Return the events in binary mode, and the documents, that are certainly valid."""
    values, headers = (batch.column(name).cast(_READ[name]) for name in SENT)
    utf8 = is_utf8(values)
    binary = read_headers(headers, binding)
    clear = np.flatnonzero(binary.events.clear)
    payload = _payload(values, clear, binding, utf8=utf8)
    columns = event_columns(binary.events, binary.values.texts, payload, ContentMode.BINARY)
    found = [(clear, columns)]
    rows = _nonempty(binary.documents, values)
    if len(rows):
        told = read_documents(_rows(values, rows), utf8=utf8)
        columns = event_columns(
            told.events, told.values.texts, told.payload, ContentMode.STRUCTURED
        )
        found.append((rows[told.events.clear], columns))
    return found


def _payload(values: pa.Array, clear: Numbers, binding: ColumnBinding, *, utf8: bool) -> Payload:
    """Return the data of events in binary mode, which is the value of the record."""
    at, are_text = np.arange(len(values)), np.ones(len(values), bool)
    if binding.empty_is_none:
        at[np.diff(offsets_of(values)) == 0] = -1
    if not utf8:
        are_text[clear] = list(map(is_text, values.take(pa.array(clear)).to_pylist()))
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
