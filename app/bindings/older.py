"""Attributes of versions 0.1 to 0.3 in headers, for every binding.

Version 0.1 has ``CE-EventID`` and ``CE-X-Name``. Versions 0.2 and 0.3 have ``ce-name``, and ``ce-name-key``
for an entry of a Map. In 0.1 and 0.2 a value is JSON, with strings in quotes. A binding strips its prefix and
decodes header values before it calls this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from app.bindings.headers import collapse
from app.bindings.values import is_quoted, unquote_any
from app.errors import Fault, InvalidEvent
from app.event import json_text
from app.event.types import is_integer
from app.event.upgrade import OwnAttribute, own_attributes, upgraded
from app.event.validate import Locate, faults_of, merge, shorten
from app.event.value import NO_TYPES, AttributeType, CloudEvent
from app.event.versions import EXTENSIONS, VERSIONS, Version
from app.formats.json_members import compact_map, unpaired

ENTRY = "x-"  # the prefix of extension names in 0.1, in any case

_STRING, _MAP = AttributeType.STRING, AttributeType.MAP
_JSON_TEXT = msgspec.json.Decoder(str)
_JSON_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_KEY = re.compile("[a-z0-9]+")


def read_older(
    name: str,
    pairs: Sequence[tuple[str, str]],
    content_type: str | None,
    data: bytes | None,
    locate: Locate,
    typed_at: str = "header content-type",
    wire_types: Mapping[str, AttributeType] = NO_TYPES,
) -> CloudEvent:
    """Return the event of a message in the version ``name``. Raises InvalidEvent with every fault.

    Args:
        name: The version.
        pairs: Header names without prefix, and their decoded texts.
        content_type: The content-type header. It takes precedence over an attribute.
        data: The data of the event.
        locate: Map a header name without prefix to its place in the message, for faults.
        typed_at: The place of ``content_type``.
        wire_types: The types of header values on the wire, by header name. In 0.1 and 0.2 the text of a value
            shows its type.
    """
    version = VERSIONS[name]
    at = _locate(version, locate, typed_at)
    headers, faults = collapse([(own_name(version, key), text) for key, text in pairs], at)
    if version.encoding and version.encoding in headers:
        faults.append(_unexpected(version.encoding, at(version.encoding)))
        del headers[version.encoding]
    faults += [_both(name, at(name)) for name in _clashes(version, headers)]
    texts, kinds = _values(version, headers)
    faults += [_no_map(name, at(name)) for name in kinds if name in version.rules]
    maps = (name for name, kind in kinds.items() if kind is _MAP)
    faults += filter(None, (unpaired(name, texts[name].encode(), at(name)) for name in maps))
    kinds |= {
        own: kind for own, kind in wire_types.items() if own in texts and own not in version.rules
    }
    if content_type is not None:
        texts[version.content_type] = content_type
    headers.pop(version.content_type, None)  # the content type is no attribute header
    faults = merge(faults, faults_of(texts, at, version=version))
    if faults:
        raise InvalidEvent(faults)
    attributes, types, arrived = upgraded(name, texts, kinds, headers)
    return CloudEvent(attributes, data, types=types, version=name, arrived=arrived)


def _locate(version: Version, locate: Locate, typed_at: str) -> Locate:
    def at(own: str) -> str:
        if own == version.content_type:
            return typed_at
        return locate(own.replace(EXTENSIONS, ENTRY, 1) if version.nested else own)

    return at


def own_name(version: Version, key: str) -> str:
    """Return the version's name of an attribute from its header name without prefix.

    In 0.1 header names may have any case. Extensions under ``X-`` keep their case, and core attributes get
    the names of 0.1.
    """
    if not version.nested:
        return key
    lower = key.lower()
    if lower.startswith(ENTRY):
        return EXTENSIONS + key[len(ENTRY) :]
    return next((own for own in version.rules if own.lower() == lower), key)


def _unexpected(name: str, at: str) -> Fault:
    detail = f"{name} is only for documents: in binary mode the body is the data itself."
    return Fault(f"unexpected-{name}", detail, at, "V6")


def _clashes(version: Version, headers: Mapping[str, str]) -> list[str]:
    """Return the attributes that headers give twice: as one whole value and as separate entries."""
    if not version.maps or version.nested:
        return []
    maps = {own.partition("-")[0] for own in headers if "-" in own}
    return [own for own in headers if own in maps]


def _both(name: str, at: str) -> Fault:
    detail = f"{shorten(name)} is given both as a whole and by entries."
    return Fault("repeated-attribute", detail, at, "core 1.1")


def _no_map(name: str, at: str) -> Fault:
    return Fault("wrong-type", f"{shorten(name)} is text, not a Map of entries.", at, "core 1.1")


def _values(
    version: Version, headers: dict[str, str]
) -> tuple[dict[str, str], dict[str, AttributeType]]:
    """Return canonical texts and types by attribute name. Headers with the entries of a Map are joined and
    removed from ``headers``."""
    texts: dict[str, str] = {}
    kinds: dict[str, AttributeType] = {}
    joined: dict[str, dict[str, msgspec.Raw]] = {}
    for own, text in list(headers.items()):
        name, dash, key = own.partition("-")
        if dash and version.maps and not version.nested and _KEY.fullmatch(key):
            del headers[own]
            joined.setdefault(name, {})[key] = _entry(version, text)
            texts[name], kinds[name] = "", _MAP  # reserves its place among the attributes
            continue
        texts[own], kind = (
            _value(text, core=own in version.rules) if version.quoted else (text, _STRING)
        )
        if kind is not _STRING:
            kinds[own] = kind
    for name, entries in joined.items():
        headers.pop(name, None)
        texts[name], kinds[name] = msgspec.json.encode(entries).decode(), _MAP
    return texts, kinds


def _entry(version: Version, text: str) -> msgspec.Raw:
    if version.quoted:
        try:
            return msgspec.Raw(json_text.compact(json_text.single_value(text.encode())))
        except json_text.NOT_JSON:
            pass  # the sender does not write JSON: the value is the text
    return msgspec.Raw(msgspec.json.encode(text))


def _value(text: str, *, core: bool) -> tuple[str, AttributeType]:
    """Return text and type of the JSON value in a header. Text that is no JSON counts as a string, because
    some senders omit the quotes.
    """
    if is_quoted(text):
        return unquote_any(text), _STRING
    if core:
        return text, _STRING
    if text in ("true", "false"):
        return text, AttributeType.BOOLEAN
    if is_integer(text):
        return text, AttributeType.INTEGER
    return _object(text)


def _object(text: str) -> tuple[str, AttributeType]:
    compact = compact_map(text.encode()) if text.startswith("{") else None
    return (text, _STRING) if compact is None else (compact.decode(), _MAP)


def older_headers(event: CloudEvent) -> Iterator[tuple[str, str]]:
    """Yield the headers of an event in its own older version, as names without prefix and texts. The content
    type is not included."""
    version = VERSIONS[event.version]
    attributes = [own for own in own_attributes(event) if own.name != version.content_type]
    spelled = not version.nested or _can_be_headers(attributes)
    for own in attributes:
        if own.type is _MAP and not version.nested:
            yield from _entries(version, own)
        else:
            yield _header_name(version, own, spelled=spelled), own.header


def _can_be_headers(attributes: Sequence[OwnAttribute]) -> bool:
    """Return True if the extension names of a 0.1 event are valid header names, unique in any case."""
    entries = [own.name.lower() for own in attributes if own.name.startswith(EXTENSIONS)]
    tokens = all(_TOKEN.fullmatch(name.removeprefix(EXTENSIONS)) for name in entries)
    return tokens and len(set(entries)) == len(entries)


def _header_name(version: Version, own: OwnAttribute, *, spelled: bool) -> str:
    if not version.nested:
        return own.name
    if own.name.startswith(EXTENSIONS):
        return f"X-{own.name.removeprefix(EXTENSIONS) if spelled else own.newest}"
    return own.name[0].upper() + own.name[1:]


def _entries(version: Version, own: OwnAttribute) -> Iterator[tuple[str, str]]:
    entries = _JSON_OBJECT.decode(own.text)
    if not entries or not all(_KEY.fullmatch(key) for key in entries):
        yield (
            own.name,
            own.header,
        )  # these keys cannot be in header names: the whole Map as JSON text
        return
    for key, raw in entries.items():
        text = bytes(raw).decode()
        bare = not version.quoted and text.startswith('"')
        yield f"{own.name}-{key}", _JSON_TEXT.decode(raw) if bare else text
