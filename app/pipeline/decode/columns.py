"""Build the Arrow columns of ``DecodedRow`` from indexes into the texts of a batch, without creating
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.bindings.record import ContentMode
from app.event.value import DataForm
from app.event.versions import NEWEST
from app.pipeline.decode.buffers import (
    Numbers,
    as_bytes,
    as_text,
    take_or_null,
    with_nulls,
)
from app.pipeline.decode.event_rows import TYPES, EventRows, TypeCode
from app.pipeline.decode.exact import DECODED_ROW_SCHEMA, TEXT_MAP
from app.pipeline.decode.judged import VERDICT
from app.pipeline.decode.meanings import NAMES, TEXTS

FORMS: Final = tuple(DataForm)
OPAQUE, JSON, TEXT = map(FORMS.index, (DataForm.OPAQUE, DataForm.JSON, DataForm.TEXT))
_MODES: Final = tuple(ContentMode)
_WORDS: Final = (
    pa.array([form.value for form in FORMS]),
    pa.array([mode.value for mode in _MODES]),
    pa.array(NAMES),
)
"""The texts of ``data_form``, ``content_mode`` and ``origin_version``, which are held as codes."""
_KINDS: Final = as_bytes(pa.array(TYPES))
_NONE: Final = -1


class Payload(NamedTuple):
    """The data of a batch of events.

    Attributes:
        values: The data of all events as a binary array.
        at: The index in ``values`` of each event's data; negative for an event without data.
        forms: The index of each event's data form in ``FORMS``.
        is_text: Whether the data is UTF-8.
    """

    values: pa.Array
    at: Numbers
    forms: Numbers
    is_text: Numbers


class EventPart(NamedTuple):
    """Events of one content mode in a batch.

    Attributes:
        mode: The content mode in which the events were received.
        rows: The row number of each event in the batch, in ascending order.
        events: The attributes.
        texts: The texts to which the attributes refer.
        payload: The data.
    """

    mode: ContentMode
    rows: Numbers
    events: EventRows
    texts: pa.Array
    payload: Payload


def event_columns(parts: Sequence[EventPart]) -> tuple[pa.RecordBatch, Numbers]:
    """Return the columns of a batch, and which of its rows are certainly valid events. The others are null.

    The first part has all rows of the batch. The events of the second part replace some of them.
    """
    count = len(parts[0].rows)
    at = np.full((len(TEXTS), count), _NONE, np.int64)
    codes = np.full((3, count), _NONE, np.int8)  # in the order of _WORDS
    base = 0
    for part in parts:
        clear, events = part.events.clear, part.events
        rows, own = part.rows[clear], events.at[:, clear]
        at[:, rows] = np.where(own < 0, _NONE, own + base)
        codes[0, rows], codes[1, rows] = part.payload.forms[clear], _MODES.index(part.mode)
        codes[2, rows] = events.origin[clear]
        base += len(part.texts)
    clear = codes[1] >= 0
    texts = _joined([part.texts for part in parts])
    columns = [
        take_or_null(pa.array([NEWEST]), np.where(clear, 0, _NONE)),
        *(as_text(take_or_null(texts, places)) for places in at[1:]),
        *_maps(parts, texts, clear),
        *_data(parts, clear),
        *(take_or_null(words, code) for words, code in zip(_WORDS, codes, strict=True)),
        *(pa.nulls(count, DECODED_ROW_SCHEMA.field(name).type) for name in VERDICT),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DECODED_ROW_SCHEMA), clear


def replaced(batch: pa.RecordBatch, rows: Numbers, others: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in which the rows with these numbers, which are null, are those of another batch."""
    at, mask = np.arange(len(batch)), np.zeros(len(batch), bool)
    at[rows], mask[rows] = len(batch) + np.arange(len(rows)), True
    columns = []
    for name, old, new in zip(batch.schema.names, batch.columns, others.columns, strict=True):
        if new.null_count == len(new):  # usual: refused records have no attributes
            columns.append(old)
        elif name == "data":  # copies the large values once
            columns.append(pc.replace_with_mask(old, pa.array(mask), new))
        else:
            columns.append(pa.concat_arrays([old, new]).take(pa.array(at)))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _maps(parts: Sequence[EventPart], texts: pa.Array, clear: Numbers) -> list[pa.Array]:
    """Return the columns ``extensions`` and ``types``."""
    count, base = len(clear), 0
    absent = None if clear.all() else pa.array(~clear)
    known: dict[str, int] = {}
    entries = [(np.zeros(0, np.int64),) * 4]
    for part in parts:
        for each in part.events.extensions:
            kept = part.events.clear[each.rows]
            rows, name = part.rows[each.rows[kept]], known.setdefault(each.name, len(known))
            places = base + each.places[kept]
            entries.append((rows, places, np.full(len(rows), name), each.kinds[kept]))
        base += len(part.texts)
    joined = [np.concatenate(columns) for columns in zip(*entries, strict=True)]
    order = np.argsort((joined[0] << 32) + joined[1])
    rows, places, names, kinds = (column[order] for column in joined)
    keys = pa.array(list(known), pa.string()).take(pa.array(names))
    extensions = _map(rows, count, keys, as_text(texts.take(pa.array(places))), absent)
    typed = np.flatnonzero(kinds != TypeCode.STRING)
    if not len(typed):
        return [extensions, pa.nulls(count, TEXT_MAP)]
    untyped = pa.array(np.bincount(rows[typed], minlength=count) == 0)
    words = as_text(_KINDS.take(pa.array(kinds[typed])))
    return [extensions, _map(rows[typed], count, keys.take(pa.array(typed)), words, untyped)]


def _map(rows: Numbers, count: int, keys: pa.Array, items: pa.Array, absent: Any) -> pa.Array:
    """Return a map column of ``count`` rows. ``rows`` has the row of each entry, in ascending order."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items, TEXT_MAP, mask=absent)


def _data(parts: Sequence[EventPart], clear: Numbers) -> list[pa.Array]:
    """Return the column of data that is text, and the column of data that is not."""
    whole, is_text = None, np.ones(len(clear), bool)
    for _, rows, events, _, payload in parts:
        own = _chosen(payload.values, np.where(events.clear, payload.at, _NONE))
        is_text[rows] = payload.is_text | ~events.clear
        if whole is None:
            whole = own
        else:
            mask = np.zeros(len(clear), bool)
            mask[rows] = True
            whole = pc.replace_with_mask(whole, pa.array(mask), own)
    texts = as_text(with_nulls(whole, is_text))
    if is_text.all():
        return [texts, pa.nulls(len(clear), pa.binary())]
    return [texts, take_or_null(whole, np.where(is_text, _NONE, np.arange(len(clear))))]


def _chosen(values: pa.Array, at: Numbers) -> pa.Array:
    """Return the values at these indexes, and copy them only if their order differs."""
    there = at >= 0
    if len(at) == len(values) and np.array_equal(at[there], np.flatnonzero(there)):
        return with_nulls(values, there)
    return take_or_null(values, at)
