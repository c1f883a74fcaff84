"""The HTTP binding (H1-H13): requests to events, and events to webhook requests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from app.bindings import documents
from app.bindings.documents import content_type_of
from app.bindings.forwarding import TAKEN_NAMES, forwarded
from app.bindings.headers import (
    PLAIN,
    attribute_names,
    header_names,
    percent_encode,
    percent_encode_json,
)
from app.bindings.http_closely import (
    Pairs,
    demand_media_type,
    demand_one_type,
    mirrored,
    read_closely,
    wire_of,
)
from app.bindings.layout import Layout, Spelled, layout_of, plain_attributes
from app.bindings.modes import WireType
from app.bindings.older import older_headers
from app.bindings.reading_documents import (
    is_readable,
    no_document,
    read_batch,
    read_document,
    unread,
    unsupported_format,
)
from app.bindings.record import ContentMode, Decoded, Header
from app.bindings.run import Run
from app.bindings.transcode import Writing, as_document, in_version, is_binary
from app.event.memo import Memo
from app.event.value import CloudEvent
from app.event.versions import NEWEST, VERSIONS

MAX_BATCH = 10_000  # events in one batch (H5); more are answered 413

UnknownFormats = Literal["forward", "refuse"]

_BINARY = ContentMode.BINARY
_BATCH = ContentMode.BATCH
_NAMES = attribute_names("ce-")
TYPED = ("Content-Type",)
"""The names of the headers of a message that is a document."""
_CONTENT_TYPE = "datacontenttype"
_header_name = header_names("ce-").__getitem__


class HttpMessage(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """A request, ready for a client: the names of its headers, their values in the same order, and its body.

    Names stand apart, for they are the same in one message after another: clients prepare for them.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]
    body: bytes

    @classmethod
    def of(cls, headers: Sequence[tuple[str, str]], body: bytes) -> HttpMessage:
        names, values = zip(*headers, strict=True) if headers else ((), ())
        return cls(names, values, body)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Each with its value."""
        return tuple(zip(self.names, self.values, strict=True))

    def having(self, headers: Sequence[tuple[str, str]]) -> HttpMessage:
        """With further headers, behind its own."""
        names = tuple([name for name, _ in headers])
        return HttpMessage(
            self.names + names, (*self.values, *[text for _, text in headers]), self.body
        )


def decode(
    headers: Pairs,
    body: bytes,
    *,
    strict_percent: bool = False,
    max_batch: int = MAX_BATCH,
    forward: frozenset[bytes] = frozenset(),
    unknown_formats: UnknownFormats = "forward",
) -> Sequence[Decoded]:
    """The events of one request: one, or those of a batch, which may be none. A batch in a format that
    nobody here reads cannot be split: it is one opaque document (4.7).

    ``headers``         names as ``headers.FIELD_NAMES`` has them.
    ``strict_percent``  refuse a malformed ``%`` or quote in a header instead of keeping it.
    ``forward``         names of further headers, in lower case, that stand beside each event (I3).
    ``unknown_formats`` whether a document in another format than ours goes on, or is refused (H6).

    Raises InvalidEvent with every fault, NotACloudEvent, and SenderError (413, 415).
    """
    names, values = zip(*headers) if headers else ((), ())  # noqa: B905 - pairs all of them
    layout = _layouts(forward)[names]
    wire = None
    if layout.typed is not None:
        if layout.repeated:
            demand_one_type(headers)
        wire = wire_of[values[layout.typed]]
    foreign: tuple[Header, ...] = ()
    if layout.foreign:
        foreign = tuple([(name, values[place]) for name, place in layout.foreign])
    if wire is not None and wire.mode is not _BINARY:  # H4: the content type alone decides
        read = _read_documents(headers, wire, body, max_batch, unknown_formats)
        return _beside(read, foreign) if foreign else read
    attributes = plain_attributes(layout, values, wire.text if wire else None, PLAIN)
    # H9: the body as it is; a request without body is an event without data
    data = body or None
    if attributes is not None:
        event = CloudEvent(attributes, data)
    else:
        event = read_closely(headers, wire, data, strict=strict_percent)
    return [Decoded(event, _BINARY, None, None, foreign)]


def _beside(read: Sequence[Decoded], foreign: tuple[Header, ...]) -> Sequence[Decoded]:
    if isinstance(read, Run):
        return read.with_foreign(foreign)
    return [msgspec.structs.replace(each, foreign=foreign) for each in read]


@lru_cache(maxsize=16)  # as many as there are configurations; a test has more
def _layouts(forward: frozenset[bytes]) -> Memo[tuple[bytes, ...], Layout]:
    """Of requests from which headers of these names go along."""
    spelled = Spelled(
        lambda header: _NAMES[header] if header.startswith(b"ce-") else None,
        b"content-type",
        lambda header: TAKEN_NAMES[header] if header in forward else None,
    )
    return Memo(lambda headers: layout_of(headers, spelled))


def _read_documents(
    headers: Pairs, wire: WireType, body: bytes, max_batch: int, unknown_formats: UnknownFormats
) -> Sequence[Decoded]:
    """H12: ``ce-`` headers beside a document are ignored, for the document has all of them."""
    if is_readable(wire, body):
        batch = wire.mode is _BATCH
        if not body and not batch:  # a batch of Protobuf may be of no bytes
            raise no_document("H12")
        return read_batch(wire, body, max_batch) if batch else [read_document(wire, body)]
    if unknown_formats == "refuse":
        raise unsupported_format(wire)
    demand_media_type(wire)
    return [unread(wire, body, mirrored(headers))]


def encode(
    decoded: Decoded, writing: Writing, forward: Collection[str] = frozenset()
) -> HttpMessage:
    """A webhook request. Structured: the document the event came with is reused untouched.

    A binary event without data is a request with headers only.

    ``forward``  which foreign headers go along (``forwarding.forwarded``).

    Raises SenderError where the event cannot be written so (415, 422).
    """
    decoded = in_version(decoded, writing.version)
    event = decoded.event
    if is_binary(decoded, writing.mode):
        media_type, body = content_type_of(event), event.data or b""
        plain = event.version == NEWEST
        names, values = (_attribute_headers if plain else _older_headers)(event, media_type)
    else:
        body, media_type = as_document(decoded, writing)  # H11
        names, values = TYPED, [media_type]
        if decoded.opaque:
            names, values = _attribute_headers(event, media_type)
    message = HttpMessage(names, tuple(values), body)
    return message.having([*forwarded(decoded.foreign, forward)]) if decoded.foreign else message


def encode_batch(batch: Sequence[Decoded], name: documents.FormatName = "json") -> HttpMessage:
    """One request of several events (H13). To be sent only where it was asked for (H5).

    Raises InvalidEvent for events of several versions (I6), SenderError for a format without batches.
    """
    document, media_type = documents.write_batch(batch, name)
    return HttpMessage(TYPED, (media_type,), document)


def _attribute_headers(
    event: CloudEvent, media_type: str | None
) -> tuple[tuple[str, ...], list[str]]:
    """Names and values; the content type is the last. ``datacontenttype`` is none of them (H8)."""
    attributes = event.attributes
    place, names, typed = _HEADERS[tuple(attributes)]
    texts = [*attributes.values()]
    if place >= 0:
        del texts[place]
    texts = percent_encode(texts)  # H10
    if media_type is None:
        return names, texts
    texts.append(media_type)
    return typed, texts


def _headers(attributes: tuple[str, ...]) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Which of the attributes of these names is the content type, and the headers without and with one."""
    names = tuple([_header_name(name) for name in attributes if name != _CONTENT_TYPE])
    place = attributes.index(_CONTENT_TYPE) if _CONTENT_TYPE in attributes else -1
    return place, names, names + TYPED


_HEADERS = Memo(_headers)


def _older_headers(event: CloudEvent, media_type: str | None) -> tuple[tuple[str, ...], list[str]]:
    """Those of the event's own version."""
    version = VERSIONS[event.version]
    prefix = "CE-" if version.nested else "ce-"
    names, texts = zip(*older_headers(event), strict=True)
    coded = (
        [percent_encode_json(text) for text in texts]
        if version.quoted
        else percent_encode([*texts])
    )
    spelled = tuple([prefix + name for name in names])
    return (spelled, coded) if media_type is None else (spelled + TYPED, [*coded, media_type])
