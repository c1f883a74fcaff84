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

from app.event.types import TIMESTAMP, is_integer
from app.event.value import AttributeType
from app.event.versions import NEWEST, VERSIONS
from app.pipeline.decode.buffers import Numbers, map_distinct, take_or_null
from app.pipeline.decode.meanings import COLUMN_OF, EXTENSION, TEXTS, Meaning
from app.pipeline.decode.values import Values

MOST: Final = 256
"""The largest number of distinct extension names, or of document members, in one batch. Rows beyond
it are not clear.
"""

_RULES = VERSIONS[NEWEST].rules
_REQUIRED = [COLUMN_OF[name] for name, rule in _RULES.items() if rule.required]
_TEXTS = [COLUMN_OF[name] for name in ("id", "type", "subject")]
_ASKED = ("source", "dataschema")
_TIME = rf"\A(?:{TIMESTAMP})\z"


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

    STRING = 0
    INTEGER = 1
    BOOLEAN = 2
    OTHER = 3


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
