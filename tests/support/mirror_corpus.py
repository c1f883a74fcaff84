"""The corpus as records of a source broker, and the check of the records that a mirror made of
them.

Tests run it for 16 pairs of brokers. The expected event of a case is computed from the bytes of the
case and the
declarations below, never from what a broker returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from app.bindings.record import Decoded, Header, Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from corpus import Case, cases
from corpus_documents import document_of, is_batch
from corpus_records import LOSSES, assert_same_event, expected_in_binary, is_accepted, record_of

KINDS = ("embedded", "kafka", "rabbitmq", "pulsar")
CORPUS = {"embedded": "kafka", "kafka": "kafka", "rabbitmq": "rabbitmq", "pulsar": "pulsar"}
MARK = "x-case"  # a foreign header with the number of the case
KEYS = (b"k-0", "ключ".encode(), b"k-2", b"\xff\x00\xfe", b"k-4")

LOST_AT: Mapping[str, tuple[str, ...]] = {
    "embedded": (),
    "kafka": (),
    "rabbitmq": ("empty-data", "repeated-foreign"),
    "pulsar": ("empty-data", "null-foreign", "binary-foreign", "repeated-foreign", "first-capital"),
}
"""The losses that each target broker causes, whatever the source broker. The names of losses are
those of the corpus."""
UNORDERED = {"pulsar"}
"""Brokers that keep all foreign headers, but not their order."""
LONGEST_NAME = {"rabbitmq": 255 - len("ce-")}
"""The greatest length in bytes of an attribute name that becomes a header name."""
UNSENT = {"timestamp-before-1970"}
"""Cases that a client library may hold in memory but no broker can transmit."""
CHANGED_ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "v1-extension-without-a-usable-character": {},
    "v3-map": {"crew": '{"lead":"Ada","size":"3"}'},
}
"""The attributes of older versions that change when a document becomes headers, by case. Headers do
not support the name or the type of these extensions. The expected event has the attributes listed
here, and its record of arrival is that of the mirrored event."""


class PublishedCase(msgspec.Struct, frozen=True):
    """A case of the corpus as it was published to the source broker."""

    case: Case
    record: Record
    event: Decoded


def sent_to(kind: str) -> list[PublishedCase]:
    """Return every valid case as a record of this kind of broker, with a mark and a key.

    A record without a key gets a key that several records share, so that there is an order to
    check.
    """
    taken = [case for case in cases(CORPUS[kind]) if is_accepted(case) and case.name not in UNSENT]
    found = [(case, record_of(case)) for case in taken]
    documents = [case for case in cases("json") if "events" in case.expect and not is_batch(case)]
    found += [(case, _AS_DOCUMENT[kind](case)) for case in documents]
    return [_marked(kind, n, case, record) for n, (case, record) in enumerate(found)]


def _marked(kind: str, number: int, case: Case, record: Record) -> PublishedCase:
    key = KEYS[number % len(KEYS)] if record.key is None and number % 7 else record.key
    mark: Header = (MARK, str(number).encode())
    natives = {
        name: bytearray(value)
        if isinstance(value, bytes)
        else value  # Only bytes are converted: a text here is not valid UTF-8.
        for name, value in record.natives.items()
    }
    record = replace(record, key=key, headers=(*record.headers, mark), natives=natives)
    return PublishedCase(case, record, BINDINGS[kind].decode(record))


def _kafka_document(case: Case) -> Record:
    return Record(None, (("content-type", _media_type(case)),), document_of(case))


def _rabbitmq_document(case: Case) -> Record:
    return Record(None, (), document_of(case), _media_type(case).decode())


def _pulsar_document(case: Case) -> Record:
    return Record(None, (("CE-ContentType", _media_type(case)),), document_of(case))


def _media_type(case: Case) -> bytes:
    return str(case.message["media_type"]).encode()


_AS_DOCUMENT: Mapping[str, Callable[[Case], Record]] = {
    "embedded": _kafka_document,
    "kafka": _kafka_document,
    "rabbitmq": _rabbitmq_document,
    "pulsar": _pulsar_document,
}


def number_of(record: Record) -> int:
    """Return the number of the case that a record carries in its mark."""
    (mark,) = [value for name, value in record.headers if name == MARK]
    return int(mark or b"")


def is_refused(sent: PublishedCase, target: str, writing: EncodeOptions) -> bool:
    """Return True if the target cannot store the name of an attribute as a header name.

    A structured document is never refused, because it can carry any name.
    """
    longest = LONGEST_NAME.get(target)
    if longest is None or (writing.mode == "as_received" and sent.event.document is not None):
        return False
    return any(len(name) > longest for name in sent.event.event.attributes)


def assert_mirrored(
    sent: Sequence[PublishedCase],
    mirrored: Sequence[Record],
    source: str,
    target: str,
    writing: EncodeOptions,
) -> None:
    """Assert that each expected event arrived once, with the same content and key."""
    numbers = [number_of(record) for record in mirrored]
    due = [n for n, each in enumerate(sent) if not is_refused(each, target, writing)]
    assert sorted(numbers) == due
    for number, record in zip(numbers, mirrored, strict=True):
        each = sent[number]
        assert record.key == each.record.key, each.case
        try:
            _assert_event(each, record, source, target, writing)
        except AssertionError as error:
            raise AssertionError(f"{each.case} from {source} to {target}: {error}") from error


def in_order(mirrored: Sequence[Record]) -> bool:
    """Return True if the records of each key are in the order of their numbers.

    Args:
        mirrored: The records of one partition.
    """
    last: dict[bytes, int] = {}
    for record in mirrored:
        number = number_of(record)
        if record.key is not None and last.get(record.key, -1) > number:
            return False
        if record.key is not None:
            last[record.key] = number
    return True


def _assert_event(
    sent: PublishedCase, record: Record, source: str, target: str, writing: EncodeOptions
) -> None:
    due, came = expected_in_binary(sent.case, sent.event, writing), BINDINGS[target].decode(record)
    for name in LOST_AT[target]:
        due = LOSSES[name](due)
    changed = CHANGED_ATTRIBUTES.get(sent.case.name)
    if changed is not None and due.document is None:
        attributes = {**due.event.attributes, **changed}
        event = replace(due.event, attributes=attributes, arrived=came.event.arrived)
        due = replace(due, event=event)
    if {source, target} & UNORDERED:
        due, came = _sorted(due), _sorted(came)
    assert_same_event(due, came)


def _sorted(decoded: Decoded) -> Decoded:
    return replace(decoded, foreign=tuple(sorted(decoded.foreign, key=str)))
