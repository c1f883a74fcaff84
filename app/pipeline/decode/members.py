"""Split JSON documents into the raw values of their members, by the rules of
``app.formats.json_members``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from app.event.versions import ATTRIBUTES, EXTENSIONS
from app.formats.json_members import has_unique_names
from app.pipeline.decode.buffers import Numbers, binary_array_of, ends_of, offsets_of
from app.pipeline.decode.named import NamedValues
from app.pipeline.decode.values import BACKSLASH, Values, json_values

Members = dict[str, msgspec.Raw]
Names = tuple[str, ...]

_MEMBERS = msgspec.json.Decoder(Members).decode
_TEXT = msgspec.json.Decoder(str).decode
_NESTED: Final = ATTRIBUTES[-1]
"""The version attribute of the CloudEvents version whose extensions are in one member, ``_BAG``."""
_BAG: Final = EXTENSIONS.removesuffix("/")
_DATA, _CODED = "data", "data_base64"
_PUNCTUATION: Final = 4  # of a member: two quotes, a colon, and a comma or a brace


class Documents:
    """The members of a batch of JSON documents.

    Attributes:
        shapes: The number of each shape. A shape is the names of a document's members, without
            those of data.
        shape: The number of each document's shape.
        once: Whether a document certainly is readable and has no repeated member.
        raws: The raw values of all members except data, document after document.
        counts: The number of these members in each document.
        firsts: The index of each document's first member, and the end of the last document.
        data: The raw values of the members ``data``; b"" if a document has none.
        payload: The same values as a binary array.
        coded: The raw values of the members ``data_base64``, by document number.
        named: All members except data, grouped by name.
    """

    def __init__(self, values: pa.Array, *, utf8: bool) -> None:
        """Split the documents in ``values``. ``utf8`` is True if all values are known to be UTF-8."""
        bodies = values.to_pylist()
        members = _read(bodies, utf8=utf8)
        self.coded: dict[int, msgspec.Raw] = {}
        self.shapes: dict[Names, int] = {}
        once = self._shaped(bodies, members)
        self.data: list[Any] = [each.pop(_DATA, b"") for each in members]
        self.payload = binary_array_of(self.data)
        self.counts = np.array(list(map(len, self.shapes)))[self.shape]
        self.firsts = np.concatenate([[0], np.cumsum(self.counts)])
        self.raws = list(chain.from_iterable(map(dict.values, members)))
        self.ends = ends_of(self.raws)
        self.once = self._accounted(np.diff(offsets_of(values)))
        self.once[list(once)] = list(once.values())
        for place in np.flatnonzero(~self.once).tolist():
            if members[place] and place not in once:
                self.once[place] = has_unique_names(bodies[place], _MEMBERS(bodies[place]))
        self.named = self._named()

    def _shaped(self, bodies: Sequence[bytes], members: Sequence[Members]) -> dict[int, bool]:
        """Find the shape of each document.

        Documents with base64 data or nested extensions are split singly; the result states for each such document
        whether no member repeats.
        """
        whole: dict[Names, int] = {}
        numbers = [whole.setdefault(names, len(whole)) for names in map(tuple, members)]
        self.shape = np.array([self._number(names) for names in whole], np.int64)[numbers]
        apart = {number for names, number in whole.items() if _is_apart(names)}
        once: dict[int, bool] = {}
        for place in [n for n, number in enumerate(numbers) if number in apart] if apart else ():
            once[place] = self._take_apart(place, bodies[place], members[place])
            self.shape[place] = self._number(tuple(members[place]))
        return once

    def _take_apart(self, place: int, body: bytes, members: Members) -> bool:
        """Split a document with base64 data or nested extensions, and return True if no member
        repeats.

        The entries of 0.1's ``extensions`` become members of the document.
        """
        once = has_unique_names(body, members)
        if _CODED in members:
            self.coded[place] = members.pop(_CODED)
        if _NESTED not in members or _BAG not in members:
            return once
        bag = bytes(members[_BAG])
        try:
            entries = _MEMBERS(bag)
        except msgspec.DecodeError:
            return False
        del members[_BAG]
        once = once and bool(entries) and not any("/" in name for name in members)
        members.update((EXTENSIONS + name, raw) for name, raw in entries.items())
        return once and has_unique_names(bag, entries)

    def _number(self, names: Names) -> int:
        names = tuple([name for name in names if name != _DATA])
        return self.shapes.setdefault(names, len(self.shapes))

    def _accounted(self, sizes: Numbers) -> Numbers:
        """Return for each document whether names, values and punctuation add up to its size.

        This is so if the document has no white space and no repeated member.
        """
        named = np.array([len("".join(names).encode()) for names in self.shapes])[self.shape]
        raw = self.ends[self.firsts[1:]] - self.ends[self.firsts[:-1]]
        data = np.diff(offsets_of(self.payload))
        data = np.where(data > 0, data + len(_DATA) + _PUNCTUATION, 0)
        found: Numbers = named + raw + data + _PUNCTUATION * self.counts + 1 == sizes
        return found

    def _named(self) -> NamedValues:
        """Return all members, grouped by name."""
        codes: dict[str, int] = {}
        of_shapes = [codes.setdefault(name, len(codes)) for names in self.shapes for name in names]
        lengths = np.array(list(map(len, self.shapes)))
        begins = (np.cumsum(lengths) - lengths)[self.shape]
        rows = np.repeat(np.arange(len(self.shape)), self.counts)
        places = np.arange(len(rows)) + np.repeat(begins - self.firsts[:-1], self.counts)
        return NamedValues(list(codes), np.array(of_shapes, np.int64)[places], rows)

    def values(self) -> Values:
        """Return the values without quotes and escapes."""
        octets, ends, unescaped = _unescaped(self.raws, self.ends)
        of_json = np.ones(len(self.raws), bool)
        return json_values(octets, ends, self.firsts, of_json, unescaped, document=True)


def _is_apart(names: Names) -> bool:
    return _CODED in names or (_NESTED in names and _BAG in names)


def _read(bodies: Sequence[bytes], *, utf8: bool) -> list[Members]:
    """Return the members of each document; no members if it is not a JSON object."""
    if utf8:
        try:
            return list(map(_MEMBERS, bodies))
        except (msgspec.DecodeError, RecursionError):
            pass  # at least one is invalid: the loop below finds which
    return list(map(_members_of, bodies))


def _members_of(body: bytes) -> Members:
    try:
        body.decode()
        return _MEMBERS(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _unescaped(raws: Sequence[Any], ends: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Decode the JSON strings that have escapes.

    Strings that do not decode stay unchanged.

    Returns:
        The bytes of all values, their ends with a leading zero, and the indexes of the decoded
            strings.
    """
    octets = np.frombuffer(b"".join(raws), np.uint8)
    signs = np.flatnonzero(octets == BACKSLASH)
    places = np.unique(np.searchsorted(ends, signs, side="right") - 1).tolist()
    texts = {place: text for place in places if (text := text_of(raws[place])) is not None}
    if not texts:
        return octets, ends, np.zeros(0, np.int64)
    found = list(raws)
    for place, text in texts.items():
        found[place] = b'"%b"' % text
    return np.frombuffer(b"".join(found), np.uint8), ends_of(found), np.array(list(texts))


def text_of(raw: Any) -> bytes | None:
    """Return the text of a JSON string as UTF-8; None for any other value and for an invalid
    string.
    """
    try:
        return _TEXT(raw).encode()
    except (msgspec.DecodeError, UnicodeError):
        return None
