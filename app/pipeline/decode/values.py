"""The texts of many rows in one sequence: values of headers, or of the members of JSON documents."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from app.event.types import forbidden_character
from app.pipeline.decode.buffers import Numbers, binary_array, octets_of, offsets_of

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
