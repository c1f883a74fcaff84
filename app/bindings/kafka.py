"""The Kafka binding (K1-K18), also of the embedded log: strict on write, liberal on read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import repeat

from app.bindings import profile as profiles
from app.bindings.content_coding import CONTENT
from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent
from app.bindings.layout import attribute_under, layouts, read_plainly
from app.bindings.older import older_headers
from app.bindings.profile import Profile, Words, apart_from, strict
from app.bindings.reading import read
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.run import Run
from app.bindings.spellings import Spelling, nested, prefix_of, prefixed, spelling
from app.bindings.transcode import Writing, as_document, in_version, is_binary
from app.bindings.values import read_string
from app.event.memo import Memo
from app.event.value import CloudEvent, DataForm
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "Leniency", "NotACloudEvent", "decode", "encode"]

_BINARY = ContentMode.BINARY
_JSON_DATA = DataForm.JSON
_NEWEST = frozenset({"as_received", NEWEST})

CONTENT_TYPE = "content-type"
HEADERS = Memo(lambda name: CONTENT_TYPE if name == "datacontenttype" else f"ce_{name}")  # K12, K15
_header_names: Memo[tuple[str, ...], tuple[str, ...]] = Memo(
    lambda attributes: tuple([HEADERS[name] for name in attributes])
)


class Leniency(profiles.Leniency, frozen=True):
    """What is read of this broker's messages although the binding does not say so.

    ``quoted``  values in quotes, in records whose ``ce_specversion`` is in quotes.
    ``nulls``   a header with a null value, for one that is not there.
    """

    quoted: bool = True
    nulls: bool = True


LIBERAL = Leniency()
STRICT = strict(Leniency)


def _spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """K15; 0.1, which knew no Kafka, has the names of its HTTP."""
    fold = leniency.any_case
    return (
        spelling(prefixed("ce_", any_case=fold), lambda name: (f"ce_{name}",)),
        nested(("CE-", "ce_") if fold else ("CE-",), any_case=fold),
    )


def _content_types(leniency: Leniency) -> tuple[Callable[[str], bool], ...]:
    found: list[Callable[[str], bool]] = [CONTENT_TYPE.__eq__]
    if leniency.any_case:
        found.append(lambda name: name.lower() == CONTENT_TYPE)
    return tuple(found)


FOREIGN = apart_from(_spellings(LIBERAL), _content_types(LIBERAL))


LAYOUTS = layouts(attribute_under("ce_"), CONTENT_TYPE, FOREIGN.read_name)
"""Of events as we write them."""

_WORDS = Words(
    place="header",
    prefix="ce_",
    typed_at=f"header {CONTENT_TYPE}",
    content_type="K4",
    document="K17",
    values="K14",
    one_type="K12",
)


@cache
def profile(leniency: Leniency) -> Profile:
    return Profile(
        _WORDS,
        leniency,
        _spellings(leniency),
        _content_types(leniency),
        FOREIGN,
        quoted=read_string if leniency.quoted else None,
        empty_is_none=False,  # K13: no value and an empty one are told apart
        nulls=leniency.nulls,
    )


def encode(decoded: Decoded, writing: Writing, key: bytes | None) -> Record:
    """The record of one event, with what is foreign after its own headers (I3). The key is the
    caller's affair and never touches the event (K10).

    Raises SenderError where a format cannot hold the event.
    """
    if writing.version != "as_received":
        decoded = in_version(decoded, writing.version)
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event), decoded.event.data
        if body is None and writing.empty_body == "empty":
            body = b""  # else no value: a tombstone where a topic is compacted (K13)
    else:
        body, media_type = as_document(decoded, writing)
        headers = _mirrored_headers(decoded) if decoded.opaque else ()
        headers += ((CONTENT_TYPE, media_type.encode()),)  # K16: always written
    if decoded.foreign:
        headers += tuple(FOREIGN.written(decoded.foreign))
    return Record(key, headers, body)


def encode_run(run: Run, writing: Writing, keys: Iterable[bytes | None]) -> Iterable[Record] | None:
    """What ``encode`` makes of each event, made by column; None where each has to be looked at."""
    if writing.mode != "binary" or writing.version not in _NEWEST or run.holds_events():
        return None
    count, columns = len(run), run.columns
    fields = [_field(HEADERS[name], each) for name, each in zip(columns.names, columns.values)]  # noqa: B905 - K14; equal lengths
    bodies: Iterable[bytes | None] | None = columns.data
    if bodies is None:
        bodies = repeat(b"" if writing.empty_body == "empty" else None)  # K13
    elif "datacontenttype" not in columns.names:
        fields.append([(CONTENT_TYPE, b"application/json")] * count)  # J13, I4
    fields += [[header] * count for header in FOREIGN.written(run.foreign)]
    return map(Record, keys, zip(*fields), bodies)  # noqa: B905 - one an event


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
    headers = tuple(zip(_header_names[tuple(attributes)], values))  # noqa: B905 - K14; equal lengths, and hot
    if event.data_form is _JSON_DATA and "datacontenttype" not in attributes:
        headers += ((CONTENT_TYPE, b"application/json"),)  # J13, I4
    return headers


def _mirrored_headers(opaque: Decoded) -> tuple[Header, ...]:
    """4.7: what mirrored headers told of a document that nobody here reads."""
    return _binary_headers(opaque.event) if opaque.event.attributes else ()


def _older_headers(event: CloudEvent) -> tuple[Header, ...]:
    """The headers of the event's own version; 0.1, which knew no Kafka, has those of its HTTP."""
    prefix = prefix_of(VERSIONS[event.version], "ce_")
    headers: list[Header] = [(prefix + name, text.encode()) for name, text in older_headers(event)]
    content_type = content_type_of(event)
    if content_type is not None:
        headers.append((CONTENT_TYPE, content_type.encode()))
    return tuple(headers)


def decode(record: Record, leniency: Leniency = LIBERAL, *, bound: int = CONTENT) -> Decoded:
    """The event in a record. Raises InvalidEvent with every fault, NotACloudEvent, and SenderError
    (415) for formats that are refused.
    """
    return _read_plainly(record) or read(record, profile(leniency), bound)


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    return read_plainly(record, LAYOUTS, record.body)
