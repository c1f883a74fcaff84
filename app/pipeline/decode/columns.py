"""Build the Arrow columns of ``DecodedRow`` from indexes into the texts of a batch, without creating
rows.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

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
from app.pipeline.decode.exact import DECODED_ROW_SCHEMA, TEXT_MAP
from app.pipeline.decode.judged import VERDICT
from app.pipeline.decode.meanings import NAMES
from app.pipeline.decode.values import TYPES, EventRows, TypeCode

FORMS: Final = tuple(DataForm)
OPAQUE, JSON, TEXT = map(FORMS.index, (DataForm.OPAQUE, DataForm.JSON, DataForm.TEXT))
_FORMS: Final = pa.array([form.value for form in FORMS])
_VERSIONS: Final = pa.array(NAMES)
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


def event_columns(
    events: EventRows, texts: pa.Array, payload: Payload, mode: ContentMode
) -> pa.RecordBatch:
    """Return the columns of the rows that are certainly valid events.

    Args:
        events: The attributes of all rows.
        texts: The texts to which the attributes refer.
        payload: The data of all rows.
        mode: The content mode in which the events were received.
    """
    rows = np.flatnonzero(events.clear)
    columns = [
        pa.repeat(NEWEST, len(rows)),
        *(as_text(take_or_null(texts, at[rows])) for at in events.at[1:]),
        *_maps(events, texts, len(rows)),
        *_data(payload, rows),
        _FORMS.take(pa.array(payload.forms[rows])),
        pa.repeat(mode.value, len(rows)),
        _VERSIONS.take(pa.array(events.origin[rows])),
        *(pa.nulls(len(rows), DECODED_ROW_SCHEMA.field(name).type) for name in VERDICT),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DECODED_ROW_SCHEMA)


def _maps(events: EventRows, texts: pa.Array, count: int) -> tuple[pa.Array, pa.Array]:
    """Return the columns ``extensions`` and ``types`` of the ``count`` rows that are clear."""
    if not events.extensions:
        empty = pa.array([], pa.string())
        return _map(np.zeros(0, int), count, empty, empty, None), pa.nulls(count, TEXT_MAP)
    numbers = np.cumsum(events.clear) - 1
    entries = []
    for name, each in enumerate(events.extensions):
        kept = events.clear[each.rows]
        rows = numbers[each.rows[kept]]
        entries.append((rows, each.places[kept], np.full(len(rows), name), each.kinds[kept]))
    joined = [np.concatenate(parts) for parts in zip(*entries, strict=True)]
    order = np.argsort((joined[0] << 32) + joined[1])
    rows, places, names, kinds = (part[order] for part in joined)
    keys = pa.array([each.name for each in events.extensions]).take(pa.array(names))
    extensions = _map(rows, count, keys, as_text(texts.take(pa.array(places))), None)
    typed = np.flatnonzero(kinds != TypeCode.STRING)
    if not len(typed):
        return extensions, pa.nulls(count, TEXT_MAP)
    absent = pa.array(np.bincount(rows[typed], minlength=count) == 0)
    words = as_text(_KINDS.take(pa.array(kinds[typed])))
    return extensions, _map(rows[typed], count, keys.take(pa.array(typed)), words, absent)


def _map(rows: Numbers, count: int, keys: pa.Array, items: pa.Array, absent: Any) -> pa.Array:
    """Return a map column of ``count`` rows. ``rows`` has the row of each entry, in ascending order."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items, TEXT_MAP, mask=absent)


def _data(payload: Payload, rows: Numbers) -> list[pa.Array]:
    """Return the column of data that is text, and the column of data that is not."""
    whole, is_text = _chosen(payload.values, payload.at[rows]), payload.is_text[rows]
    texts = as_text(with_nulls(whole, is_text))
    if is_text.all():
        return [texts, pa.nulls(len(rows), pa.binary())]
    return [texts, take_or_null(whole, np.where(is_text, _NONE, np.arange(len(rows))))]


def _chosen(values: pa.Array, at: Numbers) -> pa.Array:
    """Return the values at these indexes, and copy them only if their order differs."""
    there = at >= 0
    if len(at) == len(values) and np.array_equal(at[there], np.flatnonzero(there)):
        return with_nulls(values, there)
    return take_or_null(values, at)
