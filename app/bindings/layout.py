"""Where a message has what, told by the names of its headers alone: the hot path of binary mode.

A sender sends the same names in the same order, event after event: what follows from them is found out
once, and each event costs a look at its values. Where a closer look is due, another reader has it.
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


class Layout(msgspec.Struct, frozen=True):
    """Places of headers, counted from 0.

    ``names``    of the attributes under the prefix, in order of arrival.
    ``own``      picks their values.
    ``checks``   what to ask of the values; None when the names alone call for a closer look: one is
                 missing, or there twice, or none.
    ``typed``    place of the content type; the last where it is ``repeated``.
    ``foreign``  names that others have beside the event, and their places.
    """

    names: tuple[str, ...]
    own: Callable[[Values], Sequence[bytes | None]]
    checks: Checks | None
    typed: int | None
    repeated: bool
    foreign: tuple[tuple[str, int], ...]


class Spelled(msgspec.Struct, Generic[Name], frozen=True):
    """How a binding names its headers.

    ``attribute``     header to attribute; "" for one that calls for a closer look, None for a foreign.
    ``content_type``  the header of that; None where it is none.
    ``foreign``       name beside the event, or None for a header that is left behind.
    """

    attribute: Callable[[Name], str | None]
    content_type: Name | None
    foreign: Callable[[Name], str | None]


def layout_of(headers: tuple[Name, ...], spelled: Spelled[Name]) -> Layout:
    """The layout of a message whose headers have these names, in this order."""
    own: dict[int, str] = {}
    typed: list[int] = []
    foreign: list[tuple[str, int]] = []
    for place, header in enumerate(headers):
        if header == spelled.content_type:
            typed.append(place)
        elif (attribute := spelled.attribute(header)) is not None:
            own[place] = attribute
        elif (beside := spelled.foreign(header)) is not None:
            foreign.append((beside, place))
    names = tuple(own.values())
    checks = checks_of(names) if len(set(names)) == len(names) else None
    pick = itemgetter(*own) if checks else tuple
    repeated = len(typed) > 1
    return Layout(names, pick, checks, typed[-1] if typed else None, repeated, tuple(foreign))


def attribute_under(prefix: str) -> Callable[[str], str | None]:
    """``attribute`` of ``Spelled``, for bindings whose headers are a prefix and the attribute's name."""
    not_ours = f"{prefix}datacontenttype"

    def attribute(header: str) -> str | None:
        if header.startswith(prefix) and header != not_ours:
            return header.removeprefix(prefix)
        return "" if header[:1] in "cC" else None  # perhaps one of ours in another spelling

    return attribute


def layouts(
    attribute: Callable[[str], str | None],
    content_type: str | None,
    foreign: Callable[[str], str | None],
) -> Memo[tuple[str, ...], Layout]:
    """Of the messages of a broker, by the names of their headers (``Spelled``)."""
    spelled = Spelled(attribute, content_type, foreign)
    return Memo(lambda headers: layout_of(headers, spelled))


def plain_attributes(
    layout: Layout, values: Values, content_type: str | None, allowed: bytes
) -> dict[str, str] | None:
    """Valid attributes from values that need no decoding. None when a closer look is due.

    ``allowed``  what decodes to itself: ASCII, and the line break that is put between values.
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


def read_plainly(
    record: Record,
    known: Memo[tuple[str, ...], Layout],
    data: bytes | None,
    wire: WireType | None = None,
) -> Decoded | None:
    """A binary event as we write it to a broker. None when a closer look is due.

    ``wire``  the content type, where the broker has it beside the headers.
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
