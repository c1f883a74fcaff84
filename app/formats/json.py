"""The JSON event format: convert documents to events and back. The text of ``data`` stays unchanged.

The reader cuts the raw bytes of ``data`` out of the document and does not parse nested values. So ``1.10``,
``1e400``, the order of keys and repeated keys inside data stay byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from app.errors import Fault, InvalidEvent, SenderError
from app.event import json_text
from app.event.convert import as_newest
from app.event.validate import clip
from app.event.value import CloudEvent
from app.event.versions import ATTRIBUTES, NEWEST
from app.formats.json_columns import read_columns
from app.formats.json_compact import read_compact
from app.formats.json_data import read_data, write_data
from app.formats.json_members import decoded, read_attributes, read_members, value_of
from app.formats.json_older import read_older, text_of, version_of, write_older

MEDIA_TYPE = "application/cloudevents+json"
BATCH_MEDIA_TYPE = "application/cloudevents-batch+json"
FAULTS_LISTED = 1000  # after so many faults, reading a batch stops
FEW = 4  # batches up to this number of events are read one by one

_BOM = b"\xef\xbb\xbf"
_NEWER = {"eventID": "id", "eventType": "type"}  # names of 0.1 to those of 1.0


def read_event(document: bytes) -> CloudEvent:
    """Return the event in a UTF-8 document. Raises InvalidEvent with every fault, located by JSON Pointer."""
    return _event(_text(document))


def peek(document: bytes) -> Mapping[str, object]:
    """Return the members of a document that may be no valid event. Attributes have their names of 1.0.

    Raises ValueError or RecursionError if the document is not JSON.
    """
    text = document.removeprefix(_BOM).decode("utf-8", "replace")
    found = json_text.loaded(text.encode())
    if not isinstance(found, dict):
        return {}
    return {str(_NEWER.get(name, name)): value for name, value in found.items()}


def read_batch(document: bytes, limit: int | None = None) -> Sequence[tuple[CloudEvent, bytes]]:
    """Return each event of a batch with its slice of the document. A batch may be empty.

    Raises:
        InvalidEvent: Events have faults, all of which are listed with their ``index``.
        SenderError: The batch has more than ``limit`` events (413).
    """
    elements = _split(_text(document))
    if limit is not None and len(elements) > limit:
        raise SenderError(
            f"The batch has {len(elements)} events; at most {limit} are accepted at once",
            status=413,
            code="batch-too-large",
        )
    columns = read_columns(elements) if len(elements) > FEW else None
    return _one_by_one(elements) if columns is None else columns


def _one_by_one(elements: Sequence[bytes]) -> list[tuple[CloudEvent, bytes]]:
    found: list[tuple[CloudEvent, bytes]] = []
    faults: list[Fault] = []
    for index, element in enumerate(elements):
        try:
            found.append((_event(element), element))
        except InvalidEvent as invalid:
            faults += [_in_batch(fault, index) for fault in invalid.faults]
        if len(faults) >= FAULTS_LISTED:  # bounds the size of the answer
            raise InvalidEvent([*faults, _more_faults(index)])
    if faults or len({event.version for event, _ in found}) > 1:
        faults += _mixed_versions(elements)
    if faults:
        raise InvalidEvent(faults)
    return found


def write_event(event: CloudEvent) -> bytes:
    """Return the event as a document of its version. Raw JSON data is embedded unchanged.

    If the version cannot hold the data, the document has version 1.0. An example is binary data of a text
    type in 0.2.
    """
    if event.version != NEWEST:
        return write_older(event) or write_event(as_newest(event))
    attributes, types, data = event.attributes, event.types, write_data(event)
    if attributes and not types:  # the most frequent case: all attributes are strings
        whole = msgspec.json.encode(dict(attributes))
        return whole if data is None else b"%b,%b}" % (whole[:-1], data)
    members = [
        b'"%b":%b' % (name.encode(), value_of(text, types.get(name)))
        for name, text in attributes.items()
    ]
    if data is not None:
        members.append(data)
    return b"{" + b",".join(members) + b"}"


def write_batch(documents: Sequence[bytes]) -> bytes:
    """Return a batch that contains these documents unchanged."""
    return b"[" + b",".join(documents) + b"]"


def _event(text: bytes) -> CloudEvent:
    return read_compact(text) or _read_any(text)


def _read_any(text: bytes) -> CloudEvent:
    members = read_members(text)
    raw = members.pop("data", None)
    encoded = members.pop("data_base64", None)
    attributes, types, faults = read_attributes(members)
    older = version_of(members) if faults else None
    if older is not None:
        return read_older(older, members, raw, encoded)
    data, form, more = read_data(raw, encoded, attributes.get("datacontenttype"))
    if faults or more:
        raise InvalidEvent([*faults, *more])
    return CloudEvent(attributes, data, form, types)


def _text(document: bytes) -> bytes:
    """Return the document without a byte order mark. Raises InvalidEvent if it is not UTF-8."""
    if document.isascii():
        return document
    try:
        document.decode()
    except UnicodeDecodeError as error:
        detail = f"The document is not UTF-8: {error.reason} at byte {error.start}."
        raise InvalidEvent([Fault("bad-utf8", detail, rule="RFC 8259 8.1")]) from None
    return document.removeprefix(_BOM)


def _split(text: bytes) -> list[bytes]:
    otherwise = Fault("not-an-array", "A batch is a JSON array of events.", rule="J14")
    return [bytes(element) for element in decoded(json_text.items, text, otherwise)]


def _in_batch(fault: Fault, index: int) -> Fault:
    return replace(fault, at=f"/{index}{fault.at}", index=index)


def _more_faults(index: int) -> Fault:
    detail = f"The batch was not read beyond the element {index}: it has too many faults."
    return Fault("too-many-faults", detail, f"/{index}", "rule 8", index)


def _mixed_versions(elements: Sequence[bytes]) -> list[Fault]:
    """Return a fault for each event of a batch whose specversion differs from the first one's."""
    versions = [_specversion(element) for element in elements]
    first = next((version for version in versions if version is not None), None)
    return [
        Fault(
            "mixed-specversions",
            f"{' '.join(version)} differs from the batch's first, {' '.join(first or ())}.",
            f"/{index}/{version[0]}",
            "I6",
            index,
        )
        for index, version in enumerate(versions)
        if version is not None and version != first
    ]


def _specversion(element: bytes) -> tuple[str, str] | None:
    """Return the name of the version attribute and its shortened value, or None. In version 0.1 the attribute
    may have one of two names."""
    try:
        members = json_text.members(element)
        texts = {name: text_of(members.get(name)) for name in ATTRIBUTES}
    except json_text.NOT_JSON:
        return None
    return next(((name, clip(text)) for name, text in texts.items() if text is not None), None)
