"""From an event's own version to its 1.0 view (spec.md 3.3), by the table of versions.

The 1.0 view is what filters and key mappers see; what it changed stands in ``arrived``, so that the
event is forwarded as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from app.errors import Fault, InvalidEvent
from app.event.types import is_uri
from app.event.validate import Locate, shorten, unsupported
from app.event.value import ArrivedAttribute, AttributeType, CloudEvent
from app.event.versions import ATTRIBUTES, EXTENSIONS, NEWEST, VERSIONS, Version, version_named

SUFFIXES = 32  # tries for one name, so that looking for it stays cheap (rule 8)

_FOREIGN = re.compile("[^a-z0-9]")
_STRING = AttributeType.STRING
_KEPT = (AttributeType.INTEGER, AttributeType.BOOLEAN)

View = tuple[dict[str, str], dict[str, AttributeType], dict[str, ArrivedAttribute]]
"""Attributes, types and arrivals of a CloudEvent."""


class OwnAttribute(msgspec.Struct, frozen=True):
    """An attribute in its own version: its name there, type, canonical text, and header text; and its
    name in 1.0, ``newest``.
    """

    newest: str
    name: str
    type: AttributeType
    text: str
    header: str


def older_version(said: Callable[[str], str | None], locate: Locate) -> str | None:
    """The name of the older version that an event says it is of. None when it says the newest, none at
    all, or an unknown one in the way of today. InvalidEvent for an unknown one in the way of 0.1.

    ``said``  the text of the version attribute of a name, None when it is not there.
    """
    for attribute in ATTRIBUTES:
        text = said(attribute)
        if not text:
            continue
        name = version_named(attribute, text)
        if name is None and attribute not in VERSIONS[NEWEST].rules:
            raise InvalidEvent([unsupported(attribute, text, locate)])
        return None if name == NEWEST else name
    return None


def upgraded(
    name: str,
    texts: Mapping[str, str],
    types: Mapping[str, AttributeType],
    headers: Mapping[str, str],
) -> View:
    """The 1.0 view of valid attributes of the version ``name``.

    ``texts``    own names to canonical texts; ``types`` of those that are not String.
    ``headers``  own names to the text that a header carried, where headers brought them.
    """
    version = VERSIONS[name]
    view: View = ({}, {}, {})
    attributes, kinds, arrived = view
    for own, text in texts.items():
        kind = types.get(own, _STRING)
        target = _newest_name(version, own, text, kind, attributes)
        if not target:
            continue
        attributes[target] = NEWEST if target == "specversion" else text
        if kind in _KEPT:
            kinds[target] = kind
        header = headers.get(own)
        if header is None:
            header = header_text(version, text, kind)
        if (own, kinds.get(target, _STRING), header) != (target, kind, attributes[target]):
            arrived[target] = ArrivedAttribute(own, kind, header)
    return view


def _newest_name(
    version: Version, own: str, text: str, kind: AttributeType, taken: Mapping[str, str]
) -> str:
    """The attribute's name in 1.0; "" for one that 1.0 has not."""
    if own in version.rules:
        target = version.newest.get(own, own)
        # 1.0 wants an absolute URI; a relative one stays under the old name
        return target if target != "dataschema" or is_uri(text) else _relative(own)
    free = _FOREIGN.sub("", own.removeprefix(EXTENSIONS).lower()) or "x"
    if free == "subject" and kind is _STRING and text and free not in taken:
        return free  # what later became a core attribute
    for _ in range(SUFFIXES):
        if free not in version.reserved and free not in taken:
            return free
        free += "x"
    detail = f"More than {SUFFIXES} extensions have the name {shorten(free.rstrip('x'))} in 1.0."
    raise InvalidEvent([Fault("colliding-extensions", detail, shorten(own), "V3")])


def _relative(own: str) -> str:
    return own if own == "dataschema" else own.lower()


def header_text(version: Version, text: str, kind: AttributeType) -> str:
    """An attribute's value as a header of its version has it: its JSON value in 0.1 and 0.2."""
    if version.quoted and kind is _STRING:
        return msgspec.json.encode(text).decode()
    return text


def own_attributes(event: CloudEvent) -> Iterator[OwnAttribute]:
    """The attributes as their own version has them, in order, for an encoder."""
    version = VERSIONS[event.version]
    for name, text in event.attributes.items():
        canonical = version.text if name == "specversion" else text
        arrival = event.arrived.get(name)
        if arrival is None:
            yield OwnAttribute(name, name, event.types.get(name, _STRING), canonical, canonical)
        else:
            yield OwnAttribute(name, arrival.name, arrival.type, canonical, arrival.text)
