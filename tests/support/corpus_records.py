"""Check cases of broker messages (kafka, rabbitmq, pulsar).

Each is decoded, encoded again, and carried from one broker to the next with the losses that the
case declares.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from amqp_writing import to_table
from app.bindings import kafka, pulsar, rabbitmq
from app.bindings.amqp_table import from_table
from app.bindings.modes import JSON_DOCUMENT
from app.bindings.pulsar_properties import PulsarMessage, from_message, to_message
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import InvalidEvent, SenderError
from app.event.value import NO_TYPES, ArrivedAttribute, AttributeType, CloudEvent, DataForm
from app.event.versions import EXTENSIONS, VERSIONS
from corpus import Case, assert_faults, assert_form, assert_is, octets

BINDINGS: Mapping[str, Any] = {"kafka": kafka, "rabbitmq": rabbitmq, "pulsar": pulsar}
NEXT = {"kafka": "rabbitmq", "rabbitmq": "pulsar", "pulsar": "kafka"}
AS_RECEIVED = EncodeOptions(mode="as_received")


def record_of(case: Case) -> Record:
    """Return the record that a driver makes of the message of a case."""
    return _RECORDS[case.folder](case.message)


def _kafka_record(message: Mapping[str, Any]) -> Record:
    headers = tuple((name, octets(value)) for name, value in message["headers"])
    return Record(octets(message["key"]), headers, octets(message["value"]))


def _rabbitmq_record(message: Mapping[str, Any]) -> Record:
    table = {name: _typed(value) for name, value in message["headers"].items()}
    return from_table(table, message["content_type"], octets(message["body"]) or b"")


def _pulsar_record(message: Mapping[str, Any]) -> Record:
    payload = octets(message["payload"])
    return from_message(PulsarMessage(message["properties"], message["key"], payload))


_RECORDS: Mapping[str, Callable[[Mapping[str, Any]], Record]] = {
    "kafka": _kafka_record,
    "rabbitmq": _rabbitmq_record,
    "pulsar": _pulsar_record,
}


def _typed(value: Any) -> Any:
    """Return an AMQP value in the type that a client library gives it."""
    if isinstance(value, list):
        return [_typed(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    return _AMQP[kind](content)


_AMQP: Mapping[str, Callable[[Any], Any]] = {
    "timestamp": lambda seconds: datetime.fromtimestamp(seconds, UTC),
    "bytes": b64decode,
    "decimal": Decimal,
    "double": float,
    "long": int,
    "table": lambda table: {name: _typed(value) for name, value in table.items()},
}


def on_the_wire(folder: str, record: Record) -> Record:
    """Return the record as it is after the trip through a message of this broker."""
    if folder == "rabbitmq":
        return from_table(to_table(record), record.content_type, record.body or b"")
    return from_message(to_message(record)) if folder == "pulsar" else record


def read(case: Case) -> Decoded:
    """Decode the message of a case, without the leniencies that the case switches off."""
    binding = BINDINGS[case.folder]
    if not case.switches:
        return binding.decode(record_of(case))  # type: ignore[no-any-return]
    leniency = type(binding.LIBERAL)(**case.switches)
    return binding.decode(record_of(case), leniency=leniency)  # type: ignore[no-any-return]


def assert_expected(case: Case) -> None:
    """Assert that decoding the message gives the expected event, opaque document or refusal."""
    expect = case.expect
    if "events" in expect:
        _assert_event(case, read(case))
    elif "opaque" in expect:
        _assert_opaque(case, read(case))
    else:
        _assert_refused(case)


def _assert_event(case: Case, decoded: Decoded) -> None:
    (expected,) = case.expect["events"]
    assert not decoded.opaque
    assert_is(decoded.event, expected)
    if decoded.mode is ContentMode.STRUCTURED:
        assert_form(decoded.event, expected)
    if "foreign" in expected:
        assert decoded.foreign == _headers(expected["foreign"])
    if "key" in case.expect:
        assert record_of(case).key == octets(case.expect["key"])


def _assert_opaque(case: Case, decoded: Decoded) -> None:
    expected = case.expect["opaque"]
    assert decoded.opaque
    assert decoded.media_type == expected["media_type"]
    assert decoded.document == record_of(case).body
    if "attributes" in expected:
        assert dict(decoded.event.attributes) == expected["attributes"]
    if "foreign" in expected:
        assert decoded.foreign == _headers(expected["foreign"])


def _assert_refused(case: Case) -> None:
    with pytest.raises(SenderError) as refusal:
        read(case)
    refused = refusal.value
    if "faults" in case.expect:
        assert isinstance(refused, InvalidEvent), refused
        assert_faults(refused.faults, case.expect["faults"])
    else:
        assert {"status": refused.status, "code": refused.code} == case.expect["refused"]


def _headers(pairs: list[tuple[str, Any]]) -> tuple[Header, ...]:
    return tuple((name, octets(value)) for name, value in pairs)


def is_accepted(case: Case) -> bool:
    """Return True if the case has a valid event or an opaque document that is forwarded unread."""
    return "events" in case.expect or "opaque" in case.expect


def assert_rewritten(case: Case, writing: EncodeOptions) -> None:
    """Assert that encoding and decoding give the same event, with a liberal and with a strict
    reader.
    """
    key = record_of(case).key
    before = read(case)
    record = on_the_wire(case.folder, BINDINGS[case.folder].encode(before, writing, key))
    after = BINDINGS[case.folder].decode(record)

    assert record.key == key
    assert_same_event(expected_in_binary(case, before, writing), after)
    if writing in (PLAIN, AS_RECEIVED):  # the profiles of Pulsar are leniencies of its reader
        strict = BINDINGS[case.folder].STRICT
        assert BINDINGS[case.folder].decode(record, leniency=strict) == after


def assert_upgraded(case: Case) -> None:
    """Write the event as version 1.0, and assert that a reader of 1.0 gets the same event as
    before."""
    before = read(case)
    writing = EncodeOptions(mode="as_received", version="1.0")
    record = on_the_wire(case.folder, BINDINGS[case.folder].encode(before, writing, None))
    after = BINDINGS[case.folder].decode(record).event

    assert after.version == "1.0"
    assert dict(after.attributes) == dict(before.event.attributes)
    assert after.data == before.event.data


def assert_documented(case: Case) -> None:
    """Assert that the event survives as a JSON document, which keeps types and every form of data.

    A document in an unknown format must be refused with 415.
    """
    before, binding = read(case), BINDINGS[case.folder]
    writing = EncodeOptions(mode="structured", format="json")
    if before.opaque:
        with pytest.raises(SenderError) as refusal:
            binding.encode(before, writing, None)
        assert refusal.value.status == 415
        return
    record = on_the_wire(case.folder, binding.encode(before, writing, None))
    after = binding.decode(record)

    assert after.mode is ContentMode.STRUCTURED
    lost = case.loses.get("document", [])
    assert after.event.version == ("1.0" if "version" in lost else before.event.version)
    assert dict(after.event.attributes) == dict(before.event.attributes)
    assert dict(after.event.types) == dict(before.event.types)
    data = before.event.data or b""
    kept = data.strip(b" \t\r\n") if "white-space" in lost else before.event.data
    assert after.event.data == kept
    assert after.foreign == before.foreign


def carried(case: Case, writing: EncodeOptions) -> Iterator[tuple[str, Decoded, Decoded]]:
    """Carry an event through all brokers and back, and yield broker, expected and actual decoding
    at each.
    """
    folder, decoded, key = case.folder, read(case), record_of(case).key
    for _ in NEXT:
        folder = NEXT[folder]
        lost = case.loses.get(folder, [])
        if "name-too-long" in lost:
            with pytest.raises(InvalidEvent):
                BINDINGS[folder].encode(decoded, writing, key)
            return
        record = on_the_wire(folder, BINDINGS[folder].encode(decoded, writing, key))
        assert record.key == key, folder
        due = expected_in_binary(case, decoded, writing)
        for name in lost:
            left = LOSSES[name](due)
            assert left != due or due.document is not None, f"{folder} loses no {name}"
            due = left
        decoded = BINDINGS[folder].decode(record)
        yield folder, due, decoded


def assert_carried(case: Case, writing: EncodeOptions) -> None:
    """Assert that every broker delivers the same event and foreign headers, except for the
    declared losses.
    """
    for folder, due, came in carried(case, writing):
        try:
            assert_same_event(due, came)
        except AssertionError as error:
            raise AssertionError(f"at {folder}: {error}") from error


def assert_same_event(due: Decoded, came: Decoded) -> None:
    assert dict(came.event.attributes) == dict(due.event.attributes)
    assert dict(came.event.types) == dict(due.event.types)
    assert came.event.version == due.event.version
    assert came.event.data == due.event.data
    assert dict(came.event.arrived) == dict(due.event.arrived)
    assert came.foreign == due.foreign
    assert (came.opaque, came.mode) == (due.opaque, due.mode)
    if due.document is not None:
        assert (came.document, came.media_type) == (due.document, due.media_type)


def expected_in_binary(case: Case, decoded: Decoded, writing: EncodeOptions) -> Decoded:
    """Return the decoding that is expected after a trip in binary mode.

    Binary mode has no document, has no types in bare text, and makes the content type of JSON data
    explicit.
    """
    if decoded.opaque:
        return replace(decoded, event=replace(decoded.event, types=NO_TYPES))
    if "mode" in case.loses.get("headers", []):
        return replace(decoded, mode=ContentMode.STRUCTURED)
    if writing.mode == "as_received" and decoded.document is not None:
        return replace(decoded, media_type=decoded.media_type or JSON_DOCUMENT)
    event = _expected_in_headers(decoded.event, writing)
    return Decoded(event, ContentMode.BINARY, foreign=decoded.foreign)


def _expected_in_headers(event: CloudEvent, writing: EncodeOptions) -> CloudEvent:
    attributes, arrived = dict(event.attributes), dict(event.arrived)
    version = VERSIONS[event.version]
    if event.data_form is DataForm.JSON and "datacontenttype" not in attributes:
        attributes["datacontenttype"] = "application/json"
        if version.content_type != "datacontenttype":
            text = '"application/json"' if version.quoted else "application/json"
            arrived["datacontenttype"] = ArrivedAttribute(
                version.content_type, AttributeType.STRING, text
            )
    typed = version.quoted or writing.strings == "json"
    types: Mapping[str, AttributeType] = event.types if typed else NO_TYPES
    return replace(event, attributes=attributes, types=types, arrived=arrived)


def _without_empty_data(decoded: Decoded) -> Decoded:
    """Return the event without data if its data is empty. A structured document is not changed,
    because it keeps even empty data."""
    if decoded.document is not None:
        return decoded
    return replace(decoded, event=replace(decoded.event, data=decoded.event.data or None))


def _without_repeats(decoded: Decoded) -> Decoded:
    first: dict[str, bytes | None] = {}
    for name, value in decoded.foreign:
        first.setdefault(name, value)
    return replace(decoded, foreign=tuple(first.items()))


def _without_nulls(decoded: Decoded) -> Decoded:
    return replace(decoded, foreign=tuple(h for h in decoded.foreign if h[1] is not None))


def _with_replacements(decoded: Decoded) -> Decoded:
    foreign = tuple(
        (name, value and value.decode("utf-8", "replace").encode())
        for name, value in decoded.foreign
    )
    return replace(decoded, foreign=foreign)


def _with_small_letters(decoded: Decoded) -> Decoded:
    """Return the event with the first letter of extension names in lower case. A structured
    document is not changed, because it keeps the names."""
    if decoded.document is not None:
        return decoded
    arrived = {name: _with_a_small_letter(each) for name, each in decoded.event.arrived.items()}
    return replace(decoded, event=replace(decoded.event, arrived=arrived))


def _with_a_small_letter(arrival: ArrivedAttribute) -> ArrivedAttribute:
    entry = arrival.name.removeprefix(EXTENSIONS)
    if entry == arrival.name:
        return arrival
    return replace(arrival, name=f"{EXTENSIONS}{entry[:1].lower()}{entry[1:]}")


LOSSES: Mapping[str, Callable[[Decoded], Decoded]] = {
    "empty-data": _without_empty_data,
    "repeated-foreign": _without_repeats,
    "null-foreign": _without_nulls,
    "binary-foreign": _with_replacements,
    "first-capital": _with_small_letters,
}
"""The change that each declared loss makes to an event. An event with the loss ``name-too-long`` is
refused instead."""
