"""The fast path for batches. If all events have the same member names in the same order, their attributes are
read by column.

A sender writes all events of a batch with one serialiser, so the text between two values is equal in each
event. This module compares that text instead of parsing it, and checks each attribute for all events at once.

If the events of a batch differ in their members, each event is read on its own. A property test proves that
both readers agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from app.event.media_types import declares_json
from app.event.types import PRINTABLE_ASCII
from app.event.validate import checks_of
from app.event.value import CloudEvent, DataForm
from app.formats.json_members import MEMBERS

_DATA = re.compile(
    rb',[ \t\r\n]*"data"[ \t\r\n]*:[ \t\r\n]*'
)  # its quotes cannot be inside a string
_PLAIN = bytes(set(PRINTABLE_ASCII) - set(b"\\"))  # a text without escapes means what it shows
_VALUES = msgspec.json.Decoder(list[msgspec.Raw])
_WHITE_SPACE = b" \t\r\n"
_QUOTE = b'"'
_PIECES = 4  # parts of a member between quotes: name, colon, value, comma


class BatchColumns(Sequence[tuple[CloudEvent, bytes]]):
    """The events of a batch, stored by column. All are valid events of version 1.0 with printable ASCII
    attributes.

    Attributes:
        names: The attribute names, in order of arrival.
        values: One list per name, with one value per event.
        data: One JSON value per event. None if no event has data.
        elements: The slice of the batch with each event.
    """

    __slots__ = ("data", "elements", "names", "values")

    def __init__(
        self,
        names: tuple[str, ...],
        values: Sequence[list[bytes]],
        data: list[bytes] | None,
        elements: list[bytes],
    ) -> None:
        self.names = names
        self.values = values
        self.data = data
        self.elements = elements

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, index: int) -> tuple[CloudEvent, bytes]:  # type: ignore[override]  # no slices
        texts = [column[index].decode() for column in self.values]
        attributes = dict(zip(self.names, texts, strict=True))
        if self.data is None:
            return CloudEvent(attributes), self.elements[index]
        return CloudEvent(attributes, self.data[index], DataForm.JSON), self.elements[index]


def read_columns(elements: list[bytes]) -> BatchColumns | None:
    """Return the events by column. Return None if they must be read one by one, because their members differ
    or an event has a fault.

    Args:
        elements: The documents, each of which is one JSON value.
    """
    first = elements[0]
    marker = _DATA.search(first)
    if marker is None:
        heads, data = [element[:-1] for element in elements], None
    else:
        data_member = marker[0]
        parts = [element.partition(data_member) for element in elements]
        heads = [head for head, _, _ in parts]
        data = _data([tail[:-1] for _, _, tail in parts])
        if data is None:
            return None
    return _of_heads(heads, data, elements)


def _data(tails: list[bytes]) -> list[bytes] | None:
    """Return the text after ``"data":`` of each event. Return None if this text is not exactly one value in
    some event."""
    try:
        values = _VALUES.decode(b"[%b]" % b",".join(tails))
    except (msgspec.DecodeError, RecursionError):
        return None
    return [tail.rstrip(_WHITE_SPACE) for tail in tails] if len(values) == len(tails) else None


def _of_heads(
    heads: list[bytes], data: list[bytes] | None, elements: list[bytes]
) -> BatchColumns | None:
    """Return the columns of the attributes. Return None if the members of the events differ or an event is
    invalid.

    If no text has an escape, every quote is punctuation. Splitting at quotes then gives names, values and
    punctuation.
    """
    pieces = _QUOTE.join(heads).split(_QUOTE)
    count = len(heads)
    width = heads[0].count(_QUOTE) + 1
    members = width // _PIECES
    if len(pieces) != count * width or width != members * _PIECES + 1 or members >= MEMBERS:
        return None
    shape = pieces[:width]
    if not _is_object(shape):
        return None
    columns = [pieces[place::width] for place in range(width)]
    values = columns[3::_PIECES]
    del columns[3::_PIECES]
    if any(column.count(column[0]) != count for column in columns):
        return None
    names = tuple([name.decode("latin-1") for name in shape[1::_PIECES]])
    return BatchColumns(names, values, data, elements) if _are_valid(names, values) else None


def _is_object(shape: list[bytes]) -> bool:
    """Return True if the punctuation is that of a JSON object of strings. The end of the object is not
    included."""
    opening, colons, commas = shape[0], shape[2::_PIECES], shape[4:-1:_PIECES]
    return (
        opening.rstrip(_WHITE_SPACE) == b"{"
        and all(each.strip(_WHITE_SPACE) == b":" for each in colons)
        and all(each.strip(_WHITE_SPACE) == b"," for each in commas)
        and not shape[-1].strip(_WHITE_SPACE)
    )


def _are_valid(names: tuple[str, ...], values: Sequence[list[bytes]]) -> bool:
    checks = checks_of(names) if len(set(names)) == len(names) else None
    if checks is None or not all(map(all, values)):
        return False
    if b"".join(map(b"".join, values)).translate(None, _PLAIN):
        return False
    rules: list[tuple[str, Callable[[str], object]]] = [*checks]
    if "datacontenttype" in names:
        rules.append(("datacontenttype", declares_json))
    return all(_accepted(accepts, values[names.index(name)]) for name, accepts in rules)


def _accepted(accepts: Callable[[str], object], column: list[bytes]) -> bool:
    return all(accepts(value.decode()) for value in set(column))
