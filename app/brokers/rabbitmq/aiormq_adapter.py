"""What lies below aio-pika, in one place: the connection and channels of aiormq, and types of pamqp.

aio-pika gives a task to every delivery, walks all open confirms for each one that covers many, and drops
what comes back without a message id; its connection does not tell when the broker blocks publishers. So the
channels of the hot path are aiormq's own, with the few methods replaced that cost this. aiormq waits three
times for each frame that it reads, so frames are read here by the buffer. Whatever is leaned on here is guarded
by ``test_internals``.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Self, TypeVar

from aiormq import exceptions as amqp
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.connection import Connection, FrameReceiver, TransportFactory
from pamqp import commands as spec
from pamqp.base import Frame
from pamqp.encode import encode_table_value
from pamqp.exceptions import PAMQPException
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader
from yarl import URL

__all__ = [
    "GUARD",
    "URL",
    "AnyChannel",
    "Channel",
    "ConfirmChannel",
    "Confirmed",
    "ConsumeChannel",
    "Core",
    "DeliveredMessage",
    "amqp",
    "encode_table_value",
    "spec",
]

_LOGIN_REFUSED = 403
GUARD = "guard"  # the consumer tag at a queue that nobody writes to
GOODBYE_WITHIN = (
    1.0  # seconds for the end of a TLS session, which asyncio would wait for half a minute
)
FRAMES = 1_000  # frames of one channel that are read ahead
READ = 64 * 1024  # bytes of one read

_HEAD = Struct(">BHI")  # of a frame: kind, channel, bytes of its payload (AMQP 0-9-1, 4.2.3)
_CONFIRM = Struct(">BHIHHQBB")  # a whole basic.ack: head, class, method, tag, multiple, end
_SIZED = Struct(">HHQ")  # of a content header: class, weight, bytes of the body (4.2.6.1)
_ACK = (60, 80)
_METHOD, _CONTENT, _END = 1, 2, 0xCE

_log = logging.getLogger(__name__)

Arrived = tuple[int, int, Any]
"""A frame as the library's own receiver tells it: bytes, channel, frame."""

AnyChannel = TypeVar("AnyChannel", bound=Channel)
Confirmed = Callable[[int, bool, bool], None]
"""Delivery tag; whether all up to it are meant; whether they are stored."""


class Transport(TransportFactory):
    """The socket, in our hands too: whole frames may be written between those of the library."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self.writer: asyncio.StreamWriter | None = None

    async def create(
        self, url: URL, **_options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        goodbye = None if self._context is None else GOODBYE_WITHIN
        reader, self.writer = await asyncio.open_connection(
            url.host, url.port, ssl=self._context, ssl_shutdown_timeout=goodbye
        )
        return reader, self.writer

    def abort(self) -> None:
        """Hang up; what is not yet with the operating system is never sent."""
        if self.writer is not None:
            self.writer.transport.abort()


class Incoming:
    """Frames of one connection, in their order. Iterated over by one task."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._rest = b""
        self._whole: deque[Arrived] = deque()
        self._fault: Exception | None = None  # of what stands behind them

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Arrived:
        """Raises AMQPConnectionError when the connection ends, InvalidFrameError for what is no frame."""
        while not self._whole:
            if self._fault is not None:
                raise self._fault
            try:
                data = await self._reader.read(READ)
            except OSError as error:
                raise amqp.AMQPConnectionError(f"the connection is lost: {error!r}") from error
            if not data:
                raise amqp.AMQPConnectionError("the server has closed the connection")
            self._cut(self._rest + data)
        return self._whole.popleft()

    def _cut(self, data: bytes) -> None:
        at, size = 0, len(data)
        while size - at >= _HEAD.size:
            end = at + _HEAD.size + _HEAD.unpack_from(data, at)[2] + 1
            if end > size:
                break
            try:
                self._whole.append(_arrived(data[at:end]))
            except amqp.InvalidFrameError as fault:
                self._fault = fault
                return
            at = end
        self._rest = data[at:]


def _arrived(raw: bytes) -> Arrived:
    """One whole frame. Most are confirms, and the library takes 5 us for each."""
    if len(raw) == _CONFIRM.size:
        kind, channel, _, group, method, tag, multiple, end = _CONFIRM.unpack(raw)
        if kind == _METHOD and (group, method) == _ACK and end == _END:
            return len(raw), channel, spec.Basic.Ack(tag, bool(multiple & 1))
    try:
        return unmarshal(raw)
    except (PAMQPException, RecursionError) as error:
        if raw[0] == _CONTENT and len(raw) >= _HEAD.size + _SIZED.size and raw[-1] == _END:
            return _unread(raw, error)
        raise amqp.InvalidFrameError(str(error)) from error


