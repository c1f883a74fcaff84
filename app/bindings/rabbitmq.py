"""The RabbitMQ binding (R1-R11): strict on write, liberal on read. The header table and its types are
in ``amqp_table``.

The record's ``content_type`` is the property of that name; a body is never null, and an empty one is
an event without data, for AMQP cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from app.bindings import profile as profiles
from app.bindings.amqp_table import KEY_HEADER
from app.bindings.content_coding import CONTENT
from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent, header_names
from app.bindings.layout import attribute_under, layouts, read_plainly
from app.bindings.modes import WireType, wire_type
from app.bindings.older import older_headers
from app.bindings.profile import Profile, Words, apart_from, strict
from app.bindings.reading import read
from app.bindings.reading_headers import no_text
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.spellings import Spelling, bare, nested, prefix_of, prefixed, spelling
from app.bindings.transcode import Writing, as_document, in_version, is_binary
from app.errors import Fault, InvalidEvent
from app.event.validate import clip, shorten
from app.event.value import CloudEvent
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "Leniency", "NotACloudEvent", "decode", "encode"]

SHORT_STRING = 255  # bytes of a header name or a content type (AMQP 0-9-1, 4.2.5.3)

_BINARY = ContentMode.BINARY

HEADERS = header_names("ce-")  # R8


class Leniency(profiles.Leniency, frozen=True):
    """What is read of this broker's messages although the binding does not say so.

    ``content_type``  header ``content-type``, where the property is missing.
    ``natives``       header values that are no strings (R9).
    ``cloud_events``  prefixes ``cloudEvents:`` and ``cloudEvents_``, as AMQP 1.0 producers write.
    ``unprefixed``    bare names, as Knative's broker writes, ``x-`` headers aside.
    ``nulls``         a header with a null value, for one that is not there.
    """

    content_type: bool = True
    natives: bool = True
    cloud_events: bool = True
    unprefixed: bool = True
    nulls: bool = True


LIBERAL = Leniency()
STRICT = strict(Leniency)


def _spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """In the order of 4.6: the binding's prefix, then the others that are let in."""
    fold = leniency.any_case
    found = [spelling(prefixed("ce-", any_case=fold), lambda name: (HEADERS[name],))]
    if leniency.cloud_events:
        found.append(spelling(_cloud_events(any_case=fold), _cloud_events_headers))
    found.append(nested(("CE-",), any_case=fold))
    if leniency.unprefixed:
        found.append(bare(any_case=False))
    return tuple(found)


def _cloud_events(*, any_case: bool) -> Callable[[str], str | None]:
    """Both separators of the AMQP 1.0 binding; they are one spelling, so that they must agree."""
    prefix = "cloudevents" if any_case else "cloudEvents"
    colon = prefixed(f"{prefix}:", any_case=any_case)
    underscore = prefixed(f"{prefix}_", any_case=any_case)

    def attribute(header: str) -> str | None:
        name = colon(header)
        return underscore(header) if name is None else name

    return attribute


def _cloud_events_headers(name: str) -> Sequence[str]:
    return (f"cloudEvents:{name}", f"cloudEvents_{name}")


def _content_types(leniency: Leniency) -> tuple[Callable[[str], bool], ...]:
    return (lambda name: name.lower() == "content-type",) if leniency.content_type else ()


FOREIGN = apart_from(_spellings(LIBERAL), _content_types(LIBERAL), frozenset({KEY_HEADER}))


LAYOUTS = layouts(attribute_under("ce-"), None, FOREIGN.read_name)
"""Of events as we write them: the content type is a property."""

_WORDS = Words(
    place="header",
    prefix="ce-",
    typed_at="property content_type",
    content_type="R3",
    document="R5",
    values="R9",
    one_type="R6",
)


@cache
def profile(leniency: Leniency) -> Profile:
    return Profile(
        _WORDS,
        leniency,
        _spellings(leniency),
        _content_types(leniency),
        FOREIGN,
        natives=leniency.natives,
        nulls=leniency.nulls,
    )


def encode(decoded: Decoded, writing: Writing, key: bytes | None) -> Record:
    """The record of one event, with what is foreign after its own headers (I3); foreign names that are
    too long for AMQP stay behind, and typed values go on as they came. Its message id is the event's,
    where that fits. The key is the caller's affair and never touches the event.

    Raises SenderError where a format cannot hold the event, and InvalidEvent for a name or content
    type that is longer than AMQP can carry.
    """
    decoded = in_version(decoded, writing.version)
    content_type: str | None
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event), decoded.event.data or b""  # R5
        content_type = content_type_of(decoded.event)  # R4
    else:
        body, content_type = as_document(decoded, writing)  # R10
        headers = _binary_headers(decoded.event) if decoded.opaque else []  # mirrored (4.7)
    faults = list(_too_long(headers, content_type))
    if faults:
        raise InvalidEvent(faults)
    if decoded.foreign:
        headers += [each for each in FOREIGN.written(decoded.foreign) if _fits(each[0])]
    natives = FOREIGN.typed(decoded.natives, headers)
    identity = decoded.event.attributes.get("id", "")
    message_id = identity if identity and _fits(identity) else None
    return Record(key, tuple(headers), body, content_type, natives, message_id)


def _binary_headers(event: CloudEvent) -> list[Header]:
    if event.version != NEWEST:
        prefix = prefix_of(VERSIONS[event.version], "ce-")
        return [(prefix + name, text.encode()) for name, text in older_headers(event)]
    return [
        (HEADERS[name], text.encode())  # R6, R8, R9: every value as a string
        for name, text in event.attributes.items()
        if name != "datacontenttype"  # R4: a property, never ce-datacontenttype
    ]


def _fits(text: str) -> bool:
    if 4 * len(text) <= SHORT_STRING:  # at most four bytes a character
        return True
    return len(text.encode("utf-8", "surrogatepass")) <= SHORT_STRING


def _too_long(headers: Iterable[Header], content_type: str | None) -> Iterable[Fault]:
    for header, _ in headers:
        if len(header) > SHORT_STRING:  # names of attributes are ASCII
            detail = f"The header name {clip(header)} is longer than {SHORT_STRING} bytes: use structured mode."
            yield Fault("name-too-long", detail, f"header {shorten(header)}", "AMQP 4.2.5.3")
    if (
        content_type is not None
        and len(content_type.encode("utf-8", "surrogateescape")) > SHORT_STRING
    ):
        detail = f"The content type {clip(content_type)} is longer than {SHORT_STRING} bytes."
        yield Fault("content-type-too-long", detail, "property content_type", "AMQP 4.2.5.3")


def decode(record: Record, leniency: Leniency = LIBERAL, *, bound: int = CONTENT) -> Decoded:
    """The event in a record. Raises InvalidEvent with every fault, NotACloudEvent, and SenderError
    (415) for formats that are refused.
    """
    if KEY_HEADER in record.natives:
        at = f"header {KEY_HEADER}"
        raise InvalidEvent([no_text(at, record.natives[KEY_HEADER], _WORDS.values)])
    plain = None if record.natives else _read_plainly(record)
    return plain or read(record, profile(leniency), bound)


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    return read_plainly(record, LAYOUTS, record.body or None, _property(record))


def _property(record: Record) -> WireType | None:
    text = record.content_type
    return wire_type(text.encode("utf-8", "surrogateescape")) if text is not None else None
