"""Frames that we write ourselves are what the library reads back, for any record."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame as pamqp_frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.bindings.record import Native, Record
from app.brokers.rabbitmq.frames import (
    HeadersTooLarge,
    UnwritableRecord,
    ack,
    content,
    publish_method,
    short_string,
)

CHANNEL, FRAME_MAX = 3, 4096

names = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40
).filter(lambda name: name != "x-skybridge-key")
records = st.builds(
    Record,
    key=st.none() | st.binary(max_size=60),
    headers=st.lists(
        st.tuples(
            names, st.none() | st.binary(max_size=80) | st.binary(min_size=510, max_size=514)
        ),
        max_size=6,
    ).map(tuple),
    body=st.none() | st.binary(max_size=3 * FRAME_MAX),
    content_type=st.none() | st.text(st.characters(codec="ascii"), max_size=60),
    message_id=st.none() | st.text(max_size=60),
    time_ms=st.none() | st.integers(0, 4_000_000_000_000),
)


def frames_of(wire: bytes) -> list:
    found = []
    while wire:
        size, channel, frame = pamqp_frame.unmarshal(wire)
        assert channel == CHANNEL
        assert size <= FRAME_MAX
        found.append(frame)
        wire = wire[size:]
    return found


def as_bytes(value):
    return value.encode() if isinstance(value, str) else value


@given(records)
def test_any_record_is_read_back_as_it_was(record: Record) -> None:
    """The library shares no code with ours but the specification (AMQP 4.2)."""
    header, *bodies = frames_of(content(record, CHANNEL, FRAME_MAX))
    assert isinstance(header, ContentHeader)
    assert all(isinstance(body, ContentBody) for body in bodies)
    body = b"".join(body.value for body in bodies)
    assert body == (record.body or b"")
    assert header.body_size == len(body)
    properties = header.properties
    assert properties.delivery_mode == 2
    assert properties.content_type == record.content_type
    assert (properties.message_id or None) == (record.message_id or None)
    expected: dict[str, bytes | None] = {}
    for name, value in record.headers:
        expected.setdefault(name, value)
    if record.key is not None:
        expected["x-skybridge-key"] = record.key
    table = properties.headers or {}
    assert {name: as_bytes(value) for name, value in table.items()} == expected
    assert list(table) == list(expected), "in their order"
    moment = properties.timestamp
    seconds = None if record.time_ms is None else record.time_ms // 1000
    assert (None if moment is None else int(moment.timestamp())) == seconds


@pytest.mark.parametrize(
    "native",
    [True, 7, -(2**40), 1.5, datetime(2026, 1, 1, tzinfo=UTC), bytearray(b"\xff"), ["a", 1]],
)
def test_typed_values_keep_their_type(native) -> None:
    """R9: what came typed goes on typed."""
    record = Record(None, (("n", b"text"),), b"", natives={"n": native})
    header, *_ = frames_of(content(record, CHANNEL, FRAME_MAX))
    assert header.properties.headers == {"n": native}


def test_the_publish_is_mandatory_and_persistent() -> None:
    """What nothing would keep comes back (reliability 5.2)."""
    [method] = frames_of(publish_method(CHANNEL, "orders", "7"))
    assert isinstance(method, Basic.Publish)
    assert (method.exchange, method.routing_key) == ("orders", "7")
    assert method.mandatory is True
    assert method.immediate is False


@pytest.mark.parametrize("multiple", [True, False])
def test_an_acknowledgement_names_its_delivery(multiple: bool) -> None:
    [method] = frames_of(ack(CHANNEL, 2**40, multiple=multiple))
    assert isinstance(method, Basic.Ack)
    assert (method.delivery_tag, method.multiple) == (2**40, multiple)


def test_headers_beyond_one_frame_are_refused_here() -> None:
    """The server would close the whole connection for it (4.2.6.1)."""
    with pytest.raises(HeadersTooLarge):
        content(Record(None, (("a", b"x" * FRAME_MAX),), b""), CHANNEL, FRAME_MAX)


def test_names_beyond_a_short_string_are_refused() -> None:
    assert short_string("x" * 255)[0] == 255
    with pytest.raises(UnwritableRecord):
        content(Record(None, (("ä" * 128, b""),), b""), CHANNEL, FRAME_MAX)
    with pytest.raises(UnwritableRecord):
        publish_method(CHANNEL, "e", "k" * 256)


@pytest.mark.parametrize("native", [datetime(1969, 12, 31, tzinfo=UTC), 2**64])
def test_a_typed_value_that_amqp_cannot_hold_is_refused(native: Native) -> None:
    """Raised as anything else it would take the whole write with it, and all that was to follow."""
    record = Record(None, (("x", None),), b"", natives={"x": native})
    with pytest.raises(UnwritableRecord, match="'x'"):
        content(record, CHANNEL, FRAME_MAX)


def test_a_message_id_without_room_is_left_out() -> None:
    """The event has its id in full in its own header; a long one must not be refused for a copy."""
    header, *_ = frames_of(content(Record(None, (), b"", message_id="i" * 256), CHANNEL, FRAME_MAX))
    assert header.properties.message_id is None
