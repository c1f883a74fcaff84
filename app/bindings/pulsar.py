"""The Pulsar binding: strict when it writes, liberal when it reads. A Pulsar property is a header of the
neutral record.

The binding was written for version 0.1, so events of this version have its names (``CE-EventID``). Attributes
of other versions are named in the same manner (``CE-Id``), and extensions have the prefix ``CE-X-``.
``pulsar_properties`` converts keys and properties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache

from app.bindings import profile as profiles
from app.bindings.content_coding import CONTENT
from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent, header_names
from app.bindings.layout import layouts, read_fast
from app.bindings.older import older_headers
from app.bindings.profile import FaultTerms, Profile, header_escaper, strict
from app.bindings.pulsar_properties import KEY_ENCODING
from app.bindings.reading import read
from app.bindings.record import ContentMode, Decoded, Header, Record, RecordForm
from app.bindings.spellings import NamingScheme, bare, nested, nested_name, prefixed, spelling
from app.bindings.transcode import EncodeOptions, as_document, in_version, is_binary, stays_binary
from app.bindings.values import quote, read_json
from app.event.memo import Memo
from app.event.upgrade import own_attributes
from app.event.value import AttributeType, CloudEvent
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "NotACloudEvent", "PulsarLeniency", "decode", "encode"]

_BINARY = ContentMode.BINARY
_STRING = AttributeType.STRING

CORE = VERSIONS[NEWEST].rules
CONTENT_TYPE = "CE-ContentType"
_CONTENT_TYPE = CONTENT_TYPE.lower()


class PulsarLeniency(profiles.Leniency, frozen=True):
    """The deviations from the Pulsar binding that are accepted in messages.

    ``CE-Myext`` and ``CE-X-Id`` are accepted always. The binding defines names by examples only, and a
    producer cannot know which attributes the reader's version has. If both forms are present, the form that
    Skybridge writes counts.

    Attributes:
        kafka_names: The prefix ``ce_``, and ``content-type``.
        unprefixed: Bare attribute names, and ``content_type``.
        quoted: Values as JSON, in messages whose ``specversion`` is in quotes.
    """

    kafka_names: bool = True
    unprefixed: bool = True
    quoted: bool = True


LIBERAL = PulsarLeniency()
STRICT = strict(PulsarLeniency)


def pulsar_name(name: str, *, core: bool) -> str:
    """Return the property name of an attribute: its first letter is a capital, as in all examples of the binding."""
    return nested_name("CE-" if core else "CE-X-", name)


def _pulsar_attribute(header: str, *, any_case: bool) -> str | None:
    """Return the attribute of a property name, or None. ``CE-ContentType`` is not an attribute, because it
    has the media type of the data or document.
    """
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


def _spellings(leniency: PulsarLeniency) -> tuple[NamingScheme, ...]:
    """Return the naming schemes of attributes in properties, the binding's own scheme first, then the schemes
    that leniencies permit.

    In version 0.1 the names are those of the original Pulsar binding, such as ``CE-SchemaURI``.
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


def _content_types(leniency: PulsarLeniency) -> tuple[Callable[[str], bool], ...]:
    found: list[Callable[[str], bool]] = [CONTENT_TYPE.__eq__]
    if leniency.any_case:
        found.append(lambda name: name.lower() == _CONTENT_TYPE)
    if leniency.kafka_names:
        found.append(lambda name: name.lower() == "content-type")
    if leniency.unprefixed:
        found.append(lambda name: name.lower() == "content_type")
    return tuple(found)


FOREIGN = header_escaper(_spellings(LIBERAL), _content_types(LIBERAL), frozenset({KEY_ENCODING}))


def _attribute(header: str) -> str | None:
    if header[:1] not in "cC":
        return None
    name = _EXACT[header]
    return "" if name == "datacontenttype" else name


LAYOUTS = layouts(_attribute, CONTENT_TYPE, FOREIGN.read_name)
"""A cache of header layouts for records with the properties that Skybridge writes."""

_WORDS = FaultTerms(
    place="property",
    prefix="CE-",
    typed_at=f"property {CONTENT_TYPE}",
    content_type="P3",
    document="P4",
    values="P6",
    one_type="P3",
)


@cache
def profile(leniency: PulsarLeniency) -> Profile:
    """Return the rules by which Pulsar's records are read with these leniencies."""
    return Profile(
        _WORDS,
        leniency,
        _spellings(leniency),
        _content_types(leniency),
        FOREIGN,
        quoted=read_json if leniency.quoted else None,
    )


