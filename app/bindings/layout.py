"""The fast path of binary mode. The meaning of the header names of a message is computed once for each set of
names.

A sender repeats the same header names in the same order. Each set of names is analysed once and cached; then
each event costs only a check of its values. If that check fails, the general reader decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

import msgspec

from app.bindings.headers import PRINTABLE
from app.bindings.modes import WireType, wire_type
from app.bindings.record import ContentMode, Decoded, Record
from app.event.media_types import parse as parse_media_type
from app.event.memo import Memo
from app.event.validate import Checks, checks_of, passes
from app.event.value import CloudEvent

_BINARY = ContentMode.BINARY

Name = TypeVar("Name", str, bytes)
Values = Sequence[bytes | None]


class HeaderLayout(msgspec.Struct, frozen=True):
    """The meaning of a message's headers, by their places, counted from 0.

    Attributes:
        names: The attribute names in order of arrival, without the content type.
        own: A function that picks the values of these attributes.
        checks: The checks of the values. None if an attribute is missing, repeated or misnamed, so that the
            general reader must decode the message.
        typed: The place of the content type, or of its last repetition.
        repeated: True if the content type is repeated.
        foreign: Names and places of headers that do not belong to the event.
    """

    names: tuple[str, ...]
    own: Callable[[Values], Sequence[bytes | None]]
    checks: Checks | None
    typed: int | None
    repeated: bool
    foreign: tuple[tuple[str, int], ...]


class HeaderNaming(msgspec.Struct, Generic[Name], frozen=True):
    """The header names of a binding.

    Attributes:
        attribute: Map a header name to an attribute name. "" means that the general reader must decode the
            message, None that the header is foreign.
        content_type: The name of the content-type header, or None if the binding has none.
        foreign: Map a foreign header name to the name under which the header is kept, or to None to drop the
            header.
    """

    attribute: Callable[[Name], str | None]
    content_type: Name | None
    foreign: Callable[[Name], str | None]


def layout_of(headers: tuple[Name, ...], spelled: HeaderNaming[Name]) -> HeaderLayout:
    """Return the layout of messages whose headers have these names in this order."""
    own: dict[int, str] = {}
    typed: list[int] = []
    foreign: list[tuple[str, int]] = []
    for place, header in enumerate(headers):
        if header == spelled.content_type:
            typed.append(place)
        elif (attribute := spelled.attribute(header)) is not None:
            own[place] = attribute
        elif (kept_name := spelled.foreign(header)) is not None:
            foreign.append((kept_name, place))
    names = tuple(own.values())
    checks = checks_of(names) if len(set(names)) == len(names) else None
    pick = itemgetter(*own) if checks else tuple
    repeated = len(typed) > 1
    return HeaderLayout(names, pick, checks, typed[-1] if typed else None, repeated, tuple(foreign))


def attribute_under(prefix: str) -> Callable[[str], str | None]:
    """Return ``HeaderNaming.attribute`` for a binding whose header names consist of ``prefix`` and the
    attribute name."""
    content_type = f"{prefix}datacontenttype"

    def attribute(header: str) -> str | None:
        if header.startswith(prefix) and header != content_type:
            return header.removeprefix(prefix)
        return "" if header[:1] in "cC" else None  # perhaps an attribute header in another spelling

    return attribute


def layouts(
    attribute: Callable[[str], str | None],
    content_type: str | None,
    foreign: Callable[[str], str | None],
) -> Memo[tuple[str, ...], HeaderLayout]:
    """Return a cache of header layouts for one broker, by the header names of a message.

    Args:
        attribute: See ``HeaderNaming.attribute``.
        content_type: See ``HeaderNaming.content_type``.
        foreign: See ``HeaderNaming.foreign``.
    """
    spelled = HeaderNaming(attribute, content_type, foreign)
    return Memo(lambda headers: layout_of(headers, spelled))


def plain_attributes(
    layout: HeaderLayout, values: Values, content_type: str | None, allowed: bytes
) -> dict[str, str] | None:
    """Return valid attributes from values that need no decoding. None means that the general reader must decode
    them.

    Args:
        layout: The layout of the message.
        values: All header values, in the order of the layout.
        content_type: The content type of the data, if the message has one.
        allowed: The bytes that decode to themselves: ASCII, and the line break that joins the values.
    """
    if layout.checks is None:
        return None
    own = layout.own(values)
    try:
        lines = b"\n".join(own)  # type: ignore[arg-type]
    except TypeError:  # a null
        return None
    if lines.translate(None, allowed):
        return None
    texts = lines.decode().split("\n")  # one decoding is cheaper than many
    if len(texts) != len(own):
        return None
    attributes = dict(zip(layout.names, texts))  # noqa: B905 - equal lengths, and the keyword costs time
    if content_type is not None:
        if parse_media_type(content_type) is None:
            return None
        attributes["datacontenttype"] = content_type
    return attributes if passes(attributes, layout.checks) else None


def read_fast(
    record: Record,
    known: Memo[tuple[str, ...], HeaderLayout],
    data: bytes | None,
    wire: WireType | None = None,
) -> Decoded | None:
    """Return the event of a record in binary mode with the headers that Skybridge writes. Return None if
    ``reading.read`` must decode the record.

    Args:
        record: The record to read.
        known: The cached layouts of the broker.
        data: The data of the event.
        wire: The content type, if the broker has a property for it.
    """
    names, values = zip(*record.headers) if record.headers else ((), ())  # noqa: B905 - pairs
    layout = known[names]
    if layout.typed is not None:
        content_type = values[layout.typed]
        if content_type is None or layout.repeated:
            return None
        wire = wire_type(content_type)
    if wire is not None and wire.mode is not _BINARY:
        return None
    attributes = plain_attributes(layout, values, wire.text if wire else None, PRINTABLE)
    if attributes is None:
        return None
    event = CloudEvent(attributes, data)
    if layout.foreign:
        foreign = tuple([(name, values[place]) for name, place in layout.foreign])
        return Decoded(event, _BINARY, foreign=foreign)
    return Decoded(event, _BINARY)
