"""Frames that we read by the buffer are what the library reads one by one, however the bytes arrive."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

import pytest
from aiormq.exceptions import AMQPConnectionError, InvalidFrameError
from hypothesis import given
from hypothesis import strategies as st
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic, Channel, Connection
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from app.brokers.rabbitmq.aiormq_adapter import READ, Arrived, Incoming

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


async def read(pieces: Sequence[bytes]) -> tuple[list[Arrived], BaseException]:
    """What comes of ``pieces`` and then the end of the connection: frames, and why there are no more."""
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()

    feeding = asyncio.create_task(feed())
    arrived: list[Arrived] = []
    try:
        async for frame in Incoming(reader):
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


@given(st.lists(st.tuples(frames, st.integers(0, 9)), max_size=12), st.data())
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
    body = bytes(2 * READ + 7)
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
