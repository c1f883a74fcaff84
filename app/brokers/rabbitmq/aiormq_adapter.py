"""The hot path beside aio-pika and aiormq: frames of publishes and deliveries are read here.

aio-pika gives a task to every delivery, walks all open confirms for each one that covers many, and drops what comes
back without a message id. aiormq waits three times for each frame, and does not say why a broker refuses a virtual
host or blocks its publishers. So a connection reads through ``Incoming``, which the library takes as its stream:
confirms, returns and deliveries of the hot channels end there, and the library sees all other frames. Only public
names are used: a transport factory, and channels that the library opens (ADR 0046).
"""

from __future__ import annotations

import abc
import asyncio
import logging
import ssl
from collections.abc import Callable
from struct import Struct
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

__all__ = [
    "GUARD",
    "URL",
    "AbstractChannel",
    "AbstractConnection",
    "Confirmed",
    "Confirms",
    "DeliveredMessage",
    "Deliveries",
    "HotChannel",
    "Transport",
    "amqp",
    "encode_table_value",
    "spec",
]

_LOGIN_REFUSED = 403
GUARD = "guard"  # the consumer tag at a queue that nobody writes to
GOODBYE_WITHIN = (
    1.0  # seconds for the end of a TLS session, which asyncio would wait for half a minute
)
READ = 64 * 1024  # bytes of one read
ALIVE = (
    1.0  # seconds between heartbeats to the library, while it sees no frame of a busy connection
)

_HEAD = Struct(">BHI")  # of a frame: kind, channel, bytes of its payload (AMQP 0-9-1, 4.2.3)
_CONFIRM = Struct(">BHIHHQBB")  # a whole basic.ack: head, class, method, tag, multiple, end
_SIZED = Struct(">HHQ")  # of a content header: class, weight, bytes of the body (4.2.6.1)
_ACK = (60, 80)
_METHOD, _CONTENT, _END = 1, 2, 0xCE
_GREETING = b"AMQP"  # of a server that speaks another version, in place of a frame (4.2.2)
_HEARTBEAT = marshal(Heartbeat(), 0)

_log = logging.getLogger(__name__)

Delivered = Callable[[DeliveredMessage], None]
Confirmed = Callable[[int, bool, bool], None]
"""Delivery tag; whether all up to it are meant; whether they are stored."""


def _methods(*frames: Any) -> frozenset[bytes]:
    return frozenset(each.index.to_bytes(4, "big") for each in frames)


class HotChannel(abc.ABC):
    """What is read here of one channel: methods of one kind, and the content behind them."""

    methods: frozenset[bytes]
    """Class and method, as they stand in a frame."""

    def __init__(self) -> None:
        self.channel: AbstractChannel | None = None
        self._method: Any = None  # whose content is being received
        self._header: ContentHeader | None = None
        self._body: list[bytes] = []
        self._left = 0  # bytes of the body

    def take(self, raw: bytes) -> bool:
        """Handle a whole frame of the channel; return False for one that is the library's."""
        if raw[0] == _METHOD:
            if raw[_HEAD.size : _HEAD.size + 4] not in self.methods:
                return False
            self.begin(_frame(raw))
            return True
        if self._method is None:
            return False
        self._receive(_frame(raw))
        return True

    @abc.abstractmethod
    def begin(self, method: Any) -> None:
        """Handle a method, or expect its content."""

    @abc.abstractmethod
    def complete(self, message: DeliveredMessage) -> None:
        """Handle a method with its content."""

    def expect(self, method: Any) -> None:
        self._method, self._header = method, None

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
        self.complete(message)


class Confirms(HotChannel):
    """A channel that publishes: each confirm, and each message that comes back."""

    methods = _methods(spec.Basic.Ack, spec.Basic.Nack, spec.Basic.Return)

    def __init__(self, confirmed: Confirmed, returned: Delivered) -> None:
        super().__init__()
        self._confirmed = confirmed
        self._returned = returned

    def begin(self, method: Any) -> None:
        if isinstance(method, spec.Basic.Return):
            self.expect(method)
            return
        stored = isinstance(method, spec.Basic.Ack)
        self._confirmed(method.delivery_tag, bool(method.multiple), stored)

    def complete(self, message: DeliveredMessage) -> None:
        self._returned(message)


class Deliveries(HotChannel):
    """A channel that consumes one queue, and its guard."""

    methods = _methods(spec.Basic.Deliver)

    def __init__(self, delivered: Delivered) -> None:
        super().__init__()
        self._delivered = delivered

    def begin(self, method: Any) -> None:
        self.expect(method)

    def complete(self, message: DeliveredMessage) -> None:
        if message.consumer_tag != GUARD:
            self._delivered(message)