def encode(decoded: Decoded, writing: EncodeOptions, key: bytes | None) -> Record:
    """Return the record of one event. Foreign headers follow the event's own properties.

    The event's ``time`` becomes the event time of the message. The caller computes the record key, which is
    not written into the event.

    Args:
        decoded: The event.
        writing: The encoding options. The option ``names`` with ``ce_`` writes the names that Kafka clients
            see over Pulsar, with ``content-type``. ``strings`` with ``json`` puts strings in quotes, as the
            binding's text demands. ``empty_body`` with ``null`` writes no payload, which compaction takes for
            a deletion.
        key: The record key.

    Raises:
        SenderError: The event format cannot hold the event.
    """
    decoded = in_version(decoded, writing.version)
    body: bytes | None
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event, writing), decoded.event.data
        if body is None and writing.empty_body != "null":
            body = b""
    else:
        body, media_type = as_document(decoded, writing)
        headers = _binary_headers(decoded.event, writing) if decoded.opaque else []
        headers.append((_content_type_name(writing), media_type.encode()))
    if decoded.foreign:
        headers += FOREIGN.written(decoded.foreign)
    return Record(
        key, tuple(headers), body, time_ms=_event_time(decoded.event.attributes.get("time"))
    )


def record_form(
    names: tuple[str, ...],
    content_type: str | None,
    writing: EncodeOptions,
    foreign: Sequence[Header] = (),
) -> RecordForm | None:
    """Return the function that makes the same records as ``encode`` of events that arrived in binary mode.

    Return None if the events must be encoded one by one. The arguments are those of ``kafka.record_form``.
    """
    if not stays_binary(content_type, writing) or writing.strings == "json":
        return None
    known = NAMES if writing.names == "CE-" else KAFKA_NAMES
    header_names = tuple([known[name] for name in names])
    typed = () if content_type is None else ((_content_type_name(writing), content_type.encode()),)
    headers = (*typed, *FOREIGN.written(foreign))
    empty = None if writing.empty_body == "null" else b""
    at = names.index("time") if "time" in names else None

    def form(key: bytes | None, values: Sequence[bytes], body: bytes) -> Record:
        own = tuple(zip(header_names, values))  # noqa: B905 - equal lengths, and hot
        moment = None if at is None else _event_time(values[at].decode())
        return Record(key, own + headers, body or empty, time_ms=moment)

    return form


def _event_time(text: str | None) -> int | None:
    """Return the event's ``time`` in ms since 1970, for the event time of the message. The attribute keeps
    its text.

    Return None if the event has no time, or a time in a leap second, which a clock cannot show.
    """
    if text is None:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None


def _content_type_name(writing: EncodeOptions) -> str:
    return CONTENT_TYPE if writing.names == "CE-" else "content-type"


def _binary_headers(event: CloudEvent, writing: EncodeOptions) -> list[Header]:
    older = event.version != NEWEST
    headers = _older_headers(event, writing) if older else _newest_headers(event, writing)
    content_type = content_type_of(event)
    if content_type is not None:
        text = quote(content_type) if writing.strings == "json" else content_type
        headers.append((_content_type_name(writing), text.encode()))
    return headers


def _newest_headers(event: CloudEvent, writing: EncodeOptions) -> list[Header]:
    names = NAMES if writing.names == "CE-" else KAFKA_NAMES
    if writing.strings == "bare":
        return [
            (names[name], text.encode())
            for name, text in event.attributes.items()
            if name != "datacontenttype"
        ]
    return [
        (names[name], (quote(text) if event.types.get(name, _STRING) is _STRING else text).encode())
        for name, text in event.attributes.items()
        if name != "datacontenttype"
    ]


def _older_headers(event: CloudEvent, writing: EncodeOptions) -> list[Header]:
    """Return the properties of an event in its own older version. In 0.1 and 0.2 the text of a property is
    JSON already."""
    version = VERSIONS[event.version]
    bare = version.quoted or writing.strings == "bare"
    typed = {own.name for own in own_attributes(event) if own.type is not _STRING}
    headers: list[Header] = []
    for name, text in older_headers(event):
        if version.nested:
            entry = name.removeprefix("X-")
            header = pulsar_name(entry, core=entry == name)  # CE-X-TestExtension
        elif writing.names == "ce_":
            header = KAFKA_NAMES[name]
        else:
            header = pulsar_name(name, core=name in version.rules)
        headers.append((header, (text if bare or name in typed else quote(text)).encode()))
    return headers


def decode(record: Record, leniency: PulsarLeniency = LIBERAL, *, bound: int = CONTENT) -> Decoded:
    """Return the event in a record. An empty or null payload is an event without data.

    Raises:
        InvalidEvent: The event has faults, all of which are listed.
        NotACloudEvent: The record is no CloudEvent.
        SenderError: The format is refused (415), or the body is too large after decompression (413).
    """
    return _read_plainly(record) or read(record, profile(leniency), bound)


def _read_plainly(record: Record) -> Decoded | None:
    """Return the binary event of a record in the form that Skybridge writes. Return None if the slower
    ``reading.read`` must decode the record.
    """
    return read_fast(record, LAYOUTS, record.body or None)
