"""Frames that we read by the buffer are what the library reads one by one, however the bytes arrive."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiormq.connection import FrameReceiver
from aiormq.exceptions import AMQPConnectionError, ConnectionClosed, InvalidFrameError
from hypothesis import example, given
from hypothesis import strategies as st
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic, Channel, Connection
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from app.bindings.record import Record
from app.brokers.rabbitmq.aiormq_adapter import (
    ALIVE,
    ConfirmChannel,
    DeliveredMessage,
    DeliveryChannel,
    FastChannel,
    FrameReader,
    Transport,
)
from app.brokers.rabbitmq.frames import content
from app.brokers.rabbitmq.read_frames import Delivered, read_plain, record_of

HOT = 7  # a channel that is read here

Arrived = tuple[int, int, object]

numbers = st.integers(1, 2**63 - 1)
texts = st.text("abz019._-", max_size=40)  # as an exchange may be called
frames = st.one_of(
    st.builds(Basic.Ack, numbers, st.booleans()),
    st.builds(Basic.Nack, numbers, st.booleans()),
    st.builds(Basic.Deliver, texts, numbers, st.booleans(), texts, texts),
    st.builds(ContentHeader, st.just(0), st.integers(0, 2**40), st.builds(Basic.Properties)),
    st.binary(min_size=1, max_size=300).map(ContentBody),
    st.builds(Connection.Blocked, texts),
    st.just(Channel.CloseOk()),
    st.just(Heartbeat()),
)


async def read(
    pieces: Sequence[bytes], hot: FastChannel | None = None, number: int = HOT
) -> tuple[list[Arrived], BaseException]:
    """What the library makes of ``pieces`` and then the end of the connection: frames, and why there are no more."""
    incoming = FrameReader()
    if hot is not None:
        incoming.hot[number] = hot

    async def feed() -> None:
        for piece in pieces:
            incoming.feed_data(piece)
            await asyncio.sleep(0)
        incoming.feed_eof()

    feeding = asyncio.create_task(feed())
    arrived: list[Arrived] = []
    try:
        async for frame in FrameReceiver(incoming):
            arrived.append(frame)  # noqa: PERF401 - what came before the error counts
    except (AMQPConnectionError, InvalidFrameError) as error:
        return arrived, error
    finally:
        await feeding
    raise AssertionError("a connection that ends says why")


def told(arrived: Arrived) -> tuple[int, int, str, object]:
    size, channel, frame = arrived
    inside = frame.value if isinstance(frame, ContentBody) else _members(frame)
    return size, channel, type(frame).__name__, inside


def _members(frame: object) -> object:
    if isinstance(frame, ContentHeader):
        return frame.body_size, dict(frame.properties)
    return dict(frame) if isinstance(frame, Frame) else None


@given(st.lists(st.tuples(frames, st.integers(0, 6)), max_size=12), st.data())
def test_frames_are_those_of_the_library(
    sent: list[tuple[Frame, int]], data: st.DataObject
) -> None:
    raw = [
        marshal(frame, 0 if isinstance(frame, Heartbeat) else channel) for frame, channel in sent
    ]
    whole = b"".join(raw)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[at:end] for at, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    arrived, error = asyncio.run(read([piece for piece in pieces if piece]))
    assert [told(each) for each in arrived] == [told(unmarshal(each)) for each in raw]
    assert isinstance(error, AMQPConnectionError)


async def test_a_frame_larger_than_a_read_is_one_frame() -> None:
    body = bytes(130_007)
    arrived, _ = await read(
        [marshal(ContentBody(body), 3) + marshal(Basic.Ack(9, multiple=True), 3)]
    )
    assert [type(frame).__name__ for _, _, frame in arrived] == ["ContentBody", "Ack"]
    assert arrived[0][2].value == body


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            marshal(Basic.Ack(1, False), 1)[:-1] + b"\x00", id="a confirm without its end"
        ),
        pytest.param(marshal(ContentBody(b"abc"), 1)[:-1] + b"\x00", id="a body without its end"),
        pytest.param(b"\x09\x00\x01\x00\x00\x00\x02abc\xce"[:9] + b"\xce", id="of no known kind"),
        pytest.param(
            b"\x01\x00\x00\x00\x00\x00\x02\x00\xc7\xce", id="a method of the connection, cut off"
        ),
        pytest.param(
            b"\x01\x00\x03\x00\x00\x00\x02\x00\xc7\xce", id="a method of a channel, cut off"
        ),
        pytest.param(b"\x01\x00\x03\x00\x00\x00\x00\xce", id="a method without a byte"),
    ],
)
async def test_what_is_no_frame_is_an_error(raw: bytes) -> None:
    arrived, error = await read([raw])
    assert arrived == []
    assert isinstance(error, InvalidFrameError)


async def test_a_connection_that_ends_within_a_frame_gives_no_half() -> None:
    arrived, error = await read(
        [marshal(Basic.Ack(1, False), 1), marshal(Basic.Ack(2, False), 1)[:9]]
    )
    assert [frame.delivery_tag for _, _, frame in arrived] == [1]
    assert isinstance(error, AMQPConnectionError)


LATIN = marshal(ContentHeader(0, 3, Basic.Properties(content_type="a/b")), 4)
LATIN = LATIN.replace(b"a/b", b"a/\xe9")  # which AMQP does not have


def nested(depth: int) -> bytes:
    """The header of a message whose table has a table in a table, and so on."""
    value = b"V"
    for _ in range(depth):
        value = b"F" + struct.pack(">I", len(value) + 2) + b"\x01a" + value
    table = struct.pack(">I", len(value) + 2) + b"\x01a" + value
    payload = struct.pack(">HHQH", 60, 0, 3, 0x2000) + table
    return struct.pack(">BHI", 2, 4, len(payload)) + payload + b"\xce"


@pytest.mark.parametrize("unreadable", [LATIN, nested(15_000)], ids=["Latin-1", "nested"])
async def test_a_message_whose_properties_cannot_be_read_comes_without_them(
    unreadable: bytes,
) -> None:
    """The broker would deliver it for ever to a connection that ends, and nothing behind it."""
    behind = marshal(ContentBody(b"abc"), 4) + marshal(Basic.Ack(9, multiple=False), 4)
    arrived, _ = await read([unreadable + behind])
    (_, channel, header), (_, _, body), (_, _, ack) = arrived
    assert (channel, header.body_size, header.properties.content_type) == (4, 3, None)
    assert (body.value, ack.delivery_tag) == (b"abc", 9)


async def test_what_stands_before_a_bad_frame_is_handed_out() -> None:
    good = marshal(Basic.Ack(1, multiple=False), 1)
    arrived, error = await read([good + marshal(ContentBody(b"abc"), 1)[:-1] + b"\x00" + good])
    assert [type(frame).__name__ for *_, frame in arrived] == ["Ack"]
    assert isinstance(error, InvalidFrameError)


class Told:
    """What a hot channel was told, in its order."""

    def __init__(self) -> None:
        self.all: list[object] = []

    def confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        self.all.append((tag, multiple, stored))

    def message(self, message: DeliveredMessage) -> None:
        self.all.append((type(message.delivery).__name__, message.body))

    def delivered(self, message: Delivered) -> None:
        self.all.append((message.tag, message.record.body))


def message(method: Frame, body: bytes, *cuts: int) -> bytes:
    pieces = [body[at:end] for at, end in zip((0, *cuts), (*cuts, len(body)), strict=True)]
    header = ContentHeader(0, len(body), Basic.Properties())
    frames = [method, header, *map(ContentBody, filter(None, pieces))]
    return b"".join(marshal(each, HOT) for each in frames)


async def test_confirms_and_returns_of_a_hot_channel_do_not_reach_the_library() -> None:
    told = Told()
    back = message(Basic.Return(312, "NO_ROUTE", "e", "k"), b"abc", 2)
    sent = [marshal(Basic.Ack(1, multiple=True), HOT), back, marshal(Basic.Nack(2), HOT)]
    others = [marshal(Basic.Ack(1), 3), marshal(Channel.CloseOk(), HOT)]
    arrived, _ = await read([*sent, *others], ConfirmChannel(told.confirmed, told.message))
    assert told.all == [(1, True, True), ("Return", b"abc"), (2, False, False)]
    assert [(channel, type(each).__name__) for _, channel, each in arrived] == [
        (3, "Ack"),
        (HOT, "CloseOk"),
    ]


@given(st.lists(st.binary(max_size=60), max_size=5), st.data())
def test_deliveries_are_whole_and_in_order_however_their_bytes_arrive(
    bodies: list[bytes], data: st.DataObject
) -> None:
    told = Told()
    deliver = Basic.Deliver("tag", 1, False, "e", "k")
    guard = message(Basic.Deliver("guard", 1, False, "e", "k"), b"never told")
    whole = guard + b"".join(
        message(deliver, body, *([1] if len(body) > 1 else [])) for body in bodies
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[at:end] for at, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    arrived, _ = asyncio.run(
        read([each for each in pieces if each], DeliveryChannel(told.delivered))
    )
    assert arrived == []
    assert told.all == [(1, body) for body in bodies]


values = st.one_of(
    st.text(max_size=20),
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.dictionaries(st.text("ab", min_size=1, max_size=3), st.text(max_size=3), max_size=2),
)
names = st.one_of(
    st.sampled_from(["x-skybridge-key", "x-stream-offset", "x-delivery-count", "ce-id", "é"]),
    st.text("abz-é", min_size=1, max_size=12),
)
properties = st.builds(
    Basic.Properties,
    content_type=st.none() | st.sampled_from(["application/json", "text/é"]),
    content_encoding=st.none() | st.just("gzip"),
    headers=st.none() | st.dictionaries(names, values, max_size=5),
    delivery_mode=st.none() | st.integers(1, 2),
    priority=st.none() | st.integers(0, 9),
    message_id=st.none() | st.text(max_size=20),
    timestamp=st.none()
    | st.datetimes(min_value=datetime(1970, 1, 2)).map(  # noqa: DTZ001 - of the library
        lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
    ),
    app_id=st.none() | st.just("app"),
)


@given(properties, st.binary(max_size=20))
@example(Basic.Properties(headers={"x-stream-offset": None}), b"")
@example(Basic.Properties(headers={"x-delivery-count": "3"}), b"")
def test_a_plainly_read_delivery_is_that_of_the_library(
    found: Basic.Properties, body: bytes
) -> None:
    raw = marshal(ContentHeader(0, len(body), found), HOT)
    plain = read_plain(3, raw, body)
    if plain is not None:
        header: Any = unmarshal(raw)[2]
        record, offset = record_of(header.properties, body)
        assert (plain.tag, plain.record, plain.offset) == (3, record, offset)


@pytest.mark.parametrize("offset", ["abc", None, {"a": 1}, True, 1.5])
def test_a_publisher_may_set_a_header_of_the_broker_to_anything(offset: object) -> None:
    """An error here would end the connection, and the broker would deliver the message again for ever."""
    found = Basic.Properties(headers={"x-stream-offset": offset, "a": "b"})
    raw = marshal(ContentHeader(0, 3, found), HOT)
    record, position = record_of(found, b"abc")
    assert (record.headers, position) == ((("a", b"b"),), None)
    assert read_plain(1, raw, b"abc") in (None, Delivered(1, record))


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, HOT, len(payload)) + payload + b"\xce"


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(frame(1, b"\0\x3c\0\x3c\x03tag\0\0\0"), id="a delivery tag of 3 bytes"),
        pytest.param(frame(1, b"\0\x3c\0\x3c"), id="a delivery without a tag"),
    ],
)
async def test_a_damaged_delivery_is_an_invalid_frame(damaged: bytes) -> None:
    """AMQP 4.2.3: the frame cannot be read, so the connection ends with a reason."""
    arrived, error = await read([damaged], DeliveryChannel(Told().delivered))
    assert arrived == []
    assert isinstance(error, InvalidFrameError)


async def test_a_content_header_without_a_size_is_an_invalid_frame() -> None:
    deliver = marshal(Basic.Deliver("tag", 1, False, "e", "k"), HOT)
    _, error = await read([deliver, frame(2, b"\0\x3c\0")], DeliveryChannel(Told().delivered))
    assert isinstance(error, InvalidFrameError)


@pytest.mark.parametrize("missing", [1, 2, 7, 8, 9, 20])
def test_a_header_that_ends_too_early_is_left_to_the_library(missing: int) -> None:
    """The end mark of the frame is no part of a value."""
    found = Basic.Properties(
        headers={"a": "b"}, message_id="12", timestamp=datetime(2026, 1, 1, tzinfo=UTC)
    )
    whole = marshal(ContentHeader(0, 3, found), HOT)[7:-1]
    assert read_plain(1, frame(2, whole), b"abc") is not None
    assert read_plain(1, frame(2, whole[:-missing]), b"abc") is None


@given(st.binary(max_size=40), st.integers(0, 2**16 - 1))
def test_damaged_properties_are_left_to_the_library(damage: bytes, flags: int) -> None:
    payload = struct.pack(">HHQH", 60, 0, 3, flags) + damage
    raw = struct.pack(">BHI", 2, HOT, len(payload)) + payload + b"\xce"
    plain = read_plain(3, raw, b"abc")
    assert plain is None or plain.record.body == b"abc"


def test_what_skybridge_publishes_is_read_plainly() -> None:
    headers = (("ce-id", b"1"), ("ce-note", b"\xff"), ("nothing", None))
    record = Record(b"k", headers, b"abc", "a/b", message_id="1", time_ms=5_000)
    header = content(record, HOT, 4096)[: -len(b"abc") - 8]
    assert read_plain(1, header, b"abc") == Delivered(1, record)


async def test_an_unreadable_delivery_comes_without_its_properties() -> None:
    told = Told()
    deliver = marshal(Basic.Deliver("tag", 1, False, "e", "k"), 4)
    await read(
        [deliver + LATIN + marshal(ContentBody(b"abc"), 4)], DeliveryChannel(told.delivered), 4
    )
    assert told.all == [(1, b"abc")]


async def test_a_busy_connection_is_alive_for_the_library() -> None:
    """RabbitMQ sends no heartbeat while it sends other frames, and the library sees none of these."""
    loop = asyncio.get_running_loop()
    incoming = FrameReader()
    incoming.hot[HOT] = ConfirmChannel(Told().confirmed, Told().message)
    incoming._passed = loop.time() - ALIVE
    incoming.feed_data(marshal(Basic.Ack(1), HOT))
    _, channel, frame = await FrameReceiver(incoming).get_frame()
    assert (channel, type(frame)) == (0, Heartbeat)


async def test_blocked_publishers_are_told_here_alone_and_a_refused_login_says_why() -> None:
    """The library would open no channel while it knows that the broker blocks publishers."""
    changes: list[str] = []
    transport = Transport(None, lambda: changes.append(transport.blocked))
    blocked, free = Connection.Blocked("low on memory"), Connection.Unblocked()
    assert transport.refusal() is None
    refused = Connection.Close(530, "vhost x not found", 10, 40)
    noticed = [transport._notice(each) for each in (blocked, free, refused)]
    assert noticed == [True, True, False]
    assert changes == ["low on memory", ""]
    assert str(transport.refusal()) == str(ConnectionClosed(530, "vhost x not found"))


@pytest.mark.parametrize("cut", range(1, 8))
async def test_a_greeting_of_another_version_reaches_the_library_whole(cut: int) -> None:
    """AMQP 4.2.2: a server of another version sends its protocol header, and closes the connection."""
    greeting = b"AMQP\0\0\x09\1"
    incoming = FrameReader()
    incoming.feed_data(greeting[:cut])
    incoming.feed_data(greeting[cut:])
    incoming.feed_eof()
    assert await incoming.read() == greeting
