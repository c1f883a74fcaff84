"""The HTTP binding: decode requests to events, and encode events as webhook requests."""

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
from app.bindings.http_slow_path import (
    Pairs,
    demand_media_type,
    demand_one_type,
    mirrored,
    read_binary,
    wire_of,
)
from app.bindings.layout import HeaderLayout, HeaderNaming, layout_of, plain_attributes
from app.bindings.modes import WireType
from app.bindings.older import older_headers
from app.bindings.reading_documents import (
    is_readable,
    no_document,
    opaque_document,
    read_batch,
    read_document,
    unsupported_format,
)
from app.bindings.record import ContentMode, Decoded, Header
from app.bindings.run import EventColumns
from app.bindings.transcode import EncodeOptions, as_document, in_version, is_binary
from app.event.media_types import parse as parse_media_type
from app.event.memo import Memo
from app.event.value import CloudEvent, DataForm
from app.event.versions import NEWEST, VERSIONS

MAX_BATCH = 10_000  # events in one batch; more are answered 413

UnknownFormats = Literal["forward", "refuse"]

_BINARY = ContentMode.BINARY
_BATCH = ContentMode.BATCH
_OPAQUE = DataForm.OPAQUE
_NAMES = attribute_names("ce-")
TYPED = ("Content-Type",)
"""The header names of a message in structured or batched mode. It has the content type only."""
_CONTENT_TYPE = "datacontenttype"
_PLAIN = bytes(set(PLAIN) - set(b"\n"))  # bytes of values that need no percent-encoding
_header_name = header_names("ce-").__getitem__


