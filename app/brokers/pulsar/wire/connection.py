"""One connection to a Pulsar broker: open it, log in, ask for brokers and producers, and pass receipts on.

All methods run on the event loop. Frames of one turn of the loop are written at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, cast

from pulsar import Result

from app.brokers.pulsar.errors import ClientError
from app.brokers.pulsar.wire import commands
from app.brokers.pulsar.wire.commands import Answer, BrokerLogin, SendReceipt
from app.brokers.pulsar.wire.protobuf import MalformedMessage

KEEP_ALIVE = 30.0  # seconds without data after which the broker is asked, and then given up
LARGEST_FRAME = 1 << 20  # bytes of a frame from a broker; real ones have a few hundred
MAX_MESSAGE = 5 << 20  # bytes of a record if the broker announces no bound
_HEAD = 8

_log = logging.getLogger(__name__)

GetLogin = Callable[[], Coroutine[Any, Any, BrokerLogin]]
"""A function that returns the credentials, fresh for each call."""


class ProducerEnd(Protocol):
    """The producer of one partition, as its connection sees it."""

    def flush(self) -> list[bytes]:
        """Return the frames of the records that wait."""

    def stored(self, receipt: SendReceipt) -> None:
        """Note the receipt of a frame."""

    def refused(self, sequence: int, error: ClientError) -> None:
        """Note that the broker has refused a frame."""

    def lost(self, why: str) -> None:
        """Note that the broker or the connection has ended this producer."""


class OpeningProducer:
    """A producer whose broker has not answered yet. ``why`` is why it has ended already, or ""."""

    def __init__(self) -> None:
        self.why = ""

    def flush(self) -> list[bytes]:
        """Return no frames."""
        return []

    def stored(self, receipt: SendReceipt) -> None:
        """Ignore a receipt."""

    def refused(self, sequence: int, error: ClientError) -> None:
        """Ignore a refusal."""

    def lost(self, why: str) -> None:
        """Note that the broker or the connection has ended this producer."""
        self.why = why


class WireConnection(asyncio.Protocol):
    """A connection to one broker.

    Attributes:
        max_message: Most bytes of a record, as the broker announces.
        closed: Why the connection has ended; "" while it is open.
    """

    def __init__(self, client: str, login: GetLogin, address: str) -> None:
        self.max_message = MAX_MESSAGE
        self.closed = ""
        self._client = client
        self._login = login
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._requests: dict[int, asyncio.Future[Answer]] = {}
        self._producers: dict[int, ProducerEnd] = {}
        self._waiting: dict[int, ProducerEnd] = {}
        self._numbers = 0
        self._rest = b""
        self._heard = True
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # of a stream
        self._timer = self._loop.call_later(KEEP_ALIVE, self._check_alive)

    async def open(self, broker: str = "") -> None:
        """Log in. ``broker`` is the broker to which a proxy forwards, or "". Raise ClientError or OSError."""
        login = await self._login()
        self._write(commands.connect(self._client, login, broker))
        await self._connected

    async def ask(self, make: Callable[[int], bytes]) -> Answer:
        """Send a request, and return its answer. Raise ClientError for an error, and if the connection ends."""
        self._numbers += 1
        number = self._numbers
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._requests[number] = answer
        self._write(make(number))
        try:
            return await answer
        finally:
            self._requests.pop(number, None)

    async def open_producer(self, topic: str, number: int) -> Answer:
        """Open the producer of a partition, and return the broker's answer. Raise ClientError, also if the producer
        ends before this returns. If the caller gives up, the broker gets a command to close the producer."""
        opening = OpeningProducer()
        self._producers[number] = opening
        try:
            made = await self.ask(lambda request: commands.producer(topic, number, request))
        except BaseException:
            self.detach(number)
            raise
        if opening.why:
            raise ClientError(Result.NotConnected, opening.why)
        return made

    def attach(self, number: int, producer: ProducerEnd) -> None:
        """Pass receipts with this number to a producer."""
        self._producers[number] = producer

    def detach(self, number: int) -> None:
        """Forget a producer. The broker gets a command to close it, whose answer is not awaited."""
        if self._producers.pop(number, None) is not None and not self.closed:
            self._numbers += 1
            self._write(commands.close_producer(number, self._numbers))

    def wake(self, number: int, producer: ProducerEnd) -> None:
        """Write the waiting records of a producer at the end of this turn of the loop."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting[number] = producer

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        frames = [frame for producer in waiting.values() for frame in producer.flush()]
        if frames and self._transport is not None and not self.closed:
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def _write(self, frame: bytes) -> None:
        if self.closed or self._transport is None:
            raise ClientError(Result.NotConnected, self.closed or self._address)
        self._transport.write(frame)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        try:
            while end - at >= _HEAD and not self.closed:
                size, command = commands.SIZES.unpack_from(data, at)
                if size > LARGEST_FRAME or command + 4 > size:
                    raise MalformedMessage(f"a frame of {size} bytes")  # noqa: TRY301 - ends the connection
                if at + 4 + size > end:
                    break
                self._take(data[at + _HEAD : at + _HEAD + command])
                at += 4 + size
        except (MalformedMessage, ClientError, KeyError, TypeError) as error:
            self.close(f"{self._address} sent what is not Pulsar's protocol: {error}")
            return
        self._rest = data[at:]

    def _take(self, command: bytes) -> None:
        receipt = commands.read_receipt(command)
        if receipt is not None:
            producer = self._producers.get(receipt.producer)
            if producer is not None:
                producer.stored(receipt)
            return
        answer = commands.read(command)
        kind, content = answer
        if kind == commands.SEND_RECEIPT:
            raise MalformedMessage("a receipt without a position")
        if kind in commands.REQUEST_ID:
            self._answered(answer, content[commands.REQUEST_ID[kind]])
        elif kind == commands.CONNECTED:
            self.max_message = commands.number_at(content, 3) or MAX_MESSAGE
            if not self._connected.done():
                self._connected.set_result(None)
        else:
            self._on_command(kind, content)

    def _on_command(self, kind: int, content: Mapping[int, Any]) -> None:
        """Take a command that answers no request."""
        if kind == commands.PING:
            self._write(commands.framed(commands.PONG))
        elif kind == commands.SEND_ERROR:
            producer = self._producers.get(content[1])
            if producer is not None:
                producer.refused(content[2], commands.error_at(content, 3))
        elif kind == commands.CLOSE_PRODUCER:
            producer = self._producers.pop(content[1], None)
            if producer is not None:
                producer.lost("the broker has given the partition to another broker")
        elif kind == commands.AUTH_CHALLENGE and not self._tasks:
            task = self._loop.create_task(self._log_in_again())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _answered(self, answer: Answer, number: int) -> None:
        waiting = self._requests.get(number)
        if answer.kind == commands.ERROR:
            error = commands.error_at(answer.content, 2)
            if not self._connected.done():  # the broker refuses the login
                self._connected.set_exception(error)
            elif waiting is not None and not waiting.done():
                waiting.set_exception(error)
        elif waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _log_in_again(self) -> None:
        """Answer a request for new credentials. Without them the broker ends the connection."""
        try:
            self._write(commands.credentials(self._client, await self._login()))
        except Exception as error:  # noqa: BLE001 - the end of the connection is reported by its users
            self.close(f"{self._address}: no new credentials: {error}")

    def _check_alive(self) -> None:
        """Ask a silent broker, and close the connection if it stays silent."""
        if self.closed:
            return
        if not self._heard:
            self.close(f"{self._address} is silent")
            return
        self._heard = False
        self._write(commands.framed(commands.PING))
        self._timer = self._loop.call_later(KEEP_ALIVE, self._check_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"{self._address} has ended the connection" + (f": {exc}" if exc else ""))

    def close(self, why: str = "the connection is closed") -> None:
        """Close the connection at once. Frames that are not written are dropped."""
        self._end(why)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, why: str) -> None:
        if self.closed:
            return
        self.closed = why
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        error = ClientError(Result.NotConnected, why)
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # read, because nothing may await it
        for waiting in self._requests.values():
            if not waiting.done():
                waiting.set_exception(error)
        producers, self._producers, self._waiting = self._producers, {}, {}
        for producer in producers.values():
            producer.lost(why)
