"""Decode the attributes in the headers of a batch by column, and find the rows that are JSON
documents.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from app.bindings.modes import wire_type
from app.bindings.record import ContentMode
from app.event.media_types import parse as parse_media_type
from app.event.versions import VERSIONS
from app.formats import json
from app.pipeline.decode.bindings import ColumnBinding
from app.pipeline.decode.buffers import (
    Numbers,
    map_distinct,
    octets_of,
    offsets_of,
    validity_of,
)
from app.pipeline.decode.event_rows import EventRows, empty_rows
from app.pipeline.decode.meanings import COLUMN_OF, TYPED
from app.pipeline.decode.named import NamedValues
from app.pipeline.decode.values import Values, json_values

_NONE, _BINARY, _DOCUMENT, _OTHER = range(4)
_QUOTED: Final = np.array([version.quoted for version in VERSIONS.values()] + [False])
"""True for each version whose headers hold JSON values, by version index. The last flag is for rows
without a version."""


class Headers:
    """All headers of a batch in one sequence.

    Attributes:
        values: The header values as a binary array.
        named: The header names.
        rows: The row of each header.
        starts: The index of each row's first header, and the end of the last row.
    """

    def __init__(self, column: pa.ListArray) -> None:
        starts = column.offsets.to_numpy().astype(np.int64)
        pairs = column.values.slice(starts[0], starts[-1] - starts[0])
        self.starts = starts - starts[0]
        self.values = pairs.field("value")
        keys = pairs.field("key")
        coded = (keys.fill_null("") if keys.null_count else keys).dictionary_encode()
        self.rows = np.repeat(np.arange(len(column)), np.diff(self.starts))
        self.named = NamedValues(coded.dictionary.to_pylist(), coded.indices.to_numpy(), self.rows)


class HeaderColumns(NamedTuple):
    """The decoded columns of the headers of a batch.

    Attributes:
        events: The events in binary mode.
        values: The texts of the events' attributes.
        documents: The numbers of the rows that are JSON documents in UTF-8.
    """

    events: EventRows
    values: Values
    documents: Numbers


def read_headers(column: pa.ListArray, binding: ColumnBinding) -> HeaderColumns:
    """Decode the headers of a batch. Rows that are not certainly valid events are marked for the
    row decoder.
    """
    headers = Headers(column)
    typed = headers.named[binding.content_type]
    kinds = _kinds(headers, typed)
    if column.null_count:  # a null list may still refer to headers, which are not part of its row
        kinds[~validity_of(column)] = _OTHER
    origin = _versions(headers, binding)
    values = _values(headers, origin)
    events = empty_rows(len(column), len(values.texts))
    events.origin = origin
    headers.named.put(events, values, binding.meanings)
    if headers.values.null_count:
        own = events.own[values.at(np.arange(len(headers.values)))]
        events.clear[headers.rows[own & ~validity_of(headers.values)]] = False
    events.at[COLUMN_OF[TYPED], headers.rows[typed]] = values.at(typed)
    events.clear &= kinds <= _BINARY
    events.check(values)
    return HeaderColumns(events, values, np.flatnonzero(kinds == _DOCUMENT))


def _versions(headers: Headers, binding: ColumnBinding) -> Numbers:
    """Return the index of each row's version; -1 if a row has none, or more than one version
    header.
    """
    origin = np.full(len(headers.starts) - 1, -1, np.int8)
    said = np.zeros(len(origin), np.int64)
    for name in headers.named:
        attribute = binding.version_in[name]
        if attribute:
            places = headers.named[name]
            texts = headers.values.take(pa.array(places))
            origin[headers.rows[places]] = map_distinct(texts, binding.versions[attribute], -1)
            np.add.at(said, headers.rows[places], 1)
    origin[said > 1] = -1
    return origin


def _values(headers: Headers, origin: Numbers) -> Values:
    """Return the header values; JSON strings of versions with JSON headers lose their quotes."""
    of_json = _QUOTED[origin][headers.rows]
    if not of_json.any():
        return Values(headers.values, headers.starts)
    octets, ends = octets_of(headers.values), offsets_of(headers.values)
    return json_values(octets, ends, headers.starts, of_json, document=False)


def _kinds(headers: Headers, typed: Numbers) -> Numbers:
    """Return the kind of each row by its content type. ``typed`` has the indexes of the content
    type headers.
    """
    kinds = np.full(len(headers.starts) - 1, _NONE, np.int8)
    if len(typed):
        texts = headers.values.take(pa.array(typed))
        kinds[headers.rows[typed]] = map_distinct(texts, _kind_of, _OTHER)
        kinds[headers.named.repeated(typed)] = _OTHER
    return kinds


def _kind_of(content_type: bytes) -> int:
    wire = wire_type(content_type)
    if wire.mode is ContentMode.BINARY:
        return _BINARY if wire.is_utf8 and parse_media_type(wire.text) is not None else _OTHER
    is_json = wire.mode is ContentMode.STRUCTURED and wire.essence == json.MEDIA_TYPE and wire.named
    clear = is_json and wire.media_type and wire.media_type.charset in (None, "utf-8")
    return _DOCUMENT if clear else _OTHER
