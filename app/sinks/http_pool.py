"""A bounded pool of connections to one origin. Requests that find no free connection wait in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from app.interfaces import AnswerCallback, SinkAnswer
from app.sinks.http_answer import RequestFailed
from app.sinks.http_connect import PROXY_LOGIN, Connector, HttpOrigin, proxy_fault
from app.sinks.http_connection import ClientConnection, StaleConnection

log = logging.getLogger(__name__)

KEEP_ALIVE = 15.0  # seconds that an idle connection is kept


@dataclass(eq=False, repr=False)
class ConnectionPool:
    """The connections to one origin.

    ``_free`` is the number of further requests that may run at once. Each request uses one
    connection, so there are no more connections than requests. Further requests wait, first come,
    first served. ``_repeated`` is called for each request that is sent a second time.
    """

    _origin: HttpOrigin
    _connector: Connector
    _free: int
    _repeated: Callable[[], None]

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._open: set[ClientConnection] = set()
        self._idle: deque[ClientConnection] = (
            deque()
        )  # the last one is used first, so that surplus ones expire
        self._old: set[ClientConnection] = set()  # opened with former certificates
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._repeats: dict[
            ClientConnection, asyncio.Task[None]
        ] = {}  # of requests that ``begin`` sent, by their stale connections

    async def ask(self, head: bytes, body: bytes, within: float) -> SinkAnswer:
        """Send a request and return its answer. ``within`` limits the total in seconds, including
        the wait for a connection.

        A failure is returned as an answer with a fault. A request on a stale connection is sent
        again on a new one.
        """
        deadline = self.loop.time() + within
        if self._free:
            self._free -= 1
        else:
            try:
                await self._wait_for_turn(deadline)
            except TimeoutError as error:
                return _failed(error, within, sent=False)
        try:
            connection = self._idle.pop() if self._idle else None
            return await self._exchange(head, body, deadline, within, connection)
        finally:
            self._give_back()

    def begin(
        self, head: bytes, body: bytes, within: float, on_answer: AnswerCallback
    ) -> ClientConnection | None:
        """Send a request on an idle connection, without a task. ``on_answer`` is called once with its
        answer, unless the connection is aborted first.

        Return the connection. Return None if no idle connection may be used now; then ``ask`` can
        send the request.
        """
        if not self._free or not self._idle:
            return None
        self._free -= 1
        connection = self._idle.pop()
        concluded = partial(self._conclude, connection, head, body, within, on_answer)
        connection.send(head, body, self.loop.time() + within, concluded)
        return connection

    def aborted(self, connection: ClientConnection) -> None:
        """End the request of a connection that was aborted."""
        repeat = self._repeats.pop(connection, None)
        if repeat is None:
            self._give_back()
        else:
            repeat.cancel()

    async def _exchange(
        self,
        head: bytes,
        body: bytes,
        deadline: float,
        within: float,
        connection: ClientConnection | None,
    ) -> SinkAnswer:
        """Send a request on the connection, or on a new one, and return its answer."""
        sent = False
        try:
            while True:
                if connection is None:
                    sent = False
                    connection = await self._connected(deadline)
                try:
                    sent = True
                    return await connection.ask(head, body, deadline)
                except StaleConnection:  # only a reused connection raises it
                    connection = None
                    self._repeated()
        except (TimeoutError, RequestFailed) as error:
            return _failed(error, within, sent=sent)

    def _give_back(self) -> None:
        """Give back the place of a request that has ended."""
        self._free += 1
        if self._waiting:
            self._start_next()

    def _conclude(
        self,
        connection: ClientConnection,
        head: bytes,
        body: bytes,
        within: float,
        on_answer: AnswerCallback,
        result: SinkAnswer | Exception,
    ) -> None:
        """Report the result of a request that ``begin`` sent. Send it again if its connection was stale."""
        if isinstance(result, StaleConnection):
            self._repeated()
            again = self._repeat(connection, head, body, within, on_answer)
            task = self.loop.create_task(again, name="repeated request")
            task.add_done_callback(lambda _: self._give_back())
            self._repeats[connection] = task
            return
        self._give_back()
        on_answer(result if isinstance(result, SinkAnswer) else _failed(result, within, sent=True))

    async def _repeat(
        self,
        stale: ClientConnection,
        head: bytes,
        body: bytes,
        within: float,
        on_answer: AnswerCallback,
    ) -> None:
        try:
            answer = await self._exchange(head, body, stale.deadline, within, None)
        except Exception as error:  # else the attempt would wait for ever
            log.exception("a bug prevented the repetition of a request")
            answer = RequestFailed("reset", f"a bug: {type(error).__name__}").answer()
        if self._repeats.pop(stale, None) is not None:
            on_answer(answer)

    def close(self) -> None:
        """Close all connections. Requests that wait for an answer fail."""
        for connection in tuple(self._open):
            connection.close(RequestFailed("reset", "the client was stopped"))
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def renew(self) -> None:
        """Let no open connection serve a further request, because the certificates have changed."""
        self._old = set(self._open)
        for connection in tuple(self._idle):
            connection.close()

    def release(self, connection: ClientConnection) -> None:
        """Keep the connection for a later request, because its answer is complete."""
        if self._old and connection in self._old:
            connection.close()
            return
        connection.idle_since = self.loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self.loop.call_later(KEEP_ALIVE, self._close_idle)

    def lost(self, connection: ClientConnection) -> None:
        """Forget a connection that was closed."""
        if connection in self._open:
            self._open.remove(connection)
            self._old.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)

    async def _connected(self, deadline: float) -> ClientConnection:
        async with asyncio.timeout_at(deadline):
            connection = await self._connector.connect(self._origin)
        connection.owner = self
        self._open.add(connection)
        if connection.closed:
            self.lost(connection)
        return connection

    async def _wait_for_turn(self, deadline: float) -> None:
        turn: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException:
            if not turn.cancelled():  # the turn came when its caller was cancelled
                self._free += 1
                self._start_next()
            raise

    def _start_next(self) -> None:
        """Give the free place to the request that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
                return

    def _close_idle(self) -> None:
        self._sweep = None
        until = self.loop.time() - KEEP_ALIVE
        while self._idle and self._idle[0].idle_since <= until:
            self._idle.popleft().close()
        if self._idle:
            at = self._idle[0].idle_since + KEEP_ALIVE
            self._sweep = self.loop.call_at(at, self._close_idle)


def _failed(error: Exception, within: float, *, sent: bool) -> SinkAnswer:
    """Return the answer of a request that failed. ``sent`` is whether it was given to a connection."""
    late = RequestFailed("timeout", f"no answer within {within:g} s")
    answer = (error if isinstance(error, RequestFailed) else late).answer()
    return answer if sent or answer.unsent else replace(answer, unsent=True)


class ProxiedConnectionPool(ConnectionPool):
    """A pool of connections through a proxy. The status 407 comes from the proxy, so it is no
    answer of the target.
    """

    def begin(
        self, head: bytes, body: bytes, within: float, on_answer: AnswerCallback
    ) -> ClientConnection | None:
        return super().begin(head, body, within, lambda answer: on_answer(_of_target(answer)))

    async def ask(self, head: bytes, body: bytes, within: float) -> SinkAnswer:
        return _of_target(await super().ask(head, body, within))


def _of_target(answer: SinkAnswer) -> SinkAnswer:
    """Return the answer, or the fault of a proxy that demands another login."""
    if answer.status == PROXY_LOGIN:
        return proxy_fault(f"the proxy answered {answer.status}").answer()
    return answer
