"""The hot path of reading a batch: events whose members have the same names in the same order, read by column.

A sender writes all events of a batch with one serialiser: what stands between two values is the same in each
event, so it is compared and not parsed, and each attribute is looked at for all events at once. It is an
optimisation only: where it does not fit, each event is read by itself, and the two never disagree (a property
test holds them to it).
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
)  # its quotes cannot stand inside a string
_PLAIN = bytes(set(PRINTABLE_ASCII) - set(b"\\"))  # a text without escapes says what it looks like
_VALUES = msgspec.json.Decoder(list[msgspec.Raw])
_WHITE_SPACE = b" \t\r\n"
_QUOTE = b'"'
_PIECES = 4  # of a member between quotes: name, colon, value, comma


class BatchColumns(Sequence[tuple[CloudEvent, bytes]]):
    """Valid events of version 1.0, all of whose attributes are printable ASCII, with their slices of the batch.

    ``names``     of the attributes, in order of arrival; ``values``: one list a name, one value an event.
    ``data``      one JSON value an event; None where no event has any.
    ``elements``  the slices.
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
    """None when the documents do not look alike, are of another shape, or any has a fault. ``elements``: each is
    one JSON value, which the caller has made sure of."""
    first = elements[0]
    marker = _DATA.search(first)
    if marker is None:
        heads, data = [element[:-1] for element in elements], None
    else:
        data_member = marker[0]
        parted = [element.partition(data_member) for element in elements]
        heads = [head for head, _, _ in parted]
        data = _data([tail[:-1] for _, _, tail in parted])
        if data is None:
            return None
    return _of_heads(heads, data, elements)


def _data(tails: list[bytes]) -> list[bytes] | None:
    """What follows ``"data":`` in each event; None where that is more than one value."""
    try:
        values = _VALUES.decode(b"[%b]" % b",".join(tails))
    except (msgspec.DecodeError, RecursionError):
        return None
    return [tail.rstrip(_WHITE_SPACE) for tail in tails] if len(values) == len(tails) else None


def _of_heads(
    heads: list[bytes], data: list[bytes] | None, elements: list[bytes]
) -> BatchColumns | None:
    """Between quotes stand names, values and punctuation in turn: where no text holds an escape, every quote is
    punctuation."""
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
    """Whether the punctuation is that of an object of strings, but for the end."""
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
