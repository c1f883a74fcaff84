"""Build the Arrow columns of ``DecodedRow`` from indexes into a pool of texts, without creating rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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
    binary_array_of,
    is_text,
    is_utf8,
    offsets_of,
    take_or_null,
    with_nulls,
)
from app.pipeline.decode.document_columns import FORMS, DocumentColumns
from app.pipeline.decode.exact import DECODED_ROW_SCHEMA, TEXT_MAP
from app.pipeline.decode.judged import VERDICT, DecodedRow, Pairs
from app.pipeline.decode.meanings import NAMES, TEXTS
from app.pipeline.decode.values import TYPES, EventRows

_BINARY, _STRUCTURED = map(tuple(ContentMode).index, (ContentMode.BINARY, ContentMode.STRUCTURED))
_WORDS: Final = {
    "data_form": tuple(form.value for form in FORMS),
    "content_mode": tuple(mode.value for mode in ContentMode),
    "origin_version": NAMES,
}
"""The texts of the columns that are held as codes. A code is an index in these tuples."""
_OPAQUE: Final = FORMS.index(DataForm.OPAQUE)
_KINDS: Final = as_bytes(pa.array(TYPES))
_KIND_OF: Final = TYPES.index

Entries = list[tuple[Numbers, Numbers, Numbers, Numbers]]
"""The entries of a map column: the rows, the order within a row, the indexes of names, and the
indexes of values.
"""
_NONE: Final = -1


class Columns:
    """A collector of the decoded rows of one batch. Each row is added once, by column or singly."""

    def __init__(self, values: pa.Array, *, utf8: bool) -> None:
        """Start with a batch of values. ``utf8`` is True if all values are known to be UTF-8."""
        rows = self._rows = len(values)
        self._at = np.full((len(TEXTS), rows), _NONE, np.int64)
        self._texts: list[pa.Array] = []
        self._texts_count = 0
        self._names: dict[str, int] = {}
        self._entries: Entries = []
        self._kinds: Entries = []
        self._mapped = np.zeros(rows, bool)
        self._codes = np.full((3, rows), _NONE, np.int8)  # in the order of _WORDS
        self._values, self._utf8 = values, utf8
        self._is_value = np.zeros(rows, bool)  # rows whose data is the record's value
        self._data: list[pa.Array] = []  # data of the other rows
        self._data_at = np.full(rows, _NONE, np.int64)
        self._data_count = 0
        self._is_text = np.ones(rows, bool)
        self._judged: tuple[Numbers, Sequence[DecodedRow]] | None = None

    def add_binary(self, events: EventRows, texts: pa.Array, *, empty_is_none: bool) -> None:
        """Add the events in binary mode, whose data is the value of the record."""
        rows = np.flatnonzero(events.clear)
        self._add(rows, np.arange(self._rows), events, texts)
        self._codes[0, rows], self._codes[1, rows] = _OPAQUE, _BINARY
        self._is_value[rows] = True
        if empty_is_none:
            self._is_value &= np.diff(offsets_of(self._values)) > 0
        if not self._utf8:
            self._is_text[rows] = _which_are_text(self._values.take(pa.array(rows)))

    def add_documents(self, of: Numbers, told: DocumentColumns) -> None:
        """Add the documents that are certainly valid events. ``of`` has the row number of each
        document.
        """
        clear = told.events.clear
        rows = of[clear]
        self._add(rows, of, told.events, told.values.texts)
        payload = told.payload
        self._codes[0, rows], self._codes[1, rows] = payload.forms[clear], _STRUCTURED
        self._is_text[rows] = payload.is_text[clear]
        decoded = list(payload.decoded)
        at = np.arange(len(of))
        at[decoded] = len(of) + np.arange(len(decoded))
        self._data_at[rows] = np.where(payload.there, self._data_count + at, _NONE)[clear]
        self._add_data(payload.raw, binary_array_of(list(payload.decoded.values())))

    def add_rows(self, rows: Numbers, told: Sequence[DecodedRow]) -> None:
        """Add rows that were decoded singly."""
        found: dict[str, Sequence[Any]] = dict(
            zip(DecodedRow._fields, zip(*told, strict=True), strict=True)
        )
        for name, column in zip(DecodedRow._fields, self._at, strict=False):
            own = as_bytes(pa.array(found[name], pa.string()))
            column[rows] = self._add_texts(own, len(rows))
        self._mapped[rows] = [pairs is not None for pairs in found["extensions"]]
        texts, owners, order, names = self._pairs(rows, found["extensions"])
        if texts:
            at = self._add_texts(as_bytes(pa.array(texts, pa.string())), len(texts))
            self._entries.append((owners, order, names, at))
        kinds, owners, order, names = self._pairs(rows, found["types"])
        if kinds:
            self._kinds.append((owners, order, names, np.array(list(map(_KIND_OF, kinds)))))
        for codes, (name, words) in zip(self._codes, _WORDS.items(), strict=True):
            codes[rows] = [_NONE if word is None else words.index(word) for word in found[name]]
        self._is_text[rows] = [data is None for data in found["data_bytes"]]
        self._data_at[rows] = self._data_count + np.arange(len(rows))
        both = zip(found["data"], found["data_bytes"], strict=True)
        data = [data if text is None else text.encode() for text, data in both]
        self._add_data(pa.array(data, pa.binary()))
        self._judged = rows, told

    def _pairs(
        self, rows: Numbers, maps: Sequence[Pairs | None]
    ) -> tuple[list[str], Numbers, Numbers, Numbers]:
        """Return the values of the maps with the row, the order and the name number of each value."""
        of_rows = zip(rows.tolist(), maps, strict=True)
        pairs = [(row, *pair) for row, found in of_rows for pair in found or ()]
        numbers = np.array([self._number(name) for _, name, _ in pairs], np.int32)
        owners = np.array([row for row, _, _ in pairs], np.int64)
        return [value for *_, value in pairs], owners, np.arange(len(pairs)), numbers

    def _add(self, rows: Numbers, of: Numbers, events: EventRows, texts: pa.Array) -> None:
        """Add the attributes of the events that are certainly valid.

        Args:
            rows: The row numbers of the valid events.
            of: The row numbers of all these events.
            events: The attributes.
            texts: The texts to which the attributes refer.
        """
        clear = events.clear
        at = events.at[:, clear]
        base = self._texts_count
        self._at[:, rows] = np.where(at < 0, _NONE, at + base)
        self._mapped[rows] = True
        self._codes[2, rows] = events.origin[clear]
        for each in events.extensions:
            kept = clear[each.rows]
            owners, places = of[each.rows[kept]], each.places[kept]
            numbers = np.full(len(owners), self._number(each.name), np.int32)
            self._entries.append((owners, places, numbers, places + base))
            typed = np.flatnonzero(each.kinds[kept])
            if len(typed):
                kinds = each.kinds[kept][typed]
                self._kinds.append((owners[typed], places[typed], numbers[typed], kinds))
        self._add_texts(texts, len(texts))

    def _add_texts(self, texts: pa.Array, count: int) -> Numbers:
        at = self._texts_count + np.arange(count)
        self._texts.append(texts)
        self._texts_count += count
        return at

    def _add_data(self, *parts: pa.Array) -> None:
        for part in filter(len, parts):
            self._data.append(part)
            self._data_count += len(part)

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def arrays(self) -> list[pa.Array]:
        """Return the columns of ``DecodedRow``, in its order."""
        texts = self._texts[0] if len(self._texts) == 1 else pa.concat_arrays(self._texts)
        events = np.where(self._mapped, 0, _NONE)
        own = [as_text(take_or_null(texts, at)) for at in self._at[1:]]
        words = zip(_WORDS.values(), self._codes, strict=True)
        return [
            take_or_null(pa.array([NEWEST]), events),
            *own,
            self._map(self._entries, texts, self._mapped),
            self._types(),
            *self._payload(),
            *(take_or_null(pa.array(known), codes) for known, codes in words),
            *self._verdicts(),
        ]

    def _map(self, entries: Entries, values: pa.Array, mapped: Numbers) -> pa.Array:
        """Return a map column of names and values in order; null for rows that are not ``mapped``."""
        offsets = np.zeros(self._rows + 1, np.int32)
        keys = items = pa.array([], pa.string())
        if entries:
            rows, order, names, at = (np.concatenate(parts) for parts in zip(*entries, strict=True))
            ordered = np.argsort((rows << 32) + order)
            np.cumsum(np.bincount(rows, minlength=self._rows), out=offsets[1:])
            keys = pa.array(list(self._names), pa.string()).take(pa.array(names[ordered]))
            items = as_text(values.take(pa.array(at[ordered])))
        mask = None if mapped.all() else pa.array(~mapped)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items, TEXT_MAP, mask=mask)

    def _types(self) -> pa.Array:
        """Return the column ``types``; null for rows whose extensions are all Strings."""
        if not self._kinds:
            return pa.nulls(self._rows, TEXT_MAP)
        typed = np.zeros(self._rows, bool)
        for rows, *_ in self._kinds:
            typed[rows] = True
        return self._map(self._kinds, _KINDS, typed)

    def _payload(self) -> list[pa.Array]:
        """Return the column of data that is text, and the column of data that is not."""
        whole = with_nulls(self._whole(), self._is_value | (self._data_at >= 0))
        texts = as_text(with_nulls(whole, self._is_text))
        if self._is_text.all():
            return [texts, pa.nulls(self._rows, pa.binary())]
        return [texts, take_or_null(whole, np.where(self._is_text, _NONE, np.arange(self._rows)))]

    def _whole(self) -> pa.Array:
        """Return the data of all rows, copying as few values as possible."""
        if not self._data:
            return self._values
        others = self._data[0] if len(self._data) == 1 else pa.concat_arrays(self._data)
        if not np.array_equal(self._data_at, np.arange(len(others))):
            others = take_or_null(others, self._data_at)
        if not self._is_value.any():
            return others
        return pc.if_else(pa.array(self._is_value), self._values, others)

    def _verdicts(self) -> list[pa.Array]:
        types = [(name, DECODED_ROW_SCHEMA.field(name).type) for name in VERDICT]
        if self._judged is None:
            return [pa.nulls(self._rows, kind) for _, kind in types]
        rows, told = self._judged
        at = np.full(self._rows, _NONE)
        at[rows] = np.arange(len(rows))
        return [
            take_or_null(pa.array([getattr(each, name) for each in told], kind), at)
            for name, kind in types
        ]


def _which_are_text(values: pa.Array) -> Numbers:
    if is_utf8(values):
        return np.ones(len(values), bool)
    return np.fromiter(map(is_text, values.to_pylist()), bool, len(values))
