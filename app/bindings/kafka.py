"""The Kafka binding, which the embedded log uses too: strict when it writes, liberal when it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat

from app.bindings import profile as profiles
from app.bindings.content_coding import CONTENT
from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent
from app.bindings.layout import attribute_under, layouts, read_fast
from app.bindings.older import older_headers
from app.bindings.profile import FaultTerms, Profile, header_escaper, strict
from app.bindings.reading import read
from app.bindings.record import ContentMode, Decoded, Header, Record, RecordForm
from app.bindings.run import EventColumns
from app.bindings.spellings import NamingScheme, nested, prefix_of, prefixed, spelling
from app.bindings.transcode import (
    UNCHANGED,
    EncodeOptions,
    as_document,
    in_version,
    is_binary,
    stays_binary,
)
from app.bindings.values import read_string
from app.event.memo import Memo
from app.event.value import CloudEvent, DataForm
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "KafkaLeniency", "NotACloudEvent", "decode", "encode"]

_BINARY = ContentMode.BINARY
_JSON_DATA = DataForm.JSON

CONTENT_TYPE = "content-type"
HEADERS = Memo(lambda name: CONTENT_TYPE if name == "datacontenttype" else f"ce_{name}")
_header_names: Memo[tuple[str, ...], tuple[str, ...]] = Memo(
    lambda attributes: tuple([HEADERS[name] for name in attributes])
)


class KafkaLeniency(profiles.Leniency, frozen=True):
    """The deviations from the Kafka binding that are accepted in records.

    Attributes:
        quoted: Values in quotes, in records whose ``ce_specversion`` is in quotes.
        nulls: A header with a null value counts as absent.
    """

    quoted: bool = True
    nulls: bool = True


LIBERAL = KafkaLeniency()
STRICT = strict(KafkaLeniency)


def _spellings(leniency: KafkaLeniency) -> tuple[NamingScheme, ...]:
    """Return the naming schemes of attributes in Kafka headers. Version 0.1 is older than this binding, so
    its attributes have their HTTP names.
    """
    fold = leniency.any_case
    return (
        spelling(prefixed("ce_", any_case=fold), lambda name: (f"ce_{name}",)),
        nested(("CE-", "ce_") if fold else ("CE-",), any_case=fold),
    )


def _content_types(leniency: KafkaLeniency) -> tuple[Callable[[str], bool], ...]:
    found: list[Callable[[str], bool]] = [CONTENT_TYPE.__eq__]
    if leniency.any_case:
        found.append(lambda name: name.lower() == CONTENT_TYPE)
    return tuple(found)


FOREIGN = header_escaper(_spellings(LIBERAL), _content_types(LIBERAL))


LAYOUTS = layouts(attribute_under("ce_"), CONTENT_TYPE, FOREIGN.read_name)
"""A cache of header layouts for records with the headers that Skybridge writes."""

_WORDS = FaultTerms(
    place="header",
    prefix="ce_",
    typed_at=f"header {CONTENT_TYPE}",
    content_type="K4",
    document="K17",
    values="K14",
    one_type="K12",
)


@cache
def profile(leniency: KafkaLeniency) -> Profile:
    """Return the rules by which Kafka records are read with these leniencies."""
    return Profile(
        _WORDS,
        leniency,
        _spellings(leniency),
        _content_types(leniency),
        FOREIGN,
        quoted=read_string if leniency.quoted else None,
        empty_is_none=False,  # the binding distinguishes no value from an empty one
        nulls=leniency.nulls,
    )


def encode(decoded: Decoded, writing: EncodeOptions, key: bytes | None) -> Record:
    """Return the record of one event. Foreign headers follow the event's own headers.

    The caller computes the record key, which is not written into the event.

    Raises:
        SenderError: The event format cannot hold the event.
    """
    if writing.version != "as_received":
        decoded = in_version(decoded, writing.version)
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event), decoded.event.data
        if body is None and writing.empty_body == "empty":
            body = b""  # without this, no value: a tombstone in a compacted topic
    else:
        body, media_type = as_document(decoded, writing)
        headers = _mirrored_headers(decoded) if decoded.opaque else ()
        headers += (
            (CONTENT_TYPE, media_type.encode()),
        )  # structured mode always has a content type
    if decoded.foreign:
        headers += tuple(FOREIGN.written(decoded.foreign))
    return Record(key, headers, body)


def encode_run(
    run: EventColumns, writing: EncodeOptions, keys: Iterable[bytes | None]
) -> Iterable[Record] | None:
    """Return the records of all events of a batch. Each record equals that of ``encode``, but the records are
    made by column, which is faster.

    Return None if the events must be encoded one by one.
    """
    if writing.mode != "binary" or writing.version not in UNCHANGED or run.holds_events():
        return None
    count, columns = len(run), run.columns
    fields = [_field(HEADERS[name], each) for name, each in zip(columns.names, columns.values)]  # noqa: B905 - equal lengths
    bodies: Iterable[bytes | None] | None = columns.data
    if bodies is None:
        bodies = repeat(
            b"" if writing.empty_body == "empty" else None
        )  # no data is no value, unless the options ask for an empty one
    elif "datacontenttype" not in columns.names:
        fields.append(
            [(CONTENT_TYPE, b"application/json")] * count
        )  # the JSON format implied the content type
    fields += [[header] * count for header in FOREIGN.written(run.foreign)]
    return map(Record, keys, zip(*fields), bodies)  # noqa: B905 - one an event


def record_form(
    names: tuple[str, ...],
    content_type: str | None,
    writing: EncodeOptions,
    foreign: Sequence[Header] = (),
) -> RecordForm | None:
    """Return the function that makes the same records as ``encode`` of events that arrived in binary mode.

    Return None if the events must be encoded one by one.

    Args:
        names: The attribute names, without the content type.
        content_type: The content type of the data, if the events have one.
        writing: The encoding options.
        foreign: The foreign headers of each event.
    """
    if not stays_binary(content_type, writing):
        return None
    typed = () if content_type is None else ((CONTENT_TYPE, content_type.encode()),)
    headers = (*typed, *FOREIGN.written(foreign))
    header_names, empty = _header_names[names], b"" if writing.empty_body == "empty" else None

    def form(key: bytes | None, values: Sequence[bytes], body: bytes) -> Record:
        own = tuple(zip(header_names, values))  # noqa: B905 - equal lengths, and hot
        return Record(key, own + headers, body or empty)

    return form


def _field(name: str, values: list[bytes]) -> list[Header]:
    first = values[0]
    count = len(values)
    return [(name, first)] * count if values.count(first) == count else [*zip(repeat(name), values)]


def _binary_headers(event: CloudEvent) -> tuple[Header, ...]:
    if event.version != NEWEST:
        return _older_headers(event)
    attributes = event.attributes
    texts = "\0".join(attributes.values())  # NUL is in no attribute, and one encoding is cheaper
    values = texts.encode().split(b"\0")
    headers = tuple(zip(_header_names[tuple(attributes)], values))  # noqa: B905 - equal lengths, and hot
    if event.data_form is _JSON_DATA and "datacontenttype" not in attributes:
        headers += (
            (CONTENT_TYPE, b"application/json"),
        )  # the JSON format implied the content type
    return headers


def _mirrored_headers(opaque: Decoded) -> tuple[Header, ...]:
    """Return headers for the attributes that arrived next to a document in an unknown format."""
    return _binary_headers(opaque.event) if opaque.event.attributes else ()


def _older_headers(event: CloudEvent) -> tuple[Header, ...]:
    """Return the headers of an event in its own older version. Version 0.1 is older than this binding, so its
    attributes have their HTTP names."""
    prefix = prefix_of(VERSIONS[event.version], "ce_")
    headers: list[Header] = [(prefix + name, text.encode()) for name, text in older_headers(event)]
    content_type = content_type_of(event)
    if content_type is not None:
        headers.append((CONTENT_TYPE, content_type.encode()))
    return tuple(headers)


def decode(record: Record, leniency: KafkaLeniency = LIBERAL, *, bound: int = CONTENT) -> Decoded:
    """Return the event in a record.

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
    return read_fast(record, LAYOUTS, record.body)
