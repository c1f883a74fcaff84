"""One connection: frames in, answers out in the order of their requests.

Two tasks: one reads a frame, begins its request, and goes on to the next as far as the API allows;
the other waits for the answers one by one and writes them. Between them are ``in_work`` slots, which
is what pauses the reading when the answers do not keep up, or the client does not take them. Only small
answers gather there: an API that may answer with much begins when the client has taken what was before.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from app.kafka_listener.apis import APIS, OFFERED
from app.kafka_listener.incoming import Frame, Frames, Incoming
from app.kafka_listener.node import Node, Session
from app.kafka_listener.rights import demand_login, most_of_frame
from app.kafka_listener.room import Room
from app.kafka_listener.wire import (
    SIZE,
    Malformed,
    Request,
    is_prepared,
    prepare,
    read_request,
    size_of,
    write_answer,
)

LARGE = 64 << 10  # bytes of an answer that is counted while its client has not taken it
PAUSE = 0.05  # seconds between looks at whether a user has taken its large answers

Answered = asyncio.Task[memoryview | None]


class InWork:
    """A request in work. ``taken``: done when the client has taken the answer, but for what the transport still holds;
    ``answered``, with the answer, is kept until then."""

    __slots__ = ("answered", "taken")

    def __init__(self, answered: Answered) -> None:
        self.answered: Answered | None = answered
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()


_log = logging.getLogger("skybridge.kafka_listener")


class Connection:
    """``room``: what the requests of all connections may hold."""

    def __init__(
        self,
        node: Node,
        session: Session,
        reader: Incoming,
        writer: asyncio.StreamWriter,
        room: Room,
    ) -> None:
        self._node = node
        self._session = session
        self._reader = reader
        self._writer = writer
        self._frames = Frames(reader, room, node.settings)
        self._opened = reader.heard
        self._requests = 0
        self._slots = asyncio.Semaphore(node.settings.in_work)
        self._answers: asyncio.Queue[InWork | None] = asyncio.Queue()
        self._work: dict[Answered, bool] = {}  # to whether it is dropped when the client has gone
        self._reading: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Until either side ends it. A frame that cannot be read ends it with a reason in the log, and
        so does a bug of ours: nothing else is touched."""
        self._reading = asyncio.create_task(self._read_requests())
        writing = asyncio.create_task(self._write_answers())
        both = (self._reading, writing)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            self._end()
            await asyncio.wait(both)
            await asyncio.gather(*self._work, return_exceptions=True)
        finally:
            rest = (*both, *self._work)
            for task in rest:
                task.cancel()
            self._writer.close()
            try:
                self._explain(await asyncio.gather(*rest, return_exceptions=True))
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
        """Whether the client has not logged in, or has not asked for anything yet."""
        return not (self._session.authenticated and self._requests)

    @property
    def heard(self) -> float:
        """When something of its client arrived last, in seconds of the loop."""
        return self._reader.heard

    def drop(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()

    def leave(self) -> None:
        """Read nothing more; what is in work is answered, soon."""
        if self._reading is not None:
            self._reading.cancel()

    def _end(self) -> None:
        """What is in work is finished: a client may send what needs no answer, and go. What only waits
        for its answer is not waited for where nobody will read it."""
        assert self._reading is not None  # noqa: S101 - set first of all
        left_by_us = self._reading.cancelled()
        self._session.end()
        self._reading.cancel()
        if not left_by_us:
            for task, droppable in self._work.items():
                if droppable:
                    task.cancel()
        self._answers.put_nowait(None)

    def _explain(self, ends: list[memoryview | BaseException | None]) -> None:
        faults = [end for end in ends if isinstance(end, Exception)]
        for fault in dict.fromkeys(faults):
            match fault:
                case Malformed():
                    self._node.counters.add("kafka_refused_frames")
                    self._node.refused_frames += 1
                    _log.warning("%s: %s; closed", self._session.peer, fault)
                case OSError() | TimeoutError() | asyncio.IncompleteReadError():
                    _log.debug("%s: %r; closed", self._session.peer, fault)
                case _:
                    peer = self._session.peer
                    _log.error("%s: a request was not handled; closed", peer, exc_info=fault)

    async def _read_requests(self) -> None:
        before: InWork | None = None
        while True:
            await self._slots.acquire()
            if not await self._paid():
                return
            before = await self._begin_next(before)
            if before is None:
                return
            await asyncio.sleep(0)  # it begins before the next one is read

    async def _begin_next(self, before: InWork | None) -> InWork | None:
        """Read a request and begin it; return None when the client has gone. Nothing but the work keeps the frame:
        a silent connection holds none."""
        size = await self._size()
        if size is None:
            return None
        frame = self._frames.expect(size, self._session.name)
        try:
            request = await self._admitted(await frame.read(), before)
        except BaseException:
            frame.release()
            raise
        return self._begin(request, frame)

    async def _paid(self) -> bool:
        """Once its producer is within its quota: until then nothing is read, and nothing held for it. False
        when the client has gone, or has waited as long as it may say nothing: one that left behind what it
        had sent is not noticed."""
        clock = self._node.clock
        until = clock.monotonic() + self._node.settings.idle_timeout
        while debt := self._session.debt(now := clock.monotonic()):
            if now >= until:
                return False
            sleeping = asyncio.ensure_future(clock.sleep(min(debt, until - now)))
            try:
                if not await self._until(sleeping):
                    return False
            finally:
                sleeping.cancel()
        return True

    async def _size(self) -> int | None:
        """None when the client has gone, or said nothing for long."""
        try:
            async with asyncio.timeout(self._patience):
                head = await self._reader.read_head(SIZE)
        except (asyncio.IncompleteReadError, TimeoutError):
            return None
        size, most = size_of(head), most_of_frame(self._node, self._session)
        if not 0 < size <= most:
            raise Malformed(f"a frame of {size} bytes; at most {most} are taken")
        return size

    @property
    def _patience(self) -> float:
        """Seconds until the next request. A stranger has so many to log in, whatever it asks meanwhile."""
        settings = self._node.settings
        if self._session.authenticated:
            return settings.idle_timeout
        return self._opened + settings.frame_timeout - self._reader.now()

    async def _admitted(self, frame: bytes, before: InWork | None) -> Request:
        if not is_prepared(frame):
            await asyncio.to_thread(prepare, frame, OFFERED)
        request = read_request(frame, OFFERED)
        demand_login(self._node, self._session, request.api, APIS[request.api].name)
        if before is not None and not APIS[request.api].overlaps:
            await self._until_taken(before)
        return request

    async def _until_taken(self, before: InWork) -> None:
        """So that a client that reads nothing is made one large answer, and not ``in_work`` of them. One that has
        gone waits for nothing any more."""
        answered = before.answered
        if answered is not None and not answered.done() and not await self._until(answered):
            if self._work.get(answered):
                answered.cancel()
            await asyncio.wait((answered,))
        del answered
        await before.taken

    async def _until(self, done: asyncio.Future[Any]) -> bool:
        """False when the client has gone before."""
        gone = asyncio.create_task(self._reader.ended.wait())
        try:
            await asyncio.wait((done, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        return done.done()

    def _begin(self, request: Request, frame: Frame) -> InWork:
        api = APIS[request.api]
        self._node.counters.add("kafka_requests", api.name)
        self._requests += 1
        answered = asyncio.create_task(self._answer(request))
        self._work[answered] = not api.overlaps
        answered.add_done_callback(lambda _: frame.release())
        begun = InWork(answered)
        self._answers.put_nowait(begun)
        return begun

    async def _answer(self, request: Request) -> memoryview | None:
        api = APIS[request.api]
        if api.much:
            await self._until_few_unread()
        answer = await api.handler(self._node, self._session, request)
        if answer is None or isinstance(answer, memoryview):  # written already, in a thread
            return answer
        frame = write_answer(request, answer)
        if len(frame) > LARGE and not api.holds:
            self._session.hold(len(frame))
        return frame

    async def _until_few_unread(self) -> None:
        """Wait while the user has not taken as many bytes of answers as it may have: those connections go on, or are
        closed."""
        session = self._session
        while not session.unread.left(session.name):  # noqa: ASYNC110 - under attack alone
            await asyncio.sleep(PAUSE)

    async def _write_answers(self) -> None:
        """A client that does not take its answers is let go."""
        while (begun := await self._answers.get()) is not None:
            await self._write_answer(begun)
            if self._session.denied:
                return
            begun.taken.set_result(None)
            self._slots.release()
            del begun

    async def _write_answer(self, begun: InWork) -> None:
        """Write one answer, which nothing keeps then."""
        answered = begun.answered
        assert answered is not None  # noqa: S101 - it goes here alone
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
