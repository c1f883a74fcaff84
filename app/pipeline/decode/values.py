"""Check the values of attributes by column. A row is *clear* while all its values are certainly
valid.

Rows that are not clear are decoded again, one by one, by ``judged.decode_row``: the row decoder.
The rules are those of ``app.event``. Values that repeat, such as a source or a media type, are
checked once for each distinct text. Times are checked by a pattern. Forbidden characters are
searched in the bytes of all values at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.event.types import TIMESTAMP, forbidden_character, is_integer
from app.event.value import AttributeType
from app.event.versions import NEWEST, VERSIONS
from app.pipeline.decode.buffers import (
    Numbers,
    binary_array,
    map_distinct,
    octets_of,
    offsets_of,
    take_or_null,
)
from app.pipeline.decode.meanings import COLUMN_OF, EXTENSION, TEXTS, Meaning

MOST: Final = 256
"""The largest number of distinct extension names, or of document members, in one batch. Rows beyond
it are not clear.
"""

_RULES = VERSIONS[NEWEST].rules
_REQUIRED = [COLUMN_OF[name] for name, rule in _RULES.items() if rule.required]
_TEXTS = [COLUMN_OF[name] for name in ("id", "type", "subject")]
_ASKED = ("source", "dataschema")
_TIME = rf"\A(?:{TIMESTAMP})\z"
_FIRST_PRINTABLE, _PRINTABLE = np.uint8(0x20), np.uint8(0x7F - 0x20)
_NO_INDEXES: Final = np.zeros(0, np.int64)
QUOTE, BACKSLASH = np.frombuffer(b'"\\', np.uint8)


class Json(NamedTuple):
    """A description of texts that are JSON values without the quotes of strings.

    Attributes:
        raw: Whether quotes and backslashes in the text are JSON syntax.
        bare: Whether the text had no quotes.
        signs: The byte positions of the quotes that were left out.
        document: Whether the texts are members of documents, not headers.
    """

    raw: Numbers
    bare: Numbers
    signs: Numbers
    document: bool


class Values:
    """The texts of many rows in one sequence.

    Attributes:
        texts: The texts as a binary array.
        starts: The index of each row's first text, and the end of the last row.
        json: A description of JSON values; None if there are none.
        lengths: The length of each text in bytes.
    """

    def __init__(self, texts: pa.Array, starts: Numbers, json: Json | None = None) -> None:
        self.texts, self.starts, self.json = texts, starts, json
        self._ends = offsets_of(texts)
        self.lengths = np.diff(self._ends)

    def at(self, places: Numbers) -> Numbers:
        """Return the indexes in ``texts`` of these values: JSON values are every third text,
        between their quotes.
        """
        return places if self.json is None else places * 3 + 1

    def rows_of(self, places: Numbers) -> Numbers:
        """Return the rows of the texts at these indexes."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def forbidden(self, own: Numbers) -> Numbers:
        """Return the rows with an attribute text that is forbidden or needs the row decoder.
        ``own`` marks the attribute texts.
        """
        odd = self._suspicious()
        odd = odd[own[odd]]
        raw = np.zeros(len(odd), bool) if self.json is None else self.json.raw[odd]
        texts = self.texts.take(pa.array(odd)).to_pylist()
        wrong = [not _is_allowed(*each) for each in zip(texts, raw, strict=True)]
        return self.rows_of(odd[np.array(wrong, bool)])

    def _suspicious(self) -> Numbers:
        """Return the indexes of texts with bytes that are not printable ASCII, or with a sign of a
        JSON escape.
        """
        octets = octets_of(self.texts)[self._ends[0] : self._ends[-1]]
        odd = (octets - _FIRST_PRINTABLE) >= _PRINTABLE
        if self.json is not None:
            signs = (octets == BACKSLASH) | (octets == QUOTE)
            signs[self.json.signs - self._ends[0]] = False
            odd |= signs
        at = np.flatnonzero(odd) + self._ends[0]
        return np.unique(np.searchsorted(self._ends, at, side="right") - 1)


def json_values(
    octets: Numbers,
    ends: Numbers,
    starts: Numbers,
    of_json: Numbers,
    unescaped: Numbers = _NO_INDEXES,
    *,
    document: bool,
) -> Values:
    """Return JSON values without the quotes of strings. Each value is split into three texts, and the
    middle one is the value.

    Args:
        octets: The bytes of all values.
        ends: The start of each value in ``octets``, and the end of the last.
        starts: The index of each row's first value, and the end of the last row.
        of_json: Whether a value is JSON. The others stay as they are.
        unescaped: The indexes of the strings whose escapes were decoded.
        document: Whether the values are members of documents, not headers.
    """
    begins, first, ends = ends[:-1], ends[0], ends[1:]
    quoted = of_json & (ends - begins > 1)
    quoted[quoted] = (octets[begins[quoted]] == QUOTE) & (octets[ends[quoted] - 1] == QUOTE)
    offsets = np.full(3 * len(begins) + 1, first, np.int32)
    offsets[1::3], offsets[2::3], offsets[3::3] = begins + quoted, ends - quoted, ends
    bare = np.zeros(3 * len(begins), bool)
    bare[1::3] = of_json & ~quoted
    signs = np.concatenate([begins[quoted], ends[quoted] - 1])
    raw = np.repeat(of_json, 3)
    raw[3 * unescaped + 1] = False
    json = Json(raw, bare, signs, document)
    return Values(binary_array(offsets, octets), starts * 3, json)


def _is_allowed(text: bytes | None, raw: np.bool_) -> bool:
    """Return True if a text may be an attribute value. A null is not checked and allowed."""
    if text is None:
        return True
    if raw and (b'"' in text or b"\\" in text):
        return False
    try:
        return forbidden_character(text.decode()) is None
    except UnicodeDecodeError:
        return False


