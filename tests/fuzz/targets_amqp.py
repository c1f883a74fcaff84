"""Frames of AMQP: content headers read by hand against the library, and the stream of frames however it is cut."""

from __future__ import annotations

import asyncio
import struct

from aiormq import exceptions as amqp
from pamqp import commands as spec
from pamqp.exceptions import PAMQPException
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader

from app.bindings.record import Record
from app.brokers.rabbitmq.aiormq_adapter import ConfirmChannel, DeliveryChannel, FrameReader
from app.brokers.rabbitmq.frames import UnwritableRecord, content
from app.brokers.rabbitmq.read_frames import Delivered, read_plain, record_of
from fuzz.loop import run
from fuzz.target import Target
from valid_wire import MESSAGES

_HEADER, _END = 2, b"\xce"
_CLASS = struct.Struct(">HHQ")
_FRAME = struct.Struct(">BHI")
_CHANNEL, _CONFIRMS, _DELIVERS = 1, 7, 8
_BODY = b"{}"


def check_header(data: bytes) -> None:
    """Read flags and properties of a content header as the library reads them, and write the record again.

    The library may refuse a header that is read here only if it has bytes after its last property.
    """
    payload = _CLASS.pack(60, 0, len(_BODY)) + data
    raw = _FRAME.pack(_HEADER, _CHANNEL, len(payload)) + payload + _END
    try:
        own = read_plain(1, raw, _BODY)
    except struct.error:
        own = None
    try:
        decoded = unmarshal(raw)[2]
    except (PAMQPException, RecursionError):
        assert own is None, "the library refuses the header"
        return
    record, offset = record_of(decoded.properties, _BODY)
    assert own is None or own == Delivered(1, record, offset)
    if own is None:
        return
    try:
        again = content(record, _CHANNEL, 1 << 17)
    except UnwritableRecord:
        return
    header = again[: -(len(_BODY) + _FRAME.size + 1)]
    found = read_plain(1, header, _BODY)
    assert found is not None
    assert found.record == record


async def _read(pieces: list[bytes]) -> tuple[list[object], bytes, str]:
    """Return what channels took of these pieces, what is left for the library, and the kind of fault."""
    seen: list[object] = []
    incoming = FrameReader()
    incoming.hot[_CONFIRMS] = ConfirmChannel(
        lambda *confirm: seen.append(confirm), lambda back: seen.append(back.body)
    )
    incoming.hot[_DELIVERS] = DeliveryChannel(seen.append)
    for piece in pieces:
        incoming.feed_data(piece)
    incoming.feed_eof()
    left = await incoming.read()
    try:
        await incoming.readexactly(1)
    except amqp.InvalidFrameError as error:
        return seen, left, type(error).__name__
    except asyncio.IncompleteReadError:
        return seen, left, ""
    raise AssertionError("bytes after the end")


def check_frames(data: bytes) -> None:
    """Read the same frames, whether they arrive at once or cut in two."""
    cut, stream = (data[0] if data else 0), data[1:]
    whole = run(_read([stream]))
    at = len(stream) * cut // 256
    assert run(_read([stream[:at], stream[at:]])) == whole


def _properties(record: Record) -> bytes:
    header = content(record, _CHANNEL, 1 << 17)
    size = _FRAME.unpack_from(header)[2]
    return header[_FRAME.size + _CLASS.size : _FRAME.size + size]


_RECORDS = [
    Record(b"key", each.headers, each.body, each.content_type, message_id="1", time_ms=1000)
    for each in MESSAGES["rabbitmq"]
]
_DELIVER = marshal(spec.Basic.Deliver("c", 5, False, "e", "r"), _DELIVERS)
_RETURN = marshal(spec.Basic.Return(312, "NO_ROUTE", "e", "r"), _CONFIRMS)
_ACK = marshal(spec.Basic.Ack(9, True), _CONFIRMS)
_WITH_TABLE = marshal(
    ContentHeader(0, 2, spec.Basic.Properties(headers={"a": [1, {"b": True}], "x-stream-offset": 7}, priority=3)),
    _DELIVERS,
)  # fmt: skip
TARGETS = (
    Target(
        "amqp-header",
        check_header,
        [*map(_properties, _RECORDS), _WITH_TABLE[_FRAME.size + _CLASS.size : -1]],
        [b"S\0\0\0\1a", b"V", b"l\0\0\0\0\0\0\0\1", b"\x0fx-stream-offset", b"\x10x-delivery-count", b"F\0\0\0\0"],
    ),
    Target(
        "amqp-frames",
        check_frames,
        [
            b"\x80" + _DELIVER + content(_RECORDS[0], _DELIVERS, 1 << 17),
            b"\x40" + _DELIVER + content(_RECORDS[1], _DELIVERS, 64 + (1 << 12)) + _ACK,
            b"\xc0" + _RETURN + content(_RECORDS[0], _CONFIRMS, 1 << 17) + _ACK,
            b"\x10" + _DELIVER + _WITH_TABLE + _ACK,
        ],
        [b"\xce", b"\0\x3c\0\x3c", b"\0\x3c\0\x50", b"AMQP\0\0\x09\1", b"\1\0\7", b"\2\0\x08"],
    ),
)  # fmt: skip
