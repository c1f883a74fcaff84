"""Values of attributes by column, and which rows are valid events by them: whatever is not certain is in doubt.

The rules are those of ``app.event``. What repeats (a source, a media type) is asked once for each text that
differs; what does not (a time) by a pattern; characters are looked for in the octets of all values at once.
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
from app.pipeline.decode.buffers import Numbers, answers, octets_of, offsets_of, taken
from app.pipeline.decode.meanings import COLUMN_OF, EXTENSION, TEXTS, Meaning

MOST: Final = 256
"""Different names of extensions, or members of documents, in one batch; rows with more are in doubt."""

_RULES = VERSIONS[NEWEST].rules
_REQUIRED = [COLUMN_OF[name] for name, rule in _RULES.items() if rule.required]
_TEXTS = [COLUMN_OF[name] for name in ("id", "type", "subject")]
_ASKED = ("source", "dataschema")
_TIME = rf"\A(?:{TIMESTAMP})\z"
_FIRST_PRINTABLE, _PRINTABLE = np.uint8(0x20), np.uint8(0x7F - 0x20)
QUOTE, BACKSLASH = np.frombuffer(b'"\\', np.uint8)


class Json(NamedTuple):
    """Texts that are JSON values, without the quotes of strings.

    ``raw``       texts in which a quote or a backslash is no character of the text.
    ``bare``      texts that had no quotes.
    ``signs``     where in the octets the quotes are that were left out.
    ``document``  whether they are members of documents, rather than headers.
    """

    raw: Numbers
    bare: Numbers
    signs: Numbers
    document: bool


class Values:
    """Texts of many rows, one behind the other.

    ``texts``   a binary array.
    ``starts``  place of each row's first, and of the end of the last.
    ``json``    how JSON stands in them; None where none does.
    """

    def __init__(self, texts: pa.Array, starts: Numbers, json: Json | None = None) -> None:
        self.texts, self.starts, self.json = texts, starts, json
        self._ends = offsets_of(texts)
        self.lengths = np.diff(self._ends)

    def at(self, places: Numbers) -> Numbers:
        """Places of texts: of JSON values every third, as their quotes are others."""
        return places if self.json is None else places * 3 + 1

    def rows_of(self, places: Numbers) -> Numbers:
        return np.searchsorted(self.starts, places, side="right") - 1

    def forbidden(self, own: Numbers) -> Numbers:
        """Rows that have among ``own`` a text that no attribute can be, or that has to be looked at."""
        odd = self._odd()
        odd = odd[own[odd]]
        raw = np.zeros(len(odd), bool) if self.json is None else self.json.raw[odd]
        texts = self.texts.take(pa.array(odd)).to_pylist()
        wrong = [not _is_allowed(*each) for each in zip(texts, raw, strict=True)]
        return self.rows_of(odd[np.array(wrong, bool)])

    def _odd(self) -> Numbers:
        """Places of texts that hold more than printable ASCII, or the sign of an escape."""
        octets = octets_of(self.texts)[self._ends[0] : self._ends[-1]]
        odd = (octets - _FIRST_PRINTABLE) >= _PRINTABLE
        if self.json is not None:
            signs = (octets == BACKSLASH) | (octets == QUOTE)
            signs[self.json.signs - self._ends[0]] = False
            odd |= signs
        at = np.flatnonzero(odd) + self._ends[0]
        return np.unique(np.searchsorted(self._ends, at, side="right") - 1)


def _is_allowed(text: bytes | None, raw: np.bool_) -> bool:
    """A null is not looked at here."""
    if text is None:
        return True
    if raw and (b'"' in text or b"\\" in text):
        return False
    try:
        return forbidden_character(text.decode()) is None
    except UnicodeDecodeError:
        return False


class Extension(NamedTuple):
    """An extension of many rows: ``rows``, the ``places`` of their texts among the values, its 1.0 name, and
    the ``kind`` of each (``Kind``).
    """

    rows: Numbers
    places: Numbers
    name: str
    kinds: Numbers


class Kind:
    """Codes of the types of attributes: places in ``TYPES``, and one for what has to be looked at."""

    STRING, INTEGER, BOOLEAN, OTHER = range(4)


TYPES: Final = tuple(
    kind.value for kind in (AttributeType.STRING, AttributeType.INTEGER, AttributeType.BOOLEAN)
)


@dataclass
class Events:
    """What is known of the rows of a batch.

    ``clear``   rows that are valid events, as far as is known.
    ``origin``  place of each row's version in ``NAMES``; below zero where it is not known.
    ``at``      places of texts among the values, by column and row; below zero for none.
    ``own``     which of the values are attributes.
    """

    clear: Numbers
    origin: Numbers
    at: Numbers
    own: Numbers
    extensions: list[Extension] = field(default_factory=list)
    _taken: dict[str, Numbers] = field(default_factory=dict)

    def put(self, meant: Meaning, rows: Numbers, places: Numbers, values: Values) -> None:
        """The attribute of these rows, each of which is there once."""
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
            self.clear[rows[kinds == Kind.OTHER]] = False
            self.extensions.append(Extension(rows, places, meant.name, kinds))

    def _is_first(self, name: str, rows: Numbers) -> bool:
        """Whether an extension may have this name. Not clear: rows that have it already."""
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
        """Not clear: what is no valid event."""
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
                self.clear &= answers(self.texts(values, name), ask, 1) == 1
        if (self.at[COLUMN_OF["time"]] >= 0).any():
            kept = pc.match_substring_regex(self.texts(values, "time"), _TIME).fill_null(True)
            self.clear &= kept.to_numpy(zero_copy_only=False)

    def texts(self, values: Values, name: str) -> pa.Array:
        """Of the rows that are clear; null where there is none."""
        return taken(values.texts, np.where(self.clear, self.at[COLUMN_OF[name]], -1))


def nothing_known(rows: int, places: int) -> Events:
    return Events(
        np.ones(rows, bool),
        np.full(rows, -1, np.int8),
        np.full((len(TEXTS), rows), -1, np.int64),
        np.zeros(places, bool),
    )


def _accepted_by(accepts: Callable[[str], object]) -> Callable[[bytes], int]:
    return lambda text: int(bool(accepts(text.decode())))


def _kinds(places: Numbers, values: Values) -> Numbers:
    """Types of extensions: strings but for JSON values without quotes."""
    kinds = np.zeros(len(places), np.int8)
    bare = np.zeros(0, int) if values.json is None else np.flatnonzero(values.json.bare[places])
    if values.json is not None and len(bare):
        texts = values.texts.take(pa.array(places[bare]))
        ask = _kind_of_member if values.json.document else _kind_of_header
        kinds[bare] = answers(texts, ask, Kind.OTHER)
    return kinds


def _kind_of_header(text: bytes) -> int:
    """A sender that does not write JSON means the text; what could be a Map is looked at."""
    kind = _kind_of_member(text)
    return Kind.STRING if kind == Kind.OTHER and text[:1] not in b"{-" else kind


def _kind_of_member(text: bytes) -> int:
    """-0 is an integer whose canonical text is another: it is looked at."""
    if text in (b"true", b"false"):
        return Kind.BOOLEAN
    if text != b"-0" and text.isascii() and is_integer(text.decode()):
        return Kind.INTEGER
    return Kind.OTHER