class HttpMessage(
    msgspec.Struct, frozen=True, gc=False
):  # an instance can be in no reference cycle
    """A request for an HTTP client: header names, header values in the same order, and the body.

    Names are separate from values, because most messages have the same names and an HTTP client prepares the
    names once.

    Attributes:
        plain: True if it is known that the values are printable ASCII.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]
    body: bytes
    plain: bool = False

    @classmethod
    def of(cls, headers: Sequence[tuple[str, str]], body: bytes) -> HttpMessage:
        """Return a message with these header pairs and this body."""
        names, values = zip(*headers, strict=True) if headers else ((), ())
        return cls(names, values, body)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the header names with their values."""
        return tuple(zip(self.names, self.values, strict=True))

    def having(self, headers: Sequence[tuple[str, str]]) -> HttpMessage:
        """Return the message with these headers added after its own."""
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
    """Return the events of one request: one event, or the events of a batch, which may be empty.

    A batch in an unknown format cannot be split: it is returned as one document.

    Args:
        headers: Header pairs, with names as ``headers.FIELD_NAMES`` gives them.
        body: The body without content coding.
        strict_percent: Refuse a malformed ``%`` or quote in a header instead of keeping it.
        max_batch: The most events in a batch. A larger batch raises SenderError (413).
        forward: Names of further headers, in lower case, that are forwarded next to each event.
        unknown_formats: Forward or refuse a document in a format that Skybridge does not read.

    Raises:
        InvalidEvent: The events have faults, all of which are listed.
        NotACloudEvent: The request is no CloudEvent.
        SenderError: The format is refused (415), or the batch is too large (413).
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
    if wire is not None and wire.mode is not _BINARY:  # the content type alone decides the mode
        read = _read_documents(headers, wire, body, max_batch, unknown_formats)
        return _beside(read, foreign) if foreign else read
    attributes = plain_attributes(layout, values, wire.text if wire else None, PLAIN)
    # a request without body is an event without data
    data = body or None
    if attributes is not None:
        event = CloudEvent(attributes, data)
    else:
        event = read_binary(headers, wire, data, strict=strict_percent)
    return [Decoded(event, _BINARY, None, None, foreign)]


def plain_layout(
    names: tuple[bytes, ...], content_type: bytes | None, forward: frozenset[bytes] = frozenset()
) -> tuple[HeaderLayout, str | None] | None:
    """Return the layout of requests in binary mode, and the content type of their data.

    Return None if ``decode`` must read them, for example because a header next to the event is forwarded.

    Args:
        names: The header names, each once.
        content_type: The content type, the same in all requests.
        forward: As for ``decode``.
    """
    layout = _layouts(forward)[names]
    if layout.checks is None or layout.foreign or (layout.typed is None) != (content_type is None):
        return None
    if content_type is None:
        return layout, None
    wire = wire_of[content_type]
    if wire.mode is not _BINARY or parse_media_type(wire.text) is None:
        return None
    return layout, wire.text


def _beside(read: Sequence[Decoded], foreign: tuple[Header, ...]) -> Sequence[Decoded]:
    if isinstance(read, EventColumns):
        return read.with_foreign(foreign)
    return [msgspec.structs.replace(each, foreign=foreign) for each in read]


@lru_cache(maxsize=16)  # as many as there are configurations in use; tests have more
def _layouts(forward: frozenset[bytes]) -> Memo[tuple[bytes, ...], HeaderLayout]:
    """Return a cache of header layouts for requests. A layout depends on the names of the request's headers
    and on the header names in ``forward``."""
    spelled = HeaderNaming(
        lambda header: _NAMES[header] if header.startswith(b"ce-") else None,
        b"content-type",
        lambda header: TAKEN_NAMES[header] if header in forward else None,
    )
    return Memo(lambda headers: layout_of(headers, spelled))


def _read_documents(
    headers: Pairs, wire: WireType, body: bytes, max_batch: int, unknown_formats: UnknownFormats
) -> Sequence[Decoded]:
    """Return the events of a structured or batched request. Attributes that are repeated in ``ce-`` headers
    are ignored.
    """
    if is_readable(wire, body):
        batch = wire.mode is _BATCH
        if not body and not batch:  # an empty Protobuf batch has no bytes
            raise no_document("H12")
        return read_batch(wire, body, max_batch) if batch else [read_document(wire, body)]
    if unknown_formats == "refuse":
        raise unsupported_format(wire)
    demand_media_type(wire)
    return [opaque_document(wire, body, mirrored(headers))]


def encode(
    decoded: Decoded, writing: EncodeOptions, forward: Collection[str] = frozenset()
) -> HttpMessage:
    """Return the webhook request of one event. Structured mode reuses the document that arrived.

    A binary event without data is a request with headers and an empty body.

    Args:
        decoded: The event.
        writing: The encoding options.
        forward: Names of the foreign headers to forward, as ``forwarding.forwarded`` takes them.

    Raises:
        SenderError: The options do not permit this event (415, 422).
    """
    if writing.version != "as_received":
        decoded = in_version(decoded, writing.version)
    event = decoded.event
    if is_binary(decoded, writing.mode):
        if (
            event.version == NEWEST
            and not decoded.foreign
            and (message := _plain_message(event)) is not None
        ):
            return message
        media_type, body = content_type_of(event), event.data or b""
        plain = event.version == NEWEST
        names, values = (_attribute_headers if plain else _older_headers)(event, media_type)
    else:
        body, media_type = as_document(decoded, writing)  # structured mode
        names, values = TYPED, [media_type]
        if decoded.opaque:
            names, values = _attribute_headers(event, media_type)
    message = HttpMessage(names, tuple(values), body)
    return message.having([*forwarded(decoded.foreign, forward)]) if decoded.foreign else message


def _plain_message(event: CloudEvent) -> HttpMessage | None:
    """Return the binary request of an event whose values need no percent-encoding, as ``encode`` would. Return None
    for other events."""
    attributes = event.attributes
    place, names, typed = _HEADERS[tuple(attributes)]
    texts = [*attributes.values()]
    if "".join(texts).encode().translate(None, _PLAIN):
        return None
    if place >= 0:
        texts.append(texts.pop(place))
        names = typed
    elif event.data_form is not _OPAQUE:
        return None
    return HttpMessage(names, tuple(texts), event.data or b"", plain=True)


def encode_batch(batch: Sequence[Decoded], name: documents.FormatName = "json") -> HttpMessage:
    """Return one batch request of several events. Callers send it only to targets that asked for batches.

    Raises:
        InvalidEvent: The events have different versions.
        SenderError: The format has no batch.
    """
    document, media_type = documents.write_batch(batch, name)
    return HttpMessage(TYPED, (media_type,), document)


def _attribute_headers(
    event: CloudEvent, media_type: str | None
) -> tuple[tuple[str, ...], list[str]]:
    """Return header names and values of the attributes, the content type last."""
    attributes = event.attributes
    place, names, typed = _HEADERS[tuple(attributes)]
    texts = [*attributes.values()]
    if place >= 0:
        del texts[place]
    texts = percent_encode(texts)
    if media_type is None:
        return names, texts
    texts.append(media_type)
    return typed, texts


def _headers(attributes: tuple[str, ...]) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Return the index of the content type among the attributes (-1 if absent). Return also the header names
    of the attributes without and with the content type.
    """
    names = tuple([_header_name(name) for name in attributes if name != _CONTENT_TYPE])
    place = attributes.index(_CONTENT_TYPE) if _CONTENT_TYPE in attributes else -1
    return place, names, names + TYPED


_HEADERS = Memo(_headers)


def _older_headers(event: CloudEvent, media_type: str | None) -> tuple[tuple[str, ...], list[str]]:
    """Return header names and values in the event's own version."""
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
