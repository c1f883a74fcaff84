"""Decode the attributes and the data of JSON documents by column."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from app.bindings.record import ContentMode
from app.event.media_types import parse as parse_media_type
from app.event.types import binary
from app.event.versions import ATTRIBUTES, VERSIONS
from app.formats.json_members import MEMBERS as MOST_MEMBERS
from app.formats.json_older_data import is_known_text
from app.pipeline.decode.buffers import (
    Numbers,
    binary_array_of,
    is_text,
    is_utf8,
    map_distinct,
    offsets_of,
)
from app.pipeline.decode.columns import JSON, OPAQUE, TEXT, EventPart, Payload
from app.pipeline.decode.event_rows import EventRows, empty_rows
from app.pipeline.decode.meanings import MEMBERS, TYPED, version_lookup
from app.pipeline.decode.members import Documents, text_of
from app.pipeline.decode.values import Values

_VERSION_LOOKUPS: Final = {
    attribute: version_lookup(attribute, in_header=False) for attribute in ATTRIBUTES
}
_TWO_FORMS: Final = np.array([version.two_forms for version in VERSIONS.values()] + [False])
"""True for each version whose string data may be text or base64, by version index. The last flag is
for documents without a version."""
_JSON, _TEXTUAL, _OTHER, _CHARSET, _BAD = range(5)
_UTF_8: Final = "utf-8"


def read_documents(values: pa.Array, rows: Numbers, *, utf8: bool) -> EventPart:
    """Decode the documents in ``values``.

    Args:
        values: The documents.
        rows: The row number of each document.
        utf8: Whether all values are known to be UTF-8.
    """
    documents = Documents(values, utf8=utf8 or is_utf8(values))
    texts = documents.values()
    events = empty_rows(len(values), len(texts.texts))
    events.clear &= documents.once & (documents.counts + 2 < MOST_MEMBERS)
    events.origin = _versions(texts, documents)
    documents.named.put(events, texts, MEMBERS)
    payload = _payload(events, texts, documents)
    events.check(texts)
    return EventPart(ContentMode.STRUCTURED, rows, events, texts.texts, payload)


def _versions(texts: Values, documents: Documents) -> Numbers:
    """Return the index of each document's version, read from its first version attribute; -1 if
    there is none.
    """
    origin = np.full(len(documents.shape), -1, np.int8)
    for attribute in reversed(ATTRIBUTES):
        places = documents.named[attribute]
        said_by = texts.texts.take(pa.array(texts.at(places)))
        rows = documents.named.rows[places]
        origin[rows] = map_distinct(said_by, _VERSION_LOOKUPS[attribute], -1)
    return origin


def _payload(events: EventRows, texts: Values, documents: Documents) -> Payload:
    """Decode the data. Documents whose data is doubtful are marked for the row decoder."""
    kinds = map_distinct(events.texts(texts, TYPED), _kind_of, _JSON)
    there = np.diff(offsets_of(documents.payload)) > 0
    two_forms = _TWO_FORMS[events.origin]
    events.clear &= (kinds != _BAD) & (~there | (kinds != _CHARSET))
    forms = np.where(there, JSON, OPAQUE).astype(np.int8)
    strings = np.flatnonzero(there & (kinds != _JSON) & events.clear)
    known = (two_forms | (kinds == _TEXTUAL))[strings].tolist()
    read = list(map(_decode_string, map(documents.data.__getitem__, strings.tolist()), known))
    forms[strings] = [form for _, form in read]
    coded = np.array(list(documents.coded), np.int64)
    events.clear[coded] &= two_forms[coded] & ~there[coded]
    forms[coded] = OPAQUE
    rows = np.concatenate([strings, coded])
    data = [octets for octets, _ in read]
    data += [_base64(text_of(raw)) for raw in documents.coded.values()]
    events.clear[rows] &= np.array([octets is not None for octets in data], bool)
    there[rows] = True
    are_text = np.ones(len(kinds), bool)
    are_text[rows] = list(map(is_text, data))
    values, at = documents.payload, np.arange(len(kinds))
    if len(rows):
        values = pa.concat_arrays([values, binary_array_of([octets or b"" for octets in data])])
        at[rows] = len(kinds) + np.arange(len(rows))
    at[~there] = -1
    return Payload(values, at, forms, are_text)


def _kind_of(content_type: bytes) -> int:
    """Return how documents with this content type hold their data, as one of the codes ``_JSON`` to
    ``_BAD``.
    """
    media_type = parse_media_type(content_type.decode("latin-1"))
    if media_type is None:
        return _BAD
    if media_type.is_json:
        return _JSON
    if media_type.codec != _UTF_8:
        return _CHARSET
    return _TEXTUAL if is_known_text(media_type) else _OTHER


def _decode_string(raw: Any, known_text: bool) -> tuple[bytes | None, int]:
    """Decode a JSON string that holds data of another type into its data and form.

    Before version 1.0 the string is base64 unless its content type is known to be text. Data is
    None if the string is invalid.
    """
    text = text_of(raw)
    data = None if known_text else _base64(text)
    return (text, TEXT) if data is None else (data, OPAQUE)


def _base64(text: bytes | None) -> bytes | None:
    return None if text is None else binary(text.decode())
