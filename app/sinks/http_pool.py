"""The connections to one origin: so many at most, kept while they are used, and handed on in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from app.interfaces import SinkAnswer
from app.sinks.http_answer import Fault
from app.sinks.http_connect import PROXY_LOGIN, Connector, Origin, proxy_fault
from app.sinks.http_connection import Connection, Stale

KEEP_ALIVE = 15.0  # seconds that an idle connection is kept


@dataclass(eq=False, repr=False)
class Pool:
    """``free``: requests at a time, and so connections: each request has one, and leaves at most one behind. Those
    beyond it wait, first come first served. ``repeated``: called for each request that is sent a second time.
    """

    _origin: Origin
    _connector: Connector
    _free: int
    _repeated: Callable[[], None]

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        self._idle: deque[Connection] = deque()  # the last one is used first, so that others end
        self._old: set[Connection] = set()  # made with certificates that are not in use any more
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    async def ask(self, head: bytes, body: bytes, within: float) -> SinkAnswer:
        """``within``: seconds, the wait for a connection included."""
        deadline = self.loop.time() + within
        fresh = sent = False
        try:
            if self._free:
                self._free -= 1
            else:
                await self._turn(deadline)
            try:
                while True:
                    if self._idle and not fresh:
                        connection = self._idle.pop()
                    else:
                        sent = False
                        connection = await self._connected(deadline)
                    answer = connection.send(head, body, deadline)
                    sent = True
                    try:
                        return await answer
                    except Stale:  # of no fresh one
                        fresh = True
                        self._repeated()
                    except asyncio.CancelledError:
                        connection.forsake(answer)
                        raise
            finally:
                self._free += 1
                if self._waiting:
                    self._hand_on()
        except (TimeoutError, Fault) as error:
            late = Fault("timeout", f"no answer within {within:g} s")
            answered = (error if isinstance(error, Fault) else late).answer()
            return answered if sent or answered.unsent else replace(answered, unsent=True)

    def close(self) -> None:
        """Requests that wait for an answer are told that none comes."""
        for connection in tuple(self._open):
            connection.close(Fault("reset", "the client was stopped"))
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def renew(self) -> None:
        """Use no connection for a further request that is open now: it was made with other certificates."""
        self._old = set(self._open)
        for connection in tuple(self._idle):
            connection.close()

    def release(self, connection: Connection) -> None:
        """Its answer is complete, and it may be used again."""
        if self._old and connection in self._old:
            connection.close()
            return
        connection.idle_since = self.loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self.loop.call_later(KEEP_ALIVE, self._close_idle)

    def lost(self, connection: Connection) -> None:
        """It was closed."""
        if connection in self._open:
            self._open.remove(connection)
            self._old.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)

    async def _connected(self, deadline: float) -> Connection:
        async with asyncio.timeout_at(deadline):
            connection = await self._connector.connect(self._origin)
        connection.owner = self
        self._open.add(connection)
        if connection.closed:
            self.lost(connection)
        return connection

    async def _turn(self, deadline: float) -> None:
        turn: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException:
            if not turn.cancelled():  # it came as its caller went
                self._free += 1
                self._hand_on()
            raise

    def _hand_on(self) -> None:
        """What is free is the next one's who waits."""
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


class ProxiedPool(Pool):
    """Through a proxy, whose own refusal is no answer of the target."""

    async def ask(self, head: bytes, body: bytes, within: float) -> SinkAnswer:
        answer = await super().ask(head, body, within)
        if answer.status == PROXY_LOGIN:
            return proxy_fault(f"the proxy answered {answer.status}").answer()
        return answer
