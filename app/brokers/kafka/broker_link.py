"""A connection to one broker, on which Produce requests are sent and their answers handled without a task.

aiokafka connects and authenticates. Then this protocol takes the connection over: one write for a request, one
callback for its answer. A future, a task and two reads of a stream for each request cost more than the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from aiokafka.errors import KafkaConnectionError, UnsupportedVersionError

from app.brokers.aiokafka_adapter import Authenticated, connect_once
from app.brokers.kafka.produce_request import (
    API_VERSIONS,
    NEWEST,
    OLDEST,
    head_of,
    produce_version,
)

log = logging.getLogger(__name__)

Told = Callable[[bytes | None], None]
"""Called with the answer to a request, or with None if the connection was lost before the answer."""

_LENGTH, _CORRELATED = Struct(">i"), Struct(">ii")
_SHORTEST = 4  # bytes of an answer, whose length does not count itself: the correlation id
_LARGEST = 0x7FFFFFFF
FIRST_CORRELATION = 1_000  # aiokafka has used smaller ids to log in


class _Pending(NamedTuple):
    correlation: int
    sent: float  # by the clock of the event loop
    told: Told


class BrokerLink(asyncio.Protocol):
    """A connection to one broker. Answers come in the order of the requests.

    Attributes:
        produce_version: The version of Produce requests to this broker.
        used: When the last request was sent, by the clock of the event loop, in seconds.
    """

    def __init__(self, client_id: str, timeout: float, lost: Callable[[BrokerLink], None]) -> None:
        """Create the link without connecting it.

        Args:
            client_id: The name of this client in the broker's log and quotas.
            timeout: The seconds after which a request without an answer ends the connection.
            lost: Called once, when the connection has ended.
        """
        self.produce_version = 0
        self._client_id = client_id.encode()
        self._timeout = timeout
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self.used = self._loop.time()
        self._opened: Authenticated | None = None
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._unread = b""  # the beginning of an answer
        self._correlation = FIRST_CORRELATION
        self._timer: asyncio.TimerHandle | None = None
        self._full: list[Told] | None = (
            None  # not None: the socket takes no more; unanswered requests
        )

    async def open(self, host: str, port: int, **options: Any) -> None:
        """Connect and authenticate. Raises KafkaError, OSError or TimeoutError."""
        self._opened = await connect_once(host, port, **options)
        self._transport = self._opened.transport
        self._transport.set_protocol(self)
        try:
            version = produce_version(await self.ask(API_VERSIONS, 0, ()))
        except BaseException:
            self.close()
            raise
        if version is None:
            self.close()
            versions = f"Produce requests of versions {OLDEST} to {NEWEST}"
            raise UnsupportedVersionError(f"{host}:{port} does not support {versions}")
        self.produce_version = version

    async def ask(self, api: int, version: int, body: Sequence[bytes]) -> bytes:
        """Send a request and return its answer. Raises KafkaConnectionError if the connection is lost."""
        answered: asyncio.Future[bytes | None] = self._loop.create_future()
        self.send(api, version, body, partial(_settle, answered))
        answer = await answered
        if answer is None:
            raise KafkaConnectionError("the connection was lost")
        return answer

    def send(self, api: int, version: int, body: Sequence[bytes], told: Told) -> None:
        """Send a request. ``told`` is called once, never before this call returns."""
        if self._transport is None:
            self._loop.call_soon(told, None)
            return
        self._write(self._transport, api, version, body)
        self._pending.append(_Pending(self._correlation, self.used, told))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout, self._check_time)

    def send_unanswered(self, api: int, version: int, body: Sequence[bytes], told: Told) -> None:
        """Send a request that the broker does not answer. ``told`` is called with empty bytes when the socket
        takes more."""
        if self._transport is not None:
            self._write(self._transport, api, version, body)
        if self._full is None or self._transport is None:
            self._loop.call_soon(told, None if self._transport is None else b"")
        else:
            self._full.append(told)

    def _write(
        self, transport: asyncio.Transport, api: int, version: int, body: Sequence[bytes]
    ) -> None:
        self._correlation = self._correlation + 1 & _LARGEST
        head = head_of(api, version, self._correlation, self._client_id)
        length = len(head) + sum(map(len, body))
        self.used = self._loop.time()
        transport.write(b"".join((_LENGTH.pack(length), head, *body)))

    def close(self) -> None:
        """End the connection at once. Requests without an answer get None."""
        if self._transport is not None:
            self._transport.abort()
        if self._opened is not None:
            self._opened.connection.close()
        self.connection_lost(None)

    def data_received(self, data: bytes) -> None:
        data = self._unread + data
        at, end = 0, len(data)
        while end - at >= _CORRELATED.size:
            length, correlation = _CORRELATED.unpack_from(data, at)
            if (
                length < _SHORTEST
                or not self._pending
                or self._pending[0].correlation != correlation
            ):
                log.error("a Kafka broker answered another request than the oldest one")
                self.close()
                return
            after = at + _LENGTH.size + length
            if after > end:
                break
            self._tell(self._pending.popleft(), data[at + _CORRELATED.size : after])
            at = after
        self._unread = data[at:]

    def _tell(self, pending: _Pending, answer: bytes | None) -> None:
        try:
            pending.told(answer)
        except Exception:
            log.exception("a bug prevented the handling of an answer of a Kafka broker")

    def pause_writing(self) -> None:
        self._full = []

    def resume_writing(self) -> None:
        unanswered, self._full = self._full or [], None
        for told in unanswered:
            told(b"")

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        opened, self._opened, self._transport = self._opened, None, None
        if opened is None:
            return
        opened.connection.close()  # its own protocol does not learn of the end
        self._lost(self)
        unanswered, self._full = self._full or [], None
        for told in unanswered:
            told(None)
        while self._pending:
            self._tell(self._pending.popleft(), None)

    def _check_time(self) -> None:
        """End the connection if its oldest request is too old. One timer serves many requests."""
        self._timer = None
        if not self._pending:
            return
        left = self._pending[0].sent + self._timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_time)
        else:
            self.close()


def _settle(answered: asyncio.Future[bytes | None], answer: bytes | None) -> None:
    if not answered.done():
        answered.set_result(answer)


__all__ = ["BrokerLink", "Told"]