class Incoming:
    """The stream that the library reads: all frames but those of the hot channels, which end here in their order.

    Duck type of ``asyncio.StreamReader``, as far as the library's receiver uses one.
    """

    def __init__(
        self, reader: asyncio.StreamReader, noticed: Callable[[Any], bool] = lambda _: False
    ) -> None:
        """``noticed``: gets each method of the connection itself; True keeps it from the library."""
        self.hot: dict[int, HotChannel] = {}
        self._reader = reader
        self._noticed = noticed
        self._rest = b""  # of the socket, less than a frame
        self._out = b""  # for the library
        self._at = 0
        self._fault: Exception | None = None  # of what stands behind ``_out``
        self._greeted = False
        self._passed = asyncio.get_running_loop().time()  # when the library got a frame last

    def at_eof(self) -> bool:
        """Return False: the end of a connection is an error, which ``readexactly`` raises."""
        return False

    async def readexactly(self, size: int) -> bytes:
        """Raise IncompleteReadError when the connection ends, InvalidFrameError for what is no frame."""
        while len(self._out) - self._at < size:
            await self._fill(size)
        begin, self._at = self._at, self._at + size
        piece = self._out[begin : self._at]
        if self._at == len(self._out):
            self._out, self._at = b"", 0
        return piece

    async def _fill(self, wanted: int) -> None:
        if self._fault is not None:
            raise self._fault
        data = await self._reader.read(READ)
        if not data:
            raise asyncio.IncompleteReadError(self._out[self._at :], wanted)
        left: list[bytes] = []
        self._cut(self._rest + data, left)
        now = asyncio.get_running_loop().time()
        if not left and self.hot and now - self._passed >= ALIVE:
            left.append(_HEARTBEAT)  # RabbitMQ sends none while it sends other frames
        if left:
            self._passed = now
            self._out, self._at = self._out[self._at :] + b"".join(left), 0

    def _cut(self, data: bytes, left: list[bytes]) -> None:
        at, size = 0, len(data)
        if not self._greeted and data.startswith(_GREETING):
            left.append(data)
            self._rest = b""
            return
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
                return
            at = end
        self._rest = data[at:]

    def _pass_on(self, raw: bytes, channel: int, left: list[bytes]) -> None:
        if channel == 0 and raw[0] == _METHOD and self._noticed(_frame(raw)):
            return
        if raw[0] == _CONTENT and not _is_readable(raw):
            raw = marshal(_frame(raw), channel)
        left.append(raw)


def _frame(raw: bytes) -> Any:
    """One whole frame. Most are confirms, and the library takes 5 us for each."""
    if len(raw) == _CONFIRM.size:
        kind, _, _, group, method, tag, multiple, end = _CONFIRM.unpack(raw)
        if kind == _METHOD and (group, method) == _ACK and end == _END:
            return spec.Basic.Ack(tag, bool(multiple & 1))
    try:
        return unmarshal(raw)[2]
    except (PAMQPException, RecursionError) as error:
        if raw[0] == _CONTENT and len(raw) >= _HEAD.size + _SIZED.size and raw[-1] == _END:
            return _unread(raw, error)
        raise amqp.InvalidFrameError(str(error)) from error


def _is_readable(raw: bytes) -> bool:
    try:
        unmarshal(raw)
    except (PAMQPException, RecursionError):
        return False
    return True


def _unread(raw: bytes, error: Exception) -> ContentHeader:
    """A message whose properties the library cannot read (a time in the year 57868, a name that is no UTF-8,
    a table in a table five hundred times over) comes without them. The broker would deliver it again for ever to a connection that ends."""
    _log.warning("a message comes without its properties, for they cannot be read: %s", error)
    size = _SIZED.unpack_from(raw, _HEAD.size)[2]
    return ContentHeader(0, size, spec.Basic.Properties())


class Transport(TransportFactory):
    """The socket of one connection: read through ``Incoming``, and written to between frames of the library."""

    def __init__(
        self, context: ssl.SSLContext | None, changed: Callable[[], None] = lambda: None
    ) -> None:
        """``changed``: called when ``blocked`` does."""
        self.blocked = ""  # the broker's reason
        self._context = context
        self._changed = changed
        self._incoming: Incoming | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._farewell: spec.Connection.Close | None = None

    async def create(self, url: URL, **_options: Any) -> tuple[Any, asyncio.StreamWriter]:
        goodbye = None if self._context is None else GOODBYE_WITHIN
        reader, self._writer = await asyncio.open_connection(
            url.host, url.port, ssl=self._context, ssl_shutdown_timeout=goodbye
        )
        self._incoming = Incoming(reader, self._notice)
        return self._incoming, self._writer

    def write(self, frames: bytes) -> None:
        """Whole frames, now; does not wait. Dropped when the connection is gone."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frames)

    def abort(self) -> None:
        """Hang up; what is not yet with the operating system is never sent."""
        if self._writer is not None:
            self._writer.transport.abort()

    def refusal(self) -> Exception | None:
        """Return why the broker ended the login, which the library does not say for a virtual host."""
        frame = self._farewell
        if frame is None:
            return None
        if frame.reply_code == _LOGIN_REFUSED:
            return amqp.ProbableAuthenticationError(frame.reply_text)
        return amqp.ConnectionClosed(frame.reply_code, frame.reply_text)

    async def open(
        self, connection: AbstractConnection, hot: HotChannel, *, confirms: bool = False
    ) -> AbstractChannel:
        """Open a channel whose frames ``hot`` takes."""
        incoming = self._incoming
        if incoming is None:
            raise ConnectionError("the connection is closed")
        channel = await connection.channel(publisher_confirms=confirms)
        hot.channel = channel
        incoming.hot[channel.number] = hot
        channel.closing.add_done_callback(lambda _: self._forget(channel.number, hot))
        return channel

    def _forget(self, number: int, hot: HotChannel) -> None:
        if self._incoming is not None and self._incoming.hot.get(number) is hot:
            del self._incoming.hot[number]

    def _notice(self, method: Any) -> bool:
        """The library would open no channel while publishers are blocked: it is not told of that."""
        if isinstance(method, spec.Connection.Close):
            self._farewell = method
        elif isinstance(method, spec.Connection.Blocked):
            self.blocked = str(method.reason) or "no reason given"
            self._changed()
            return True
        elif isinstance(method, spec.Connection.Unblocked):
            self.blocked = ""
            self._changed()
            return True
        return False
