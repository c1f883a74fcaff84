"""The fast path below aio-pika and aiormq, which handles frames of publishing and consuming channels
itself.

The libraries are slow and hide errors. aio-pika creates a task for each delivery, and looks at all open
confirms when one confirm covers many records. It drops returned messages without an id. aiormq awaits three
times for each frame, and hides why a broker rejects a virtual host or blocks publishers.

So a connection reads through ``FrameReader``, which the library uses as its stream. ``FrameReader`` handles
the confirms, returns and deliveries of fast channels, and the library gets all other frames. Only public
names are used: a transport factory, and channels that the library opens (ADR 0046).
"""

from __future__ import annotations

import abc
import asyncio
import logging
import ssl
from collections.abc import Callable
from struct import Struct
from struct import error as BadStruct  # noqa: N812 - an exception
from typing import Any

from aiormq import TransportFactory
from aiormq import exceptions as amqp
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from pamqp import commands as spec
from pamqp.body import ContentBody
from pamqp.encode import encode_table_value
from pamqp.exceptions import PAMQPException
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat
from yarl import URL

from app.brokers.rabbitmq.read_frames import (
    Delivered,
    read_plain,
    record_of,
    size_of,
    tag_of,
)

__all__ = [
    "GUARD",
    "URL",
    "AbstractChannel",
    "AbstractConnection",
    "ConfirmChannel",
    "Confirmed",
    "DeliveredMessage",
    "DeliveryChannel",
    "FastChannel",
    "Transport",
    "amqp",
    "encode_table_value",
    "spec",
]

_LOGIN_REFUSED = 403
GUARD = "guard"  # the consumer tag at a guard queue, which is always empty
_GUARD = GUARD.encode()
TLS_SHUTDOWN_WITHIN = (
    1.0  # seconds for the TLS shutdown, for which asyncio would wait half a minute
)
ALIVE = 1.0  # seconds between heartbeats that the library gets while it gets no frame of a busy connection

_HEAD = Struct(">BHI")  # of a frame: kind, channel, bytes of its payload (AMQP 0-9-1, 4.2.3)
_CONFIRM = Struct(">BHIHHQBB")  # a whole basic.ack: head, class, method, tag, multiple, end
_SIZED = Struct(">HHQ")  # of a content header: class, weight, bytes of the body (4.2.6.1)
_ACK = (0x003C0050).to_bytes(4, "big")  # basic.ack
_DELIVER = (0x003C003C).to_bytes(4, "big")  # basic.deliver
_METHOD, _CONTENT, _BODY, _END = 1, 2, 3, 0xCE
_GREETING = b"AMQP"  # sent instead of a frame by a server of another version (4.2.2)
_HEARTBEAT = marshal(Heartbeat(), 0)
_UNREADABLE = (  # what the library raises for frames that it cannot decode
    PAMQPException,
    ValueError,
    IndexError,
    RecursionError,
)

_log = logging.getLogger(__name__)

Arrived = Callable[[Delivered], None]
Returned = Callable[[DeliveredMessage], None]
Confirmed = Callable[[int, bool, bool], None]
"""A callback for a confirm. Its arguments are the delivery tag, whether all earlier tags are confirmed too,
and whether the records are stored."""


def _methods(*frames: Any) -> frozenset[bytes]:
    return frozenset(each.index.to_bytes(4, "big") for each in frames)


class FastChannel(abc.ABC):
    """A channel whose frequent methods are handled by Skybridge, with the content that follows them. The
    library handles the other methods."""

    channel: AbstractChannel | None = None

    @abc.abstractmethod
    def take(self, raw: bytes) -> bool:
        """Handle a complete frame of the channel. Return False if the library must handle it."""


class ConfirmChannel(FastChannel):
    """A channel for publishing. It passes confirms and returned messages to two callbacks."""

    methods = _methods(spec.Basic.Ack, spec.Basic.Nack, spec.Basic.Return)
    """The class and method ids of the methods that Skybridge handles, in the form of a frame."""

    def __init__(self, confirmed: Confirmed, returned: Returned) -> None:
        self.confirmed = confirmed
        self.returned = returned
        self._method: Any = None  # the method whose content is being received
        self._header: ContentHeader | None = None
        self._body: list[bytes] = []
        self._left = 0  # bytes of the body that are still to come

    def take(self, raw: bytes) -> bool:
        if len(raw) == _CONFIRM.size and raw[_HEAD.size : _HEAD.size + 4] == _ACK:
            kind, _, _, _, _, tag, multiple, end = _CONFIRM.unpack(raw)
            if kind == _METHOD and end == _END:
                self.confirmed(tag, bool(multiple & 1), True)
                return True
        if raw[0] == _METHOD:
            if raw[_HEAD.size : _HEAD.size + 4] not in self.methods:
                return False
            self._begin(_frame(raw))
            return True
        if self._method is None:
            return False
        self._receive(_frame(raw))
        return True

    def _begin(self, method: Any) -> None:
        if isinstance(method, spec.Basic.Return):
            self._method, self._header = method, None
            return
        stored = isinstance(method, spec.Basic.Ack)
        self.confirmed(method.delivery_tag, bool(method.multiple), stored)

    def _receive(self, frame: Any) -> None:
        if isinstance(frame, ContentHeader):
            self._header, self._body, self._left = frame, [], frame.body_size
        elif isinstance(frame, ContentBody):
            self._body.append(frame.value)
            self._left -= len(frame.value)
        if self._left > 0 or self._header is None:
            return
        channel: Any = self.channel
        message = DeliveredMessage(
            delivery=self._method,
            header=self._header,
            body=b"".join(self._body),
            channel=channel,
        )
        self._method, self._header, self._body = None, None, []
        self.returned(message)


