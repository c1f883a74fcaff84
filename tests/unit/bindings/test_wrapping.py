"""Events made of records that are none: valid, complete, and the same at every redelivery."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.http import encode as encode_http
from app.bindings.record import ContentMode, Record
from app.bindings.table import BINDINGS
from app.bindings.transcode import PLAIN, EncodeOptions
from app.bindings.wrapping import RecordLocation, wrap
from app.event.validate import faults_of
from app.formats.json import read_event, write_event

ORIGIN = RecordLocation("main", "orders", 3, "417", 1_700_000_000_123)
QUEUE = RecordLocation("rabbit", "orders", 3)

headers = st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8))
records = st.builds(
    Record,
    st.none() | st.binary(max_size=8),
    st.lists(headers, max_size=4).map(tuple),
    st.none() | st.binary(max_size=16),
    st.none() | st.text(max_size=8) | st.sampled_from(["text/plain", "application/json"]),
    message_id=st.none() | st.text(max_size=8),
    time_ms=st.none() | st.integers(-1, 2**60),
)


def attributes(record: Record, origin: RecordLocation = ORIGIN) -> dict[str, str]:
    return dict(wrap(record, origin).event.attributes)


def test_every_attribute_has_its_place_in_the_record() -> None:
    record = Record(
        b"customer-7",
        (("Content-Type", b"text/csv"), ("x-shard", b"4"), ("x-shard", None)),
        b"a,b",
    )
    decoded = wrap(record, ORIGIN)
    assert dict(decoded.event.attributes) == {
        "specversion": "1.0",
        "id": "3:417",
        "source": "urn:skybridge:record:main/orders",
        "type": "dev.skybridge.record",
        "time": "2023-11-14T22:13:20.123Z",
        "datacontenttype": "text/csv",
        "partitionkey": "customer-7",
        "recordheaders": '[["x-shard","4"],["x-shard",null]]',
    }
    assert decoded.event.data == b"a,b"
    assert decoded.mode is ContentMode.BINARY
    assert decoded.foreign == (("x-shard", b"4"), ("x-shard", None))


def test_nothing_is_invented_for_what_a_record_does_not_have() -> None:
    """A tombstone stays without data, an unknown time without time."""
    decoded = wrap(Record(None, (), None), RecordLocation("main", "orders", 0, "0", -1))
    assert set(decoded.event.attributes) == {"specversion", "id", "source", "type"}
    assert decoded.event.data is None


@given(records, st.sampled_from([ORIGIN, QUEUE]))
def test_whatever_the_record_holds_the_event_is_valid(
    record: Record, origin: RecordLocation
) -> None:
    """Core 1.1 to 1.3: a wrapped record that is refused further on would be lost after all."""
    event = wrap(record, origin).event
    assert faults_of(event.attributes, str) == []
    assert read_event(write_event(event)).attributes == event.attributes


@given(records, st.sampled_from([ORIGIN, QUEUE]))
def test_a_redelivery_gives_the_same_event(record: Record, origin: RecordLocation) -> None:
    """Receivers tell a repetition by source and id, and compare nothing else."""
    again = Record(
        record.key,
        record.headers,
        record.body,
        record.content_type,
        message_id=record.message_id,
        time_ms=record.time_ms,
    )
    assert wrap(record, origin) == wrap(again, origin)


@given(records)
def test_every_broker_and_webhooks_can_carry_it(record: Record) -> None:
    """On binary and structured ways out; what one of them cannot hold would be buried after all."""
    decoded = wrap(record, ORIGIN)
    for mode in ("binary", "structured"):
        encode_http(decoded, EncodeOptions(mode=mode), {"*"})
    for kind in ("kafka", "rabbitmq"):
        written = BINDINGS[kind].encode(decoded, PLAIN, record.key)
        assert BINDINGS[kind].decode(written).event.attributes == decoded.event.attributes


def test_places_are_told_apart() -> None:
    """By partition, position, topic and broker; what is in a name cannot pass for another."""
    record = Record(None, (), b"x")
    origins = [
        ORIGIN,
        RecordLocation("main", "orders", 4, "417"),
        RecordLocation("main", "orders", 3, "418"),
        RecordLocation("main", "orders/x", 3, "417"),
        RecordLocation("main/orders", "x", 3, "417"),
    ]
    named = {(a["source"], a["id"]) for a in (attributes(record, each) for each in origins)}
    assert len(named) == len(origins)


def test_where_positions_do_not_last_the_message_id_names_it() -> None:
    """A queue hands a message out under another tag each time."""
    assert attributes(Record(None, (), b"x", message_id="m-1"), QUEUE)["id"] == "m-1"


@pytest.mark.parametrize("message_id", [None, "", "a\0b"])
def test_else_a_digest_of_all_of_it_does(message_id: str | None) -> None:
    record = Record(b"k", (("h", b"1"),), b"x", message_id=message_id, time_ms=5)
    name = attributes(record, QUEUE)["id"]
    assert len(name) == 32
    others = [
        Record(b"l", (("h", b"1"),), b"x", message_id=message_id, time_ms=5),
        Record(b"k", (("h", b"2"),), b"x", message_id=message_id, time_ms=5),
        Record(b"k", (("h", b"1"),), b"y", message_id=message_id, time_ms=5),
        Record(b"k", (("h", b"1"),), b"x", message_id=message_id, time_ms=6),
    ]
    assert name not in {attributes(each, QUEUE)["id"] for each in others}


@pytest.mark.parametrize("key", [b"", b"\xff", b"a\nb", None])
def test_a_key_that_is_no_text_is_no_attribute(key: bytes | None) -> None:
    assert "partitionkey" not in attributes(Record(key, (), b""))


@pytest.mark.parametrize("named", ["", "text", "text/plain\r\n", "text/ü"])
def test_what_is_no_media_type_stays_a_header(named: str) -> None:
    found = attributes(Record(None, (("content-type", named.encode()),), b""))
    assert "datacontenttype" not in found
    assert json.loads(found["recordheaders"]) == [["content-type", named]]


def test_headers_keep_bytes_controls_and_types() -> None:
    given = (("b", b"\xff\x00"), ("c", "\x00\x7f\x85\ufffe\U0001f600".encode()), ("n", None))
    natives = {"n": {"count": 2, "at": datetime(2026, 1, 1, tzinfo=UTC)}}
    text = attributes(Record(None, given, b"", natives=natives))["recordheaders"]
    assert json.loads(text) == [
        ["b", {"base64": "/wA="}],
        ["c", "\x00\x7f\x85\ufffe\U0001f600"],
        ["n", {"count": 2, "at": "2026-01-01T00:00:00Z"}],
    ]
    odd = Record(None, (("f", b"nan"),), b"", natives={"f": math.nan})
    assert json.loads(attributes(odd)["recordheaders"]) == [["f", None]]


@pytest.mark.parametrize("name", ["Authorization", "cookie", "set-cookie"])
def test_what_may_hold_a_credential_is_not_told(name: str) -> None:
    """An attribute goes to whoever the event goes to; headers of these names never do (I3)."""
    assert "recordheaders" not in attributes(Record(None, ((name, b"secret"),), b""))


def test_data_of_a_cloudevents_type_goes_as_a_document() -> None:
    """What was a broken event must not be read as that event again."""
    record = Record(None, (("content-type", b"application/cloudevents+json"),), b"{broken")
    message = encode_http(wrap(record, ORIGIN), PLAIN)
    read = read_event(message.body)
    assert (read.type, read.data) == ("dev.skybridge.record", b"{broken")
