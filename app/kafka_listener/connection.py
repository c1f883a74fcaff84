"""One connection of a Kafka client: it reads requests, and writes their responses in order.

One task reads a request and begins its handling. It reads the next request as early as the API
allows. A second task waits for the responses in order and writes them. At most ``in_work`` requests
run between the two tasks. So reading pauses if responses are late or the client does not read them.
An API with large responses begins only when the client has read all earlier ones.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from app.kafka_listener.apis import APIS, OFFERED
from app.kafka_listener.incoming import ClientReader, Frame, Frames
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.rights import demand_login, max_frame
from app.kafka_listener.room import ByteBudget
from app.kafka_listener.wire import (
    SIZE,
    KafkaRequest,
    Malformed,
    is_prepared,
    prepare,
    read_request,
    size_of,
    write_answer,
)

LARGE_ANSWER = 64 << 10  # bytes; a larger response counts as unread until its client has read it
PAUSE = 0.05  # seconds between checks whether a user has read its large responses

Answered = asyncio.Task[memoryview | None]


class RequestInWork:
    """A request that is being handled. ``taken`` is done when the client has read the response,
    except for bytes in the transport. Until then, ``answered`` keeps the response."""

    __slots__ = ("answered", "taken")

    def __init__(self, answered: Answered) -> None:
        self.answered: Answered | None = answered
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()


_log = logging.getLogger("skybridge.kafka_listener")


class KafkaConnection:
    """A connection of a Kafka client. ``room`` is the byte budget for the requests of all
    connections.
    """

    def __init__(
        self,
        node: KafkaNode,
        session: KafkaSession,
        reader: ClientReader,
        writer: asyncio.StreamWriter,
        room: ByteBudget,
    ) -> None:
        self._node = node
        self._session = session
        self._reader = reader
        self._writer = writer
        self._frames = Frames(reader, room, node.settings)
        self._opened = reader.heard
        self._requests = 0
        self._slots = asyncio.Semaphore(node.settings.in_work)
        self._answers: asyncio.Queue[RequestInWork | None] = asyncio.Queue()
        self._work: dict[
            Answered, bool
        ] = {}  # by task: whether it is cancelled when the client leaves
        self._reading: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Serve requests until either side ends the connection.

        An unreadable request or an unexpected error ends this connection only, with a log line.
        """
        self._reading = asyncio.create_task(self._read_requests())
        writing = asyncio.create_task(self._write_responses())
        both = (self._reading, writing)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            self._end_session()
            await asyncio.wait(both)
            await asyncio.gather(*self._work, return_exceptions=True)
        finally:
            rest = (*both, *self._work)
            for task in rest:
                task.cancel()
            self._writer.close()
            try:
                self._log_errors(await asyncio.gather(*rest, return_exceptions=True))
            finally:
                self._session.taken()

    @property
    def address(self) -> str:
        return self._session.address

    @property
    def user(self) -> str:
        return self._session.name

    @property
    def stranger(self) -> bool:
        """Return True if the client has not logged in, or has sent no request yet."""
        return not (self._session.authenticated and self._requests)

    @property
    def heard(self) -> float:
        """Return the loop time in seconds at which the last bytes of the client arrived."""
        return self._reader.heard

    def drop(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()

    def leave(self) -> None:
        """Stop reading. Requests in work are still answered."""
        if self._reading is not None:
            self._reading.cancel()

    def _end_session(self) -> None:
        """End the session after one of its two tasks has ended.

        Requests in work are finished, because a client may send a request without a response and
        leave. Tasks that only wait for a response are cancelled if the client has left.
        """
        assert self._reading is not None  # noqa: S101 - set first of all
        is_stopping = self._reading.cancelled()
        self._session.end()
        self._reading.cancel()
        if not is_stopping:
            for task, droppable in self._work.items():
                if droppable:
                    task.cancel()
        self._answers.put_nowait(None)

    def _log_errors(self, ends: list[memoryview | BaseException | None]) -> None:
        faults = [end for end in ends if isinstance(end, Exception)]
        for fault in dict.fromkeys(faults):
            match fault:
                case Malformed():
                    self._node.counters.add("kafka_refused_frames")
                    now = self._node.clock.monotonic()
                    self._node.refused_frames.note(self._session.peer, fault, now)
                case OSError() | TimeoutError() | asyncio.IncompleteReadError():
                    _log.debug("%s: %r; closed", self._session.peer, fault)
                case _:
                    peer = self._session.peer
                    _log.error("%s: a request was not handled; closed", peer, exc_info=fault)

    async def _read_requests(self) -> None:
        before: RequestInWork | None = None
        while True:
            await self._slots.acquire()
            if not await self._wait_for_quota():
                return
            before = await self._begin_next(before)
            if before is None:
                return
            await asyncio.sleep(0)  # let the request begin before the next one is read

    async def _begin_next(self, before: RequestInWork | None) -> RequestInWork | None:
        """Read a request and begin it. Return None if the client has left.

        Only the running handler refers to the bytes of the request, so that an idle connection uses
        no memory for them.
        """
        size = await self._size()
        if size is None:
            return None
        frame = self._frames.expect(size, self._session.name)
        try:
            request = await self._admit(await frame.read(), before)
        except BaseException:
            frame.release()
            raise
        return self._begin(request, frame)

    async def _wait_for_quota(self) -> bool:
        """Wait until the producer is within its quota. Until then, nothing is read and no memory is
        used for the connection.

        Return False if the client has left, or if the wait reaches the idle time-out.
        """
        clock = self._node.clock
        until = clock.monotonic() + self._node.settings.idle_timeout
        while debt := self._session.debt(now := clock.monotonic()):
            if now >= until:
                return False
            sleeping = asyncio.ensure_future(clock.sleep(min(debt, until - now)))
            try:
                if not await self._done_before_end(sleeping):
                    return False
            finally:
                sleeping.cancel()
        return True

    async def _size(self) -> int | None:
        """Return the size of the next request in bytes. Return None if the client has left, or sent
        nothing for too long.
        """
        try:
            async with asyncio.timeout(self._request_timeout):
                head = await self._reader.read_head(SIZE)
        except (asyncio.IncompleteReadError, TimeoutError):
            return None
        size, most = size_of(head), max_frame(self._node, self._session)
        if not 0 < size <= most:
            raise Malformed(f"a request of {size} bytes; at most {most} are accepted")
        return size

    @property
    def _request_timeout(self) -> float:
        """Return the seconds in which the next request must begin to arrive. A client must log in
        within ``frame_timeout``, whatever it sends before.
        """
        settings = self._node.settings
        if self._session.authenticated:
            return settings.idle_timeout
        return self._opened + settings.frame_timeout - self._reader.now()

    async def _admit(self, frame: bytes, before: RequestInWork | None) -> KafkaRequest:
        if not is_prepared(frame):
            await asyncio.to_thread(prepare, frame, OFFERED)
        request = read_request(frame, OFFERED)
        demand_login(self._node, self._session, request.api, APIS[request.api].name)
        if before is not None and not APIS[request.api].overlaps:
            await self._until_taken(before)
        return request

    async def _until_taken(self, before: RequestInWork) -> None:
        """Wait until the client has read the earlier response, or has left.

        So a client that reads nothing causes one large response, and not ``in_work`` of them.
        """
        answered = before.answered
        if (
            answered is not None
            and not answered.done()
            and not await self._done_before_end(answered)
        ):
            if self._work.get(answered):
                answered.cancel()
            await asyncio.wait((answered,))
        del answered
        await before.taken

    async def _done_before_end(self, done: asyncio.Future[Any]) -> bool:
        """Wait for a future. Return False if the client leaves first."""
        gone = asyncio.create_task(self._reader.ended.wait())
        try:
            await asyncio.wait((done, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        return done.done()

    def _begin(self, request: KafkaRequest, frame: Frame) -> RequestInWork:
        api = APIS[request.api]
        self._node.counters.add("kafka_requests", api.name)
        self._requests += 1
        answered = asyncio.create_task(self._answer(request))
        self._work[answered] = not api.overlaps
        answered.add_done_callback(lambda _: frame.release())
        begun = RequestInWork(answered)
        self._answers.put_nowait(begun)
        return begun

    async def _answer(self, request: KafkaRequest) -> memoryview | None:
        api = APIS[request.api]
        if api.much:
            await self._until_few_unread()
        answer = await api.handler(self._node, self._session, request)
        if answer is None or isinstance(answer, memoryview):  # encoded already, in a thread
            return answer
        frame = write_answer(request, answer)
        if len(frame) > LARGE_ANSWER and not api.holds:
            self._session.hold(len(frame))
        return frame

    async def _until_few_unread(self) -> None:
        """Wait while the user has too many unread response bytes, on all its connections
        together.
        """
        session = self._session
        while not session.unread.left(session.name):  # noqa: ASYNC110 - rare: under attack
            await asyncio.sleep(PAUSE)

    async def _write_responses(self) -> None:
        """Write the responses in order. A client that does not read them is disconnected."""
        while (begun := await self._answers.get()) is not None:
            await self._write_response(begun)
            if self._session.denied:
                return
            begun.taken.set_result(None)
            self._slots.release()
            del begun

    async def _write_response(self, begun: RequestInWork) -> None:
        """Write one response, and keep no reference to it."""
        answered = begun.answered
        assert answered is not None  # noqa: S101 - only this method clears it
        await asyncio.wait((answered,))
        frame = None if answered.cancelled() else answered.result()
        del self._work[answered]
        begun.answered = None
        del answered
        if frame is not None:
            self._writer.write(frame)
            async with asyncio.timeout(self._node.settings.frame_timeout):
                await self._writer.drain()
        self._session.taken()