class DeliveryChannel(FastChannel):
    """A channel that consumes one queue and the guard queue that marks the owner. It passes deliveries to a
    callback."""

    def __init__(self, arrived: Arrived) -> None:
        self._arrived = arrived
        self._tag = 0  # of the message that is being received; 0: none
        self._guards = False  # whether that message is in the guard queue
        self._header = b""
        self._body: list[bytes] = []
        self._left = 0  # bytes of the body that are still to come

    def take(self, raw: bytes) -> bool:
        try:
            return self._take(raw)
        except BadStruct as error:
            raise amqp.InvalidFrameError(f"a damaged frame: {error}") from error

    def _take(self, raw: bytes) -> bool:
        kind = raw[0]
        if raw[-1] != _END:
            _frame(raw)  # raises
        if kind == _METHOD:
            if raw[_HEAD.size : _HEAD.size + 4] != _DELIVER:
                return False
            consumer, self._tag = tag_of(raw)
            self._guards, self._header = consumer == _GUARD, b""
            return True
        if not self._tag:
            return False
        if kind == _CONTENT:
            self._header, self._body, self._left = raw, [], size_of(raw)
        elif kind == _BODY:
            body = raw[_HEAD.size : -1]
            self._body.append(body)
            self._left -= len(body)
        else:
            _frame(raw)  # raises, unless it is a heartbeat
        if self._left <= 0 and self._header:
            self._complete()
        return True

    def _complete(self) -> None:
        tag, header, body = self._tag, self._header, b"".join(self._body)
        self._tag, self._header, self._body = 0, b"", []
        if not self._guards:
            delivered = read_plain(tag, header, body)
            self._arrived(delivered or Delivered(tag, *record_of(_frame(header).properties, body)))


class FrameReader(asyncio.StreamReader):
    """The stream from which the library reads. It contains all frames in their order, except those that fast
    channels handle.

    Fast channels handle their frames as soon as the frames arrive, without a task and its step of the event loop.
    """

    def __init__(self, noticed: Callable[[Any], bool] = lambda _: False) -> None:
        """Create the stream. ``noticed`` is called with each method of the connection itself, not of a channel. If
        it returns True, the library does not see the method."""
        super().__init__()
        self.hot: dict[int, FastChannel] = {}
        self._noticed = noticed
        self._rest = b""  # an incomplete frame
        self._fault: Exception | None = None  # raised after all frames before it were read
        self._greeted = False
        self._is_greeting = (
            False  # the server has another version, and sends this instead of a frame
        )
        self._passed = asyncio.get_running_loop().time()  # time of the last frame for the library

    def at_eof(self) -> bool:
        """Return False always. At the end of the connection ``readexactly`` raises an error instead."""
        return False

    async def readexactly(self, n: int) -> bytes:
        """Return the next ``n`` bytes. Raise IncompleteReadError at the end, and InvalidFrameError for
        an invalid frame."""
        try:
            return await super().readexactly(n)
        except asyncio.IncompleteReadError:
            if self._fault is None:
                raise
            raise self._fault from None

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # a protocol of asyncio gives bytes
        """Take bytes from the socket: pass complete frames to their channels, or to the library."""
        if self._fault is not None:
            return
        left: list[bytes] = []
        is_valid = self._cut(self._rest + data if self._rest else data, left)
        now = asyncio.get_running_loop().time()
        if not left and self.hot and now - self._passed >= ALIVE:
            left.append(_HEARTBEAT)  # RabbitMQ sends none while it sends other frames
        if left:
            self._passed = now
            super().feed_data(b"".join(left))
        if not is_valid:
            self.feed_eof()

    def _cut(self, data: bytes, left: list[bytes]) -> bool:
        """Take all complete frames. Append those of the library to ``left``. Return False if one is invalid."""
        at, size = 0, len(data)
        if not self._greeted and (self._is_greeting or data.startswith(_GREETING)):
            self._is_greeting = True
            left.append(data)
            self._rest = b""
            return True
        while size - at >= _HEAD.size:
            _, channel, length = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + length + 1
            if end > size:
                break
            self._greeted = True
            raw = data[at:end]
            try:
                hot = self.hot.get(channel)
                if hot is None or not hot.take(raw):
                    self._pass_on(raw, channel, left)
            except amqp.InvalidFrameError as fault:
                self._fault = fault
                return False
            at = end
        self._rest = data[at:]
        return True

    def _pass_on(self, raw: bytes, channel: int, left: list[bytes]) -> None:
        if raw[0] == _METHOD:
            method = _frame(raw)
            if channel == 0 and self._noticed(method):
                return
        if raw[0] == _CONTENT and not _is_readable(raw):
            raw = marshal(_frame(raw), channel)
        left.append(raw)