class Extension(NamedTuple):
    """One extension of many rows.

    Attributes:
        rows: The rows that have the extension.
        places: The indexes of its texts.
        name: The 1.0 name.
        kinds: The type of each value, as a code of ``TypeCode``.
    """

    rows: Numbers
    places: Numbers
    name: str
    kinds: Numbers


class TypeCode:
    """The codes of attribute types: indexes in ``TYPES``, and one for values that need the row
    decoder.
    """

    STRING, INTEGER, BOOLEAN, OTHER = range(4)


TYPES: Final = tuple(
    kind.value for kind in (AttributeType.STRING, AttributeType.INTEGER, AttributeType.BOOLEAN)
)


@dataclass
class EventRows:
    """The decoded attributes of the rows of a batch.

    Attributes:
        clear: Whether the row is certainly a valid event, as far as it was checked. Other rows go
            to the row decoder.
        origin: The index of the version in ``NAMES``; negative if unknown.
        at: The indexes of texts by column and row; negative for none.
        own: Whether a text is an attribute.
        extensions: The extensions.
    """

    clear: Numbers
    origin: Numbers
    at: Numbers
    own: Numbers
    extensions: list[Extension] = field(default_factory=list)
    _taken: dict[str, Numbers] = field(default_factory=dict)

    def put(self, meant: Meaning, rows: Numbers, places: Numbers, values: Values) -> None:
        """Add an attribute of these rows. No row may occur twice."""
        self.own[places] = True
        json = values.json
        if meant.text_only:
            self.clear[rows[values.lengths[places] == 0]] = False
        if json and (meant.text_only or (json.document and meant.column != EXTENSION)):
            self.clear[rows[json.bare[places]]] = False
        if meant.column != EXTENSION:
            column = self.at[meant.column]
            self.clear[rows[column[rows] >= 0]] = False
            column[rows] = places
        elif self._is_first(meant.name, rows):
            kinds = _kinds(places, values)
            self.clear[rows[kinds == TypeCode.OTHER]] = False
            self.extensions.append(Extension(rows, places, meant.name, kinds))

    def _is_first(self, name: str, rows: Numbers) -> bool:
        """Return True if the batch has room for an extension of this name.

        Rows that already have the extension are marked for the row decoder (not clear).
        """
        there = self._taken.get(name)
        if there is None and len(self._taken) >= MOST:
            self.clear[rows] = False
            return False
        if there is None:
            there = self._taken[name] = np.zeros(len(self.clear), bool)
        self.clear[rows[there[rows]]] = False
        there[rows] = True
        return True

    def check(self, values: Values) -> None:
        """Mark the rows that break a rule of CloudEvents as not clear, so that the row decoder
        reports their faults.
        """
        for column in _REQUIRED:
            self.clear &= self.at[column] >= 0
        self.clear &= self.origin >= 0
        if self.clear.any():
            self.clear[values.forbidden(self.own)] = False
            self._keep_rules(values)

    def _keep_rules(self, values: Values) -> None:
        for column in map(self.at.__getitem__, _TEXTS):
            self.clear &= (column < 0) | (values.lengths[column] > 0)
        for name in _ASKED:
            column = self.at[COLUMN_OF[name]]
            if (column >= 0).any():
                ask = _accepted_by(_RULES[name].accepts)
                self.clear &= map_distinct(self.texts(values, name), ask, 1) == 1
        if (self.at[COLUMN_OF["time"]] >= 0).any():
            kept = pc.match_substring_regex(self.texts(values, "time"), _TIME).fill_null(True)
            self.clear &= kept.to_numpy(zero_copy_only=False)

    def texts(self, values: Values, name: str) -> pa.Array:
        """Return the texts of an attribute in the rows that are certainly valid so far; null for
        all other rows.
        """
        return take_or_null(values.texts, np.where(self.clear, self.at[COLUMN_OF[name]], -1))


def empty_rows(rows: int, places: int) -> EventRows:
    """Return the initial state of a batch: rows without attributes, all of them still counted as
    valid.
    """
    return EventRows(
        np.ones(rows, bool),
        np.full(rows, -1, np.int8),
        np.full((len(TEXTS), rows), -1, np.int64),
        np.zeros(places, bool),
    )


def _accepted_by(accepts: Callable[[str], object]) -> Callable[[bytes], int]:
    return lambda text: int(bool(accepts(text.decode())))


def _kinds(places: Numbers, values: Values) -> Numbers:
    """Return the type codes of extension values: strings, except JSON values without quotes."""
    kinds = np.zeros(len(places), np.int8)
    bare = np.zeros(0, int) if values.json is None else np.flatnonzero(values.json.bare[places])
    if values.json is not None and len(bare):
        texts = values.texts.take(pa.array(places[bare]))
        ask = _kind_of_member if values.json.document else _kind_of_header
        kinds[bare] = map_distinct(texts, ask, TypeCode.OTHER)
    return kinds


def _kind_of_header(text: bytes) -> int:
    """Return the type code of a header value without quotes.

    A sender that does not write JSON means the text itself. Values that may be a Map need the row
    decoder.
    """
    kind = _kind_of_member(text)
    return TypeCode.STRING if kind == TypeCode.OTHER and text[:1] not in b"{-" else kind


def _kind_of_member(text: bytes) -> int:
    """Return the type code of a JSON value. -0 needs the row decoder, because its canonical text
    differs.
    """
    if text in (b"true", b"false"):
        return TypeCode.BOOLEAN
    if text != b"-0" and text.isascii() and is_integer(text.decode()):
        return TypeCode.INTEGER
    return TypeCode.OTHER
