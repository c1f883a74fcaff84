"""The general reader of records, for all brokers.

It decides in this order: content type, the binding's attribute names, other names, the names of version 0.1,
then a look into the body. ``reading_headers`` reads binary mode, ``reading_documents`` structured and batched
mode. A ``Profile`` holds what differs between brokers.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from app.bindings.content_coding import CONTENT, without_coding
from app.bindings.headers import NotACloudEvent
from app.bindings.modes import WireType, wire_type
from app.bindings.profile import Profile
from app.bindings.reading_documents import (
    holds_event,
    is_readable,
    mirrored_event,
    named_in,
    no_document,
    opaque_document,
    read_document,
    read_unnamed_document,
)
from app.bindings.reading_headers import (
    Headers,
    attributes_given,
    claims,
    no_text,
    read_headers,
    without_quotes,
)
from app.bindings.record import NO_NATIVES, ContentMode, Decoded, Record
from app.bindings.spellings import NamingScheme, first_claiming, first_complete
from app.bindings.values import Value, native_text, unquote
from app.errors import Fault, InvalidEvent
from app.event.value import CloudEvent

_BINARY, _BATCH = ContentMode.BINARY, ContentMode.BATCH
NAMES = ("id", "source", "type")
"""The attributes by which operators search for an event."""


def read(record: Record, profile: Profile, bound: int = CONTENT) -> Decoded:
    """Return the event in a record, after its content coding is undone.

    Args:
        record: The record to read.
        profile: The rules by which records of this broker are read.
        bound: The most bytes that the decoded body may have.

    Raises:
        InvalidEvent: The event has faults, all of which are listed.
        NotACloudEvent: The record is no CloudEvent.
        SenderError: A content coding or format is refused (415), or the body exceeds ``bound`` (413).
    """
    record = without_coding(record, bound)
    headers = _values(record)
    wire = _wire(record, headers, profile)
    if (
        wire is not None and wire.mode is not _BINARY
    ):  # the content type beats mirrored headers, in every binding
        return _read_document(record, headers, wire, profile)
    names = [name for name, value in headers if value is not None]
    chosen = first_complete(profile.spellings, names)
    if (
        chosen is None
        and profile.leniency.sniff
        and holds_event(wire.text if wire else None, record.body)
    ):
        decoded = read_unnamed_document(record.body or b"")
        return _with_foreign(decoded, record, headers, profile.spellings[0], profile)
    chosen = chosen or first_claiming(profile.spellings, names)
    if chosen is None:
        raise NotACloudEvent(
            f"Not a CloudEvent: no {profile.words.prefix} {profile.words.place}, and no content type of the family"
        )
    decoded = Decoded(read_headers(record, headers, wire, chosen, profile), _BINARY)
    return _with_foreign(decoded, record, headers, chosen, profile)


def names_in(record: Record, profile: Profile) -> Mapping[str, str]:
    """Return id, source and type of a record that is no valid event, for searches. Attributes that cannot be
    read are left out.

    Attributes in a document take precedence over headers, as in valid events.
    """
    headers = _values(record)
    try:
        wire = _wire(record, headers, profile)
    except InvalidEvent:
        wire = None
    names = [name for name, value in headers if value is not None]
    chosen = first_complete(profile.spellings, names) or first_claiming(profile.spellings, names)
    found: dict[str, str] = {}
    if chosen is not None:
        given, _ = without_quotes(attributes_given(chosen, headers, profile)[0], profile)
        found |= {each.name: each.text for each in given}
    is_document = wire is not None and wire.mode is not _BINARY
    if record.body and (is_document or chosen is None):
        found |= named_in(wire, record.body)
    return {name: found[name] for name in NAMES if found.get(name)}


def _values(record: Record) -> Headers:
    """Return the headers of a record. A typed value replaces the text of a header if the broker has typed
    values."""
    if not record.natives:
        return record.headers
    found: list[tuple[str, Value | None]] = []
    for name, text in record.headers:
        native = record.natives.get(name)
        if isinstance(native, bytes):  # a bytearray, so that it differs from the bytes of a string
            found.append((name, bytearray(native)))
        else:
            found.append((name, text if native is None else native))
    return found


def _wire(record: Record, headers: Headers, profile: Profile) -> WireType | None:
    """Return the content type: the broker's property, or the header with the most preferred name."""
    if record.content_type is not None:
        return wire_type(record.content_type.encode("utf-8", "surrogateescape"))
    for is_content_type in profile.content_types:
        named = [(name, value) for name, value in headers if is_content_type(name)]
        for name, value in named:
            if not isinstance(value, bytes | None) and native_text(value) is None:
                at = f"{profile.words.place} {name}"
                raise InvalidEvent([no_text(at, value, profile.words.content_type)])
        found = {_unquoted(value, profile) for _, value in named if isinstance(value, bytes)}
        if len(found) > 1 or (found and len(named) > 1 and not profile.leniency.repeats):
            at = f"{profile.words.place} {named[0][0]}"
            detail = f"{at} is given more than once{', with different values' * (len(found) > 1)}."
            raise InvalidEvent(
                [Fault("repeated-attribute", detail, at, profile.words.content_type)]
            )
        if found:
            return wire_type(found.pop())
    return None


def _unquoted(value: bytes, profile: Profile) -> bytes:
    """Return a content type without JSON quotes. No media type starts with a quote, so the quote is unambiguous."""
    if profile.quoted is None or value[:1] != b'"':
        return value
    return unquote(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _read_document(record: Record, headers: Headers, wire: WireType, profile: Profile) -> Decoded:
    """Return the event of a record in structured mode. Copies of the attributes in headers are ignored."""
    body = record.body
    names = [name for name, value in headers if value is not None]
    claiming = [each for each in profile.spellings if each.claims]
    chosen = (
        first_complete(claiming, names) or first_claiming(claiming, names) or profile.spellings[0]
    )
    if not is_readable(wire, body or b"") or wire.mode is _BATCH:  # no broker binding has batches
        mirrored = _mirrored(chosen, headers, profile)
        opaque = _document(body, profile, empty=True)
        decoded = opaque_document(wire, opaque, mirrored, profile.words.typed_at)
    else:
        decoded = read_document(wire, _document(body, profile), profile.words.typed_at)
    return _with_foreign(decoded, record, headers, chosen, profile)


def _document(body: bytes | None, profile: Profile, *, empty: bool = False) -> bytes:
    if body or (empty and body is not None):
        return body
    raise no_document(profile.words.document)


def _mirrored(chosen: NamingScheme, headers: Headers, profile: Profile) -> CloudEvent:
    given, _ = attributes_given(chosen, headers, profile)
    given, _ = without_quotes(given, profile)
    return mirrored_event((each.name, each.text) for each in given)


def _with_foreign(
    decoded: Decoded, record: Record, headers: Headers, chosen: NamingScheme, profile: Profile
) -> Decoded:
    """Return the event with its foreign headers. These are the headers that are not attributes. Null values
    and repeated headers are kept."""
    # with the broker's property, a content-type header is not read, and so is foreign
    types = profile.content_types if record.content_type is None else ()
    others = [
        header
        for header, (name, value) in zip(record.headers, headers, strict=True)
        if not claims(chosen, name, value) and not any(of(name) for of in types)
    ]
    if not others:
        return decoded
    foreign = profile.apart.read(others)
    natives = {
        name: record.natives[as_sent]
        for (as_sent, _), (name, _) in zip(others, foreign, strict=True)
        if as_sent in record.natives
    }
    return replace(decoded, foreign=foreign, natives=natives or NO_NATIVES)
