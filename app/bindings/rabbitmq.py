"""The RabbitMQ binding: strict when it writes, liberal when it reads. ``amqp_table`` has the header table.

The record's ``content_type`` is the AMQP property of that name. A body is never null, and an empty body is an
event without data, because AMQP cannot distinguish the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from app.bindings import profile as profiles
from app.bindings.amqp_table import KEY_HEADER
from app.bindings.content_coding import CONTENT
from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent, header_names
from app.bindings.layout import attribute_under, layouts, read_fast
from app.bindings.modes import WireType, wire_type
from app.bindings.older import older_headers
from app.bindings.profile import FaultTerms, Profile, header_escaper, strict
from app.bindings.reading import read
from app.bindings.reading_headers import no_text
from app.bindings.record import NO_NATIVES, ContentMode, Decoded, Header, Record, RecordForm
from app.bindings.spellings import NamingScheme, bare, nested, prefix_of, prefixed, spelling
from app.bindings.transcode import EncodeOptions, as_document, in_version, is_binary, stays_binary
from app.errors import Fault, InvalidEvent
from app.event.validate import clip, shorten
from app.event.value import CloudEvent
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "NotACloudEvent", "RabbitmqLeniency", "decode", "encode"]

SHORT_STRING = 255  # bytes of a header name or a content type (AMQP 0-9-1, 4.2.5.3)

_BINARY = ContentMode.BINARY

HEADERS = header_names("ce-")


class RabbitmqLeniency(profiles.Leniency, frozen=True):
    """The deviations from the RabbitMQ binding that are accepted in messages.

    Attributes:
        content_type: A header ``content-type``, if the property is missing.
        natives: Header values that are no strings.
        cloud_events: The prefixes ``cloudEvents:`` and ``cloudEvents_``, as AMQP 1.0 producers write them.
        unprefixed: Bare attribute names, as Knative's broker writes them, except names with ``x-``.
        nulls: A header with a null value counts as absent.
    """

    content_type: bool = True
    natives: bool = True
    cloud_events: bool = True
    unprefixed: bool = True
    nulls: bool = True


LIBERAL = RabbitmqLeniency()
STRICT = strict(RabbitmqLeniency)


def _spellings(leniency: RabbitmqLeniency) -> tuple[NamingScheme, ...]:
    """Return the naming schemes of attributes in AMQP headers, the binding's own scheme first, then the
    schemes that leniencies permit.
    """
    fold = leniency.any_case
    found = [spelling(prefixed("ce-", any_case=fold), lambda name: (HEADERS[name],))]
    if leniency.cloud_events:
        found.append(spelling(_cloud_events(any_case=fold), _cloud_events_headers))
    found.append(nested(("CE-",), any_case=fold))
    if leniency.unprefixed:
        found.append(bare(any_case=False))
    return tuple(found)


def _cloud_events(*, any_case: bool) -> Callable[[str], str | None]:
    """Return a function that maps header names under ``cloudEvents:`` or ``cloudEvents_`` to attribute names.
    Both prefixes are one naming scheme, so that different values of one attribute are a fault.
    """
    prefix = "cloudevents" if any_case else "cloudEvents"
    colon = prefixed(f"{prefix}:", any_case=any_case)
    underscore = prefixed(f"{prefix}_", any_case=any_case)

    def attribute(header: str) -> str | None:
        name = colon(header)
        return underscore(header) if name is None else name

    return attribute


def _cloud_events_headers(name: str) -> Sequence[str]:
    return (f"cloudEvents:{name}", f"cloudEvents_{name}")


def _content_types(leniency: RabbitmqLeniency) -> tuple[Callable[[str], bool], ...]:
    return (lambda name: name.lower() == "content-type",) if leniency.content_type else ()


FOREIGN = header_escaper(_spellings(LIBERAL), _content_types(LIBERAL), frozenset({KEY_HEADER}))


LAYOUTS = layouts(attribute_under("ce-"), None, FOREIGN.read_name)
"""A cache of header layouts for records with the headers that Skybridge writes. The content type is a
property, not a header."""

_WORDS = FaultTerms(
    place="header",
    prefix="ce-",
    typed_at="property content_type",
    content_type="R3",
    document="R5",
    values="R9",
    one_type="R6",
)


@cache
def profile(leniency: RabbitmqLeniency) -> Profile:
    """Return the rules by which RabbitMQ's records are read with these leniencies."""
    return Profile(
        _WORDS,
        leniency,
        _spellings(leniency),
        _content_types(leniency),
        FOREIGN,
        natives=leniency.natives,
        nulls=leniency.nulls,
    )


