"""Read and write JSON documents of the versions before 1.0 and of its release candidate. The table of
versions has their differences."""

from __future__ import annotations

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from app.errors import Fault, InvalidEvent
from app.event import json_text
from app.event.upgrade import older_version, own_attributes, upgraded
from app.event.validate import Locate, clip
from app.event.value import CloudEvent
from app.event.versions import EXTENSIONS, VERSIONS, Version
from app.formats.json_data import read_data, write_data
from app.formats.json_members import mixed_attributes, pointer, read_members, value_of
from app.formats.json_older_data import read_older_data, write_older_data

_BAG = EXTENSIONS.removesuffix("/")


def version_of(members: dict[str, Raw]) -> str | None:
    """Return the name of the older version of a document. Return None if the document has no older version
    (see ``older_version``)."""
    return older_version(lambda attribute: text_of(members.get(attribute)), pointer)


def text_of(raw: Raw | None) -> str | None:
    """Return the text of a member, which may hold unpaired surrogates, or None if it is no string."""
    try:
        return None if raw is None else json_text.string(raw)
    except msgspec.ValidationError:
        return None


def read_older(
    name: str, members: dict[str, Raw], raw: Raw | None, encoded: Raw | None
) -> CloudEvent:
    """Return the event in a document of the version ``name``. Raises InvalidEvent with every fault.

    Args:
        name: The version.
        members: The members without ``data`` and ``data_base64``.
        raw: The value of ``data``.
        encoded: The value of ``data_base64``.
    """
    version = VERSIONS[name]
    attributes = _unnested(members) if version.nested else members
    if encoded is not None and not version.two_forms:
        attributes = attributes | {"data_base64": encoded}  # this version has no such member
    texts, types, faults = mixed_attributes(attributes, version, _locate(version))
    content_type = texts.get(version.content_type)
    if version.two_forms:
        data, form, data_faults = read_data(raw, encoded, content_type)
    else:
        encoding = texts.get(version.encoding) if version.encoding else None
        coded = encoding is not None
        if coded and not version.accepts[version.encoding](encoding or ""):
            raw = None  # already a fault of the attribute, and the encoding is unknown
        data, form, data_faults = read_older_data(raw, content_type, coded=coded)
    if faults or data_faults:
        raise InvalidEvent([*faults, *data_faults])
    view, kinds, arrived = upgraded(name, texts, types, {})
    return CloudEvent(view, data, form, kinds, name, arrived)


def _locate(version: Version) -> Locate:
    if not version.nested:
        return pointer
    return lambda name: (
        f"/{_BAG}{pointer(name.removeprefix(EXTENSIONS))}"
        if name.startswith(EXTENSIONS)
        else pointer(name)
    )


def _unnested(members: dict[str, Raw]) -> dict[str, Raw]:
    """Return the members of a 0.1 document in one level. Each entry of ``extensions`` becomes a member
    ``extensions/NAME``."""
    bag = members.get(_BAG)
    members = {name: raw for name, raw in members.items() if name != _BAG}
    if strange := [name for name in members if name.startswith(EXTENSIONS)]:
        raise InvalidEvent(
            [_no_attribute(name) for name in strange]
        )  # such a name would be taken for an entry
    if bag is None or bytes(bag) == b"null":
        return members
    try:
        entries = read_members(bytes(bag))
    except InvalidEvent as invalid:
        faults = [replace(fault, at=f"/{_BAG}{fault.at}") for fault in invalid.faults]
        raise InvalidEvent(faults) from None
    if not entries:
        fault = Fault("empty-attribute", "extensions has no entry: leave it out.", f"/{_BAG}", "V2")
        raise InvalidEvent([fault])
    return members | {f"{EXTENSIONS}{name}": raw for name, raw in entries.items()}


def _no_attribute(name: str) -> Fault:
    detail = (
        f"{clip(name)} is not an attribute of 0.1, which has its extensions in a separate member."
    )
    return Fault("bad-attribute-name", detail, pointer(name), "core 1.2")


def write_older(event: CloudEvent) -> bytes | None:
    """Return the event as a document of its version, or None if that version cannot hold its data."""
    version = VERSIONS[event.version]
    if version.two_forms:
        data = write_data(event) or b""
    else:
        older = write_older_data(event, version.encoding)
        if older is None:
            return None
        data = older
    members: list[bytes] = []
    entries: list[bytes] = []
    for own in own_attributes(event):
        name, nested = own.name.removeprefix(EXTENSIONS), own.name.startswith(EXTENSIONS)
        member = msgspec.json.encode(name) + b":" + value_of(own.text, own.type)
        (entries if nested else members).append(member)
    if entries:
        members.append(b'"%b":{%b}' % (_BAG.encode(), b",".join(entries)))
    return b"{" + b",".join([*members, data] if data else members) + b"}"