def _frame(raw: bytes) -> Any:
    """Return the decoded frame. Raise InvalidFrameError if it cannot be decoded."""
    try:
        return unmarshal(raw)[2]
    except _UNREADABLE as error:
        if raw[0] == _CONTENT and len(raw) >= _HEAD.size + _SIZED.size and raw[-1] == _END:
            return _without_properties(raw, error)
        raise amqp.InvalidFrameError(str(error)) from error


def _is_readable(raw: bytes) -> bool:
    try:
        unmarshal(raw)
    except _UNREADABLE:
        return False
    return True


def _without_properties(raw: bytes, error: Exception) -> ContentHeader:
    """Return a content header without its properties, which the library cannot decode.

    Examples are a time in the year 57868, a name that is not UTF-8, and tables nested 500 deep. Without this
    replacement the connection would end, and the broker would deliver the message again without end.
    """
    _log.warning(
        "a message is read without its properties, because they cannot be decoded: %s", error
    )
    size = _SIZED.unpack_from(raw, _HEAD.size)[2]
    return ContentHeader(0, size, spec.Basic.Properties())


class Transport(TransportFactory):
    """The socket of one connection. Frames are read through ``FrameReader``. Skybridge writes its own frames
    between those of the library."""

    def __init__(
        self, context: ssl.SSLContext | None, changed: Callable[[], None] = lambda: None
    ) -> None:
        """Create the transport without connecting it. ``changed`` is called when ``blocked`` changes."""
        self.blocked = ""  # why the broker blocks publishers; empty if it does not
        self._context = context
        self._changed = changed
        self._incoming: FrameReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._close_method: spec.Connection.Close | None = None

    async def create(self, url: URL, **_options: Any) -> tuple[Any, asyncio.StreamWriter]:
        tls_shutdown = None if self._context is None else TLS_SHUTDOWN_WITHIN
        loop = asyncio.get_running_loop()
        incoming = self._incoming = FrameReader(self._notice)
        protocol = asyncio.StreamReaderProtocol(incoming)
        transport, _ = await loop.create_connection(
            lambda: protocol,
            url.host or "",  # the settings have given both
            url.port or 0,
            ssl=self._context,
            ssl_shutdown_timeout=tls_shutdown,
        )
        self._writer = asyncio.StreamWriter(transport, protocol, incoming, loop)
        return incoming, self._writer

    def write(self, frames: bytes) -> None:
        """Write complete frames without waiting. They are dropped if the connection is closed."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frames)

    def abort(self) -> None:
        """Close the socket at once. Data that is still buffered is not sent."""
        if self._writer is not None:
            self._writer.transport.abort()

    def refusal(self) -> Exception | None:
        """Return why the broker ended the login, or None. The library hides the reason if the broker rejects
        the virtual host."""
        frame = self._close_method
        if frame is None:
            return None
        if frame.reply_code == _LOGIN_REFUSED:
            return amqp.ProbableAuthenticationError(frame.reply_text)
        return amqp.ConnectionClosed(frame.reply_code, frame.reply_text)

    async def open(
        self, connection: AbstractConnection, hot: FastChannel, *, confirms: bool = False
    ) -> AbstractChannel:
        """Open a channel. ``hot`` handles its frequent frames."""
        incoming = self._incoming
        if incoming is None:
            raise ConnectionError("the connection is closed")
        channel = await connection.channel(publisher_confirms=confirms)
        hot.channel = channel
        incoming.hot[channel.number] = hot
        channel.closing.add_done_callback(lambda _: self._forget(channel.number, hot))
        return channel

    def _forget(self, number: int, hot: FastChannel) -> None:
        if self._incoming is not None and self._incoming.hot.get(number) is hot:
            del self._incoming.hot[number]

    def _notice(self, method: Any) -> bool:
        """Remember that the broker closes the connection or blocks publishers. Return True to hide a block
        from the library.

        The library would not open channels while publishers are blocked.
        """
        if isinstance(method, spec.Connection.Close):
            self._close_method = method
        elif isinstance(method, spec.Connection.Blocked):
            self.blocked = str(method.reason) or "no reason given"
            self._changed()
            return True
        elif isinstance(method, spec.Connection.Unblocked):
            self.blocked = ""
            self._changed()
            return True
        return False