def encode(decoded: Decoded, writing: EncodeOptions, key: bytes | None) -> Record:
    """Return the record of one event. Foreign headers follow the event's own headers, with their typed values.

    Foreign names that are too long for AMQP are dropped. The message id is the event's id, if it fits. The
    caller computes the record key, which is not written into the event.

    Raises:
        SenderError: The event format cannot hold the event.
        InvalidEvent: A header name or the content type is longer than AMQP can carry.
    """
    decoded = in_version(decoded, writing.version)
    content_type: str | None
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event), decoded.event.data or b""
        content_type = content_type_of(decoded.event)
    else:
        body, content_type = as_document(decoded, writing)
        headers = _binary_headers(decoded.event) if decoded.opaque else []  # mirrored attributes
    faults = list(_too_long(headers, content_type))
    if faults:
        raise InvalidEvent(faults)
    if decoded.foreign:
        headers += [each for each in FOREIGN.written(decoded.foreign) if _fits(each[0])]
    natives = FOREIGN.typed(decoded.natives, headers)
    identity = decoded.event.attributes.get("id", "")
    message_id = identity if identity and _fits(identity) else None
    return Record(key, tuple(headers), body, content_type, natives, message_id)


def record_form(
    names: tuple[str, ...],
    content_type: str | None,
    writing: EncodeOptions,
    foreign: Sequence[Header] = (),
) -> RecordForm | None:
    """Return the function that makes the same records as ``encode`` of events that arrived in binary mode.

    Return None if the events must be encoded one by one. The arguments are those of ``kafka.record_form``.
    """
    header_names = tuple([HEADERS[name] for name in names])
    empty_headers: list[Header] = [(name, b"") for name in header_names]
    if not stays_binary(content_type, writing) or [*_too_long(empty_headers, content_type)]:
        return None
    headers = tuple([each for each in FOREIGN.written(foreign) if _fits(each[0])])
    at = names.index("id")

    def form(key: bytes | None, values: Sequence[bytes], body: bytes) -> Record:
        own = tuple(zip(header_names, values))  # noqa: B905 - equal lengths, and hot
        identity = values[at]
        message_id = identity.decode() if len(identity) <= SHORT_STRING else None
        return Record(key, own + headers, body, content_type, NO_NATIVES, message_id)

    return form


def _binary_headers(event: CloudEvent) -> list[Header]:
    if event.version != NEWEST:
        prefix = prefix_of(VERSIONS[event.version], "ce-")
        return [(prefix + name, text.encode()) for name, text in older_headers(event)]
    return [
        (HEADERS[name], text.encode())  # every value is written as a string
        for name, text in event.attributes.items()
        if name != "datacontenttype"  # a property, never ce-datacontenttype
    ]


def _fits(text: str) -> bool:
    if 4 * len(text) <= SHORT_STRING:  # at most four bytes per character
        return True
    return len(text.encode("utf-8", "surrogatepass")) <= SHORT_STRING


def _too_long(headers: Iterable[Header], content_type: str | None) -> Iterable[Fault]:
    for header, _ in headers:
        if len(header) > SHORT_STRING:  # attribute names are ASCII
            detail = f"The header name {clip(header)} is longer than {SHORT_STRING} bytes: use structured mode."
            yield Fault("name-too-long", detail, f"header {shorten(header)}", "AMQP 4.2.5.3")
    if (
        content_type is not None
        and len(content_type.encode("utf-8", "surrogateescape")) > SHORT_STRING
    ):
        detail = f"The content type {clip(content_type)} is longer than {SHORT_STRING} bytes."
        yield Fault("content-type-too-long", detail, "property content_type", "AMQP 4.2.5.3")


def decode(
    record: Record, leniency: RabbitmqLeniency = LIBERAL, *, bound: int = CONTENT
) -> Decoded:
    """Return the event in a record.

    Raises:
        InvalidEvent: The event has faults, all of which are listed.
        NotACloudEvent: The record is no CloudEvent.
        SenderError: The format is refused (415), or the body is too large after decompression (413).
    """
    if KEY_HEADER in record.natives:
        at = f"header {KEY_HEADER}"
        raise InvalidEvent([no_text(at, record.natives[KEY_HEADER], _WORDS.values)])
    plain = None if record.natives else _read_plainly(record)
    return plain or read(record, profile(leniency), bound)


def _read_plainly(record: Record) -> Decoded | None:
    """Return the binary event of a record in the form that Skybridge writes. Return None if the slower
    ``reading.read`` must decode the record.
    """
    return read_fast(record, LAYOUTS, record.body or None, _property(record))


def _property(record: Record) -> WireType | None:
    text = record.content_type
    return wire_type(text.encode("utf-8", "surrogateescape")) if text is not None else None