def _unread(raw: bytes, error: Exception) -> Arrived:
    """A message whose properties the library cannot read (a time in the year 57868, a name that is no UTF-8,
    a table in a table five hundred times over) comes without them. The broker would deliver it again for ever to a connection that ends."""
    _log.warning("a message comes without its properties, for they cannot be read: %s", error)
    _, channel, _ = _HEAD.unpack_from(raw)
    size = _SIZED.unpack_from(raw, _HEAD.size)[2]
    return len(raw), channel, ContentHeader(0, size, spec.Basic.Properties())


class Core(Connection):
    """A connection that tells when the broker blocks its publishers, and takes frames of ours."""

    def __init__(
        self, url: URL, vhost: str, context: ssl.SSLContext | None, changed: Callable[[], None]
    ) -> None:
        """``changed``: called when ``blocked`` does."""
        self.transport = Transport(context)
        super().__init__(url, transport_factory=self.transport)
        self.vhost = vhost
        self.blocked = ""  # the broker's reason
        self._changed = changed

    async def _Connection__reader(self, frame_receiver: FrameReceiver) -> None:  # noqa: N802 - the library's own name
        """From the end of the login on, which the library's own receiver has read to its last byte."""
        await super()._Connection__reader(Incoming(frame_receiver.reader))  # type: ignore[misc]  # found by its mangled name

    async def _Connection__handle_connection_blocked(self, frame: spec.Connection.Blocked) -> None:  # noqa: N802 - the library's own name
        self.blocked = str(frame.reason) or "no reason given"
        self._changed()

    async def _Connection__handle_connection_unblocked(  # noqa: N802 - the library's own name
        self, _: spec.Connection.Unblocked
    ) -> None:
        self.blocked = ""
        self._changed()

    @staticmethod
    async def _rpc(
        request: Frame,
        writer: asyncio.StreamWriter,
        frame_receiver: FrameReceiver,
        wait_response: bool = True,
    ) -> Any:
        """A step of the login. The library's own loses why the broker refuses a virtual host."""
        writer.write(marshal(request, 0))
        await writer.drain()
        if not wait_response:
            return None
        _, _, frame = await frame_receiver.get_frame()
        if isinstance(frame, spec.Connection.Close):
            if frame.reply_code == _LOGIN_REFUSED:
                raise amqp.ProbableAuthenticationError(frame.reply_text)
            raise amqp.ConnectionClosed(frame.reply_code, frame.reply_text)
        return frame  # the caller looks at its kind

    def write(self, frames: bytes) -> None:
        """Whole frames, now; does not wait. Dropped when the connection is gone."""
        writer = self.transport.writer
        if writer is not None and not writer.is_closing():
            writer.write(frames)

    async def open(self, make: Callable[[Core, int], AnyChannel]) -> AnyChannel:
        number = max(self.channels, default=0) + 1
        channel = make(self, number)
        self.channels[number] = channel
        await channel.open()
        return channel

    def tasks(self) -> list[asyncio.Task[Any]]:
        """The library's own, which nobody waits for once the connection is lost."""
        found = (getattr(self, name, None) for name in ("_reader_task", "_writer_task"))
        return [wrapper.task for wrapper in found if wrapper is not None]


class ConfirmChannel(Channel):
    """Publishes; tells of each confirm and each return."""

    def __init__(
        self,
        core: Core,
        number: int,
        confirmed: Confirmed,
        returned: Callable[[DeliveredMessage], None],
        *,
        confirms: bool,
    ) -> None:
        super().__init__(core, number, publisher_confirms=confirms, frame_buffer=FRAMES)
        self._confirmed = confirmed
        self._returned = returned

    async def _on_confirm_frame(self, frame: Any) -> None:
        stored = isinstance(frame, spec.Basic.Ack)
        self._confirmed(frame.delivery_tag, bool(frame.multiple), stored)

    async def _on_return_frame(self, frame: spec.Basic.Return) -> None:
        header: Any = await self._get_frame()
        self._returned(await self._read_content(frame, header))


class ConsumeChannel(Channel):
    """Consumes one queue, and stands at its guard; each delivery is handed on in the reader's own step."""

    def __init__(
        self, core: Core, number: int, delivered: Callable[[DeliveredMessage], None]
    ) -> None:
        super().__init__(core, number, publisher_confirms=False, frame_buffer=FRAMES)
        self._delivered = delivered

    async def _on_deliver_frame(self, frame: spec.Basic.Deliver) -> None:
        header: Any = await self._get_frame()
        message = await self._read_content(frame, header)
        if frame.consumer_tag != GUARD:
            self._delivered(message)
