"""The Pulsar binding (P1-P7): strict on write, liberal on read. Keys and properties as Pulsar has
them are in ``pulsar_properties``; here a property is a header of the record.

The binding was written for version 0.1, whose events go under its own names (``CE-EventID``); an
attribute of another version is named in the same manner (``CE-Id``), an extension under ``CE-X-``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache

from app.bindings import profile as profiles
from app.bindings.content_coding import CONTENT
from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent, header_names
from app.bindings.layout import layouts, read_plainly
from app.bindings.older import older_headers
from app.bindings.profile import Profile, Words, apart_from, strict
from app.bindings.pulsar_properties import KEY_ENCODING
from app.bindings.reading import read
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.spellings import Spelling, bare, nested, nested_name, prefixed, spelling
from app.bindings.transcode import Writing, as_document, in_version, is_binary
from app.bindings.values import quote, read_json
from app.event.memo import Memo
from app.event.upgrade import own_attributes
from app.event.value import AttributeType, CloudEvent
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "Leniency", "NotACloudEvent", "decode", "encode"]

_BINARY = ContentMode.BINARY
_STRING = AttributeType.STRING

CORE = VERSIONS[NEWEST].rules
CONTENT_TYPE = "CE-ContentType"
_CONTENT_TYPE = CONTENT_TYPE.lower()


class Leniency(profiles.Leniency, frozen=True):
    """What is read of this broker's messages although the binding does not say so.

    ``kafka_names``  prefix ``ce_``, and ``content-type``.
    ``unprefixed``   bare names, and ``content_type``.
    ``quoted``       values as JSON, in messages whose ``specversion`` is in quotes.

    Not a leniency: ``CE-Myext`` and ``CE-X-Id`` are read however strictly. The binding shows names by
    examples only, and who writes them cannot know which attributes the reader's version holds for core;
    where both are there, the one that we would write counts.
    """

    kafka_names: bool = True
    unprefixed: bool = True
    quoted: bool = True


LIBERAL = Leniency()
STRICT = strict(Leniency)


def pulsar_name(name: str, *, core: bool) -> str:
    """P5: a capital after the prefix, as in all its examples."""
    return nested_name("CE-" if core else "CE-X-", name)


def _pulsar_attribute(header: str, *, any_case: bool) -> str | None:
    """``CE-ContentType`` is none: it is the data's type or the document's, as the mode has it."""
    lower = header.lower()
    if not lower.startswith("ce-") or lower == _CONTENT_TYPE:
        return None
    name = lower.removeprefix("ce-").removeprefix("x-")
    spelled = (pulsar_name(name, core=True), pulsar_name(name, core=False))
    return name if any_case or header in spelled else None


NAMES: Memo[str, str] = Memo(
    lambda name: CONTENT_TYPE if name == "datacontenttype" else pulsar_name(name, core=name in CORE)
)
KAFKA_NAMES = header_names("ce_")
_EXACT: Memo[str, str] = Memo(lambda header: _pulsar_attribute(header, any_case=False) or "")


def _spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """In the order of 4.6: the binding's own, then the others that are let in. The binding was written
    for 0.1: its names of that version's attributes are the seed's, ``schemaURI`` among them.
    """
    fold = leniency.any_case
    found = [
        spelling(lambda name: _pulsar_attribute(name, any_case=fold), lambda name: (NAMES[name],))
    ]
    if leniency.kafka_names:
        found.append(spelling(prefixed("ce_", any_case=fold), lambda name: (KAFKA_NAMES[name],)))
    found.append(
        nested(
            ("CE-",),
            any_case=fold,
            others={"schemauri": "schemaURL"},
            apart=_CONTENT_TYPE,
            capitals=True,
        )
    )
    if leniency.unprefixed:
        found.append(bare(any_case=fold))
    return tuple(found)


def _content_types(leniency: Leniency) -> tuple[Callable[[str], bool], ...]:
    found: list[Callable[[str], bool]] = [CONTENT_TYPE.__eq__]
    if leniency.any_case:
        found.append(lambda name: name.lower() == _CONTENT_TYPE)
    if leniency.kafka_names:
        found.append(lambda name: name.lower() == "content-type")
    if leniency.unprefixed:
        found.append(lambda name: name.lower() == "content_type")
    return tuple(found)


FOREIGN = apart_from(_spellings(LIBERAL), _content_types(LIBERAL), frozenset({KEY_ENCODING}))


def _attribute(header: str) -> str | None:
    if header[:1] not in "cC":
        return None
    name = _EXACT[header]
    return "" if name == "datacontenttype" else name


LAYOUTS = layouts(_attribute, CONTENT_TYPE, FOREIGN.read_name)
"""Of events as we write them."""

_WORDS = Words(
    place="property",
    prefix="CE-",
    typed_at=f"property {CONTENT_TYPE}",
    content_type="P3",
    document="P4",
    values="P6",
    one_type="P3",
)


@cache
def profile(leniency: Leniency) -> Profile:
    return Profile(
        _WORDS,
        leniency,
        _spellings(leniency),
        _content_types(leniency),
        FOREIGN,
        quoted=read_json if leniency.quoted else None,
    )


def encode(decoded: Decoded, writing: Writing, key: bytes | None) -> Record:
    """The record of one event, with what is foreign after its own properties (I3). The key is the
    caller's affair and never touches the event.

    ``names``    ``CE-``, or ``ce_`` with ``content-type``, as Kafka clients see them over Pulsar.
    ``strings``  ``bare``, or ``json``: in quotes, P6 to the letter.
    ``empty_body``  an empty payload unless it says null, which compaction takes for a deletion.

    The event's ``time`` becomes the event time of the message.

    Raises SenderError where a format cannot hold the event.
    """
    decoded = in_version(decoded, writing.version)
    body: bytes | None
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event, writing), decoded.event.data  # P4
        if body is None and writing.empty_body != "null":
            body = b""
    else:
        body, media_type = as_document(decoded, writing)
        headers = _binary_headers(decoded.event, writing) if decoded.opaque else []  # (4.7)
        headers.append((_content_type_name(writing), media_type.encode()))  # P3, P7
    if decoded.foreign:
        headers += FOREIGN.written(decoded.foreign)
    return Record(key, tuple(headers), body, time_ms=_event_time(decoded.event))


def _event_time(event: CloudEvent) -> int | None:
    """``time`` as the event time of the message, in milliseconds (4.3, optional). None for what no
    clock shows: a leap second, or no time at all. The attribute itself keeps its text."""
    text = event.attributes.get("time")
    if text is None:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None


def _content_type_name(writing: Writing) -> str:
    return CONTENT_TYPE if writing.names == "CE-" else "content-type"


def _binary_headers(event: CloudEvent, writing: Writing) -> list[Header]:
    older = event.version != NEWEST
    headers = _older_headers(event, writing) if older else _newest_headers(event, writing)
    content_type = content_type_of(event)
    if content_type is not None:
        text = quote(content_type) if writing.strings == "json" else content_type
        headers.append((_content_type_name(writing), text.encode()))
    return headers


def _newest_headers(event: CloudEvent, writing: Writing) -> list[Header]:
    names = NAMES if writing.names == "CE-" else KAFKA_NAMES
    if writing.strings == "bare":
        return [
            (names[name], text.encode())  # P5, P6
            for name, text in event.attributes.items()
            if name != "datacontenttype"
        ]
    return [
        (names[name], (quote(text) if event.types.get(name, _STRING) is _STRING else text).encode())
        for name, text in event.attributes.items()
        if name != "datacontenttype"
    ]


def _older_headers(event: CloudEvent, writing: Writing) -> list[Header]:
    """The properties of the event's own version. In 0.1 and 0.2 a header's text is JSON already."""
    version = VERSIONS[event.version]
    bare = version.quoted or writing.strings == "bare"
    told = {own.name for own in own_attributes(event) if own.type is not _STRING}
    headers: list[Header] = []
    for name, text in older_headers(event):
        if version.nested:
            entry = name.removeprefix("X-")
            header = pulsar_name(entry, core=entry == name)  # P5: CE-X-TestExtension
        elif writing.names == "ce_":
            header = KAFKA_NAMES[name]
        else:
            header = pulsar_name(name, core=name in version.rules)
        headers.append((header, (text if bare or name in told else quote(text)).encode()))
    return headers


def decode(record: Record, leniency: Leniency = LIBERAL, *, bound: int = CONTENT) -> Decoded:
    """The event in a record. An empty payload, like a null one, is an event without data.

    Raises InvalidEvent with every fault, NotACloudEvent, and SenderError (415) for formats that are
    refused.
    """
    return _read_plainly(record) or read(record, profile(leniency), bound)


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    return read_plainly(record, LAYOUTS, record.body or None)
