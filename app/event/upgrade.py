"""Convert attributes of an older version to the 1.0 view of an event, by the table of versions.

Filters and key mappers see the 1.0 view. ``CloudEvent.arrived`` keeps the attributes that the view changed,
so that the event is forwarded as it arrived.
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

SUFFIXES = 32  # tries for one name, which bound the work per event

_FOREIGN = re.compile("[^a-z0-9]")
_STRING = AttributeType.STRING
_KEPT = (AttributeType.INTEGER, AttributeType.BOOLEAN)

View = tuple[dict[str, str], dict[str, AttributeType], dict[str, ArrivedAttribute]]
"""The fields ``attributes``, ``types`` and ``arrived`` of a CloudEvent."""


class OwnAttribute(msgspec.Struct, frozen=True):
    """An attribute of an event in the event's own version.

    Attributes:
        newest: The name in 1.0.
        name: The name in the event's own version.
        type: The type.
        text: The canonical text.
        header: The text of a header with this attribute.
    """

    newest: str
    name: str
    type: AttributeType
    text: str
    header: str


def older_version(read_text: Callable[[str], str | None], locate: Locate) -> str | None:
    """Return the name of the older version that an event declares.

    Return None if the event declares the newest version or no version. Return None also for an unknown
    ``specversion``, which validation refuses later.

    Args:
        read_text: Return the text of the version attribute with a given name, or None.
        locate: Map an attribute name to its place in the message.

    Raises:
        InvalidEvent: The version attribute of 0.1 names an unknown version.
    """
    for attribute in ATTRIBUTES:
        text = read_text(attribute)
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
    """Return the 1.0 view of valid attributes of the version ``name``.

    Args:
        name: The version.
        texts: Canonical texts by the attribute names of the version.
        types: The types that are not String, by the same names.
        headers: The texts of headers, by the same names, if the event arrived in headers.
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
    """Return the name of an attribute in 1.0. Return "" if 1.0 has no such attribute."""
    if own in version.rules:
        target = version.newest.get(own, own)
        # 1.0 demands an absolute URI; a relative one keeps its old name
        return target if target != "dataschema" or is_uri(text) else _relative(own)
    free = _FOREIGN.sub("", own.removeprefix(EXTENSIONS).lower()) or "x"
    if free == "subject" and kind is _STRING and text and free not in taken:
        return free  # later versions have this core attribute
    for _ in range(SUFFIXES):
        if free not in version.reserved and free not in taken:
            return free
        free += "x"
    detail = f"More than {SUFFIXES} extensions have the name {shorten(free.rstrip('x'))} in 1.0."
    raise InvalidEvent([Fault("colliding-extensions", detail, shorten(own), "V3")])


def _relative(own: str) -> str:
    return own if own == "dataschema" else own.lower()


def header_text(version: Version, text: str, kind: AttributeType) -> str:
    """Return the value of an attribute as the text of a header. In 0.1 and 0.2 this text is a JSON value."""
    if version.quoted and kind is _STRING:
        return msgspec.json.encode(text).decode()
    return text


def own_attributes(event: CloudEvent) -> Iterator[OwnAttribute]:
    """Yield the attributes of an event with their names and texts in its own version, in order. An encoder
    writes them."""
    version = VERSIONS[event.version]
    for name, text in event.attributes.items():
        canonical = version.text if name == "specversion" else text
        arrival = event.arrived.get(name)
        if arrival is None:
            yield OwnAttribute(name, name, event.types.get(name, _STRING), canonical, canonical)
        else:
            yield OwnAttribute(name, arrival.name, arrival.type, canonical, arrival.text)
