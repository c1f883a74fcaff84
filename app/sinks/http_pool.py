"""The connections to one origin: so many at most, kept while they are used, and handed on in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from app.interfaces import SinkAnswer
from app.sinks.http_answer import Fault
from app.sinks.http_connect import PROXY_LOGIN, Connector, Origin, proxy_fault
from app.sinks.http_connection import Connection, Stale

KEEP_ALIVE = 15.0  # seconds that an idle connection is kept


class Pool:
    """``most``: open connections, those that are being made included. ``repeated``: called for each
    request that is sent a second time.

    Who finds none free waits, first come first served, for a connection or for leave to make one.
    """

    def __init__(
        self, origin: Origin, connector: Connector, most: int, repeated: Callable[[], None]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._origin = origin
        self._connector = connector
        self._most = most
        self._repeated = repeated
        self._places = 0  # taken: by a connection, or by who makes one
        self._open: set[Connection] = set()
        self._idle: deque[Connection] = deque()  # the last one is used first, so that others end
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    async def ask(self, head: bytes, body: bytes, within: float) -> SinkAnswer:
        """``within``: seconds, the wait for a connection included."""
        deadline = self.loop.time() + within
        fresh = False
        try:
            while True:
                if self._idle and not fresh:
                    connection = self._idle.pop()
                else:
                    connection = await self._get(deadline, fresh=fresh)
                answer = connection.send(head, body, deadline)
                try:
                    return self._judged(await answer)
                except Stale:  # of no fresh one
                    fresh = True
                    self._repeated()
                except asyncio.CancelledError:
                    connection.forsake(answer)
                    raise
        except TimeoutError:
            return Fault("timeout", f"no answer within {within:g} s").answer()
        except Fault as fault:
            return fault.answer()

    def _judged(self, answer: SinkAnswer) -> SinkAnswer:
        """Raises Fault of the proxy."""
        if answer.status == PROXY_LOGIN and self._origin.proxy is not None:
            raise proxy_fault(f"the proxy answered {answer.status}")
        return answer

    def close(self) -> None:
        """Requests that wait for an answer are told that none comes."""
        for connection in tuple(self._open):
            connection.close(Fault("reset", "the client was stopped"))
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def release(self, connection: Connection) -> None:
        """Its answer is complete, and it may be used again."""
        turn = self._next() if self._waiting else None
        if turn is not None:
            turn.set_result(connection)
            return
        connection.idle_since = self.loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self.loop.call_later(KEEP_ALIVE, self._close_idle)

    def lost(self, connection: Connection) -> None:
        """It was closed."""
        if connection in self._open:
            self._open.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._leave()

    async def _get(self, deadline: float, *, fresh: bool = False) -> Connection:
        async with asyncio.timeout_at(deadline):
            handed = await self._place(fresh=fresh)
            if handed is not None:
                return handed
            try:
                connection = await self._connector.connect(self._origin)
            except BaseException:
                self._leave()
                raise
        connection.owner = self
        self._open.add(connection)
        if connection.closed:
            self.lost(connection)
        return connection

    async def _place(self, *, fresh: bool) -> Connection | None:
        """A connection that is open, or None: the caller may make one. ``fresh``: it is to make one."""
        if self._places < self._most:
            self._places += 1
            return None
        handed = self._idle.popleft() if self._idle else await self._turn()
        while handed is not None and (fresh or handed.closed):
            if self._replace(handed):
                return None
            if self._places < self._most:  # it closed on its way here, and nobody was told
                self._places += 1
                return None
            handed = await self._turn()
        return handed

    async def _turn(self) -> Connection | None:
        """A connection, or None: one may be made."""
        turn: asyncio.Future[Connection | None] = self.loop.create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came as its caller went
                handed = turn.result()
                if handed is None:
                    self._leave()
                elif not handed.closed:
                    self.release(handed)
            raise

    def _next(self) -> asyncio.Future[Connection | None] | None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn
        return None

    def _leave(self) -> None:
        turn = self._next()
        if turn is not None:
            turn.set_result(None)
        else:
            self._places -= 1

    def _replace(self, connection: Connection) -> bool:
        """Closes it, and whether its place is the caller's now."""
        if connection not in self._open:
            return False
        self._open.remove(connection)
        connection.close()
        return True

    def _close_idle(self) -> None:
        self._sweep = None
        until = self.loop.time() - KEEP_ALIVE
        while self._idle and self._idle[0].idle_since <= until:
            self._idle.popleft().close()
        if self._idle:
            at = self._idle[0].idle_since + KEEP_ALIVE
            self._sweep = self.loop.call_at(at, self._close_idle)
