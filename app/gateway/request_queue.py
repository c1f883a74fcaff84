"""The requests of one connection, answered in the order in which they arrived (RFC 9112 9.3.2).

Up to ``in_work`` fast requests run at the same time. An answer that is ready early waits for the answers to
earlier requests. An ASGI request writes its answer to the transport itself. So it begins when all earlier
requests are answered, and later requests wait until it has ended.

After ``keep_alive_requests`` answers the next answer is the last one of the connection. A client that sends
a request before it has the answer to the one before would lose it. So the count begins again if requests
overlap, and an answer is never the last while a request arrives.
"""

from __future__ import annotations

import math
from collections import deque
from time import perf_counter
from typing import Any, Protocol

from app.gateway.answers import HttpAnswer
from app.gateway.request import EventRequest
from app.gateway.uvicorn_adapter import AsgiCycle
from app.telemetry import Histogram

_HUNDREDS = ((), ("1xx",), ("2xx",), ("3xx",), ("4xx",), ("5xx",))  # metric labels


class QueueOwner(Protocol):
    """The connection that a request queue belongs to."""

    def publish(self, cycle: RequestCycle) -> HttpAnswer | None:
        """Begin a fast request. Return the answer if it is known at once. Otherwise return None, and call
        ``cycle.answered`` once later.
        """

    def begin_asgi(self, asgi: AsgiCycle, app: Any) -> None: ...

    def write(self, answer: HttpAnswer, *, last: bool) -> None:
        """Write an answer, and close the connection afterwards if it is the ``last``."""

    def is_receiving(self) -> bool:
        """Return True if a request has begun to arrive that is not in the queue yet."""

    def is_idle(self) -> bool:
        """Return True if no further request can have arrived: nothing is being parsed, and the newest
        request is complete."""

    def read_no_more(self) -> None:
        """Process no further request, because the answer that begins now is the last one."""

    def queue_changed(self) -> None:
        """React to a change of the queue, after requests were added or answered."""


class RequestCycle:
    """One request, with its answer as soon as there is one. A refusal has an answer but no request.

    ``last`` means that the connection closes after this answer. ``begun`` is the time at which the request
    was complete. ``request`` is dropped when the request begins. So the body is not kept in memory while a
    log stores the records.
    """

    __slots__ = ("answer", "asgi", "begun", "fast", "last", "queue", "request")

    def __init__(self, queue: RequestQueue, request: EventRequest | None, last: bool) -> None:
        self.queue = queue
        self.request = request
        self.fast = request is not None
        self.last = last
        self.begun = perf_counter()
        self.answer: HttpAnswer | None = None
        self.asgi: AsgiCycle | None = None

    def answered(self, answer: HttpAnswer) -> None:
        """Take the answer of a fast request. It is ignored if the connection has ended."""
        if self.answer is None:
            self.answer = answer
            self.queue.answer_ready(self)


class AsgiRequestCycle(RequestCycle):
    """An ASGI request. It begins to run when it is the first in the queue."""

    __slots__ = ("app", "running")

    def __init__(self, queue: RequestQueue, asgi: AsgiCycle, app: Any) -> None:
        super().__init__(queue, None, last=False)
        self.asgi = asgi
        self.app = app
        self.running = False


class RequestQueue:
    """The queue of the requests of one connection, in the order of arrival. Requests in
    ``_waiting`` have not begun.

    ``answered`` is a histogram of the time that fast requests wait for their answer, by class of status. This
    includes the wait for earlier requests.
    """

    def __init__(
        self,
        owner: QueueOwner,
        in_work: int,
        answered: Histogram | None = None,
        keep_alive_requests: int = 0,
    ) -> None:
        self.draining = False
        self.overlaps = False  # a request has arrived before the answer to the one before
        self._period = keep_alive_requests or math.inf
        self._left = self._period  # answers until the connection may end
        self._answered = Histogram() if answered is None else answered
        self._owner = owner
        self._bound = in_work
        self._cycles: deque[RequestCycle] = deque()
        self._waiting: deque[RequestCycle] = deque()
        self._working = 0
        self._starting = False

    def __len__(self) -> int:
        return len(self._cycles)

    @property
    def is_used_up(self) -> bool:
        """Return True if the connection has had as many answers as it may have."""
        return self._left <= 0

    @property
    def is_full(self) -> bool:
        return len(self._cycles) >= self._bound

    def add_fast(self, request: EventRequest, *, last: bool) -> None:
        cycle = RequestCycle(self, request, last)
        if self._cycles:
            self.overlaps = True
        self._cycles.append(cycle)
        if self._working < self._bound and not self._waiting:
            self._begin(cycle)
        else:
            self._waiting.append(cycle)

    def add_asgi(self, asgi: AsgiCycle, app: Any) -> None:
        if self._cycles:
            self.overlaps = True
        self._cycles.append(AsgiRequestCycle(self, asgi, app))
        self._flush()

    def add_refusal(self, answer: HttpAnswer) -> None:
        """Add the last answer of the connection. No request may be added afterwards."""
        refusal = RequestCycle(self, None, last=True)
        refusal.answer = answer
        self._cycles.append(refusal)
        self._flush()

    def answer_ready(self, cycle: RequestCycle) -> None:
        """Note that a fast request has its answer. Write all answers that no longer wait for earlier ones."""
        self._working -= 1
        if self._cycles and self._cycles[0] is cycle:
            self._flush()
        if self._waiting:
            self._begin_waiting()

    def asgi_completed(self) -> None:
        """Remove the first request of the queue. It is an ASGI request, whose answer was written."""
        self._cycles.popleft()
        self._flush()

    def withdraw_asgi(self, asgi: AsgiCycle) -> None:
        """Remove the newest request if it is this ASGI request. The rest of the request will not arrive."""
        if self._cycles and self._cycles[-1].asgi is asgi:
            self._cycles.pop()

    def drain(self) -> None:
        """Let the connection close after the last answer to the requests that are in the queue now."""
        self.draining = True
        if len(self._cycles) == 1 and (asgi := self._cycles[0].asgi) is not None:
            asgi.keep_alive = False

    def use_up(self) -> None:
        """Let the connection close after its next answer, as if it had had all answers that it may have."""
        self._period = self._left = 1

    def drop(self) -> list[AsgiCycle]:
        """Discard all requests, because the connection has ended. Return the ASGI requests among them.

        Nothing may be added afterwards. The queue lets go of the connection: otherwise the two would stay in
        memory until the garbage collector runs, which it seldom does."""
        asgi_cycles = [cycle.asgi for cycle in self._cycles if cycle.asgi is not None]
        self._cycles.clear()
        self._waiting.clear()
        del self._owner
        return asgi_cycles

    def _begin(self, cycle: RequestCycle) -> None:
        self._working += 1
        answer = self._owner.publish(cycle)
        cycle.request = None
        if answer is not None:
            cycle.answered(answer)

    def _begin_waiting(self) -> None:
        """Begin waiting requests one after the other. The method uses a loop, because recursion could go too
        deep if each request is answered at once.
        """
        if self._starting:
            return
        self._starting = True
        while self._waiting and self._working < self._bound:
            self._begin(self._waiting.popleft())
        self._starting = False

    def _flush(self) -> None:
        cycles = self._cycles
        while cycles:
            head = cycles[0]
            if head.answer is None:
                if type(head) is AsgiRequestCycle:
                    self._begin_asgi(head)
                break
            cycles.popleft()
            self._left -= 1
            if head.fast:
                labels = _HUNDREDS[head.answer.status // 100]
                self._answered[labels].add(perf_counter() - head.begun)
            last = head.last or ((self.draining or self._left <= 0) and self._is_last_answer())
            self._owner.write(head.answer, last=last)
        self._owner.queue_changed()

    def _begin_asgi(self, head: AsgiRequestCycle) -> None:
        if head.running or head.asgi is None:
            return
        head.running = True
        self._left -= 1
        app = head.app
        if self.draining and self._is_last_answer(own=1):
            head.asgi.keep_alive = False
        elif self.is_used_up and head.asgi.keep_alive:
            app = self._announcing(head.asgi, app)
        self._owner.begin_asgi(head.asgi, app)

    def _announcing(self, asgi: AsgiCycle, app: Any) -> Any:
        """Return the ASGI application with an answer that may be the last, as is decided when it begins.

        ``keep_alive`` is False only while uvicorn writes the head of the answer. Otherwise uvicorn would
        close the connection itself, and a request under way would reset it.
        """

        async def run(scope: Any, receive: Any, send: Any) -> None:
            async def announce(message: Any) -> None:
                if message["type"] != "http.response.start" or not self._is_last_answer(own=1):
                    await send(message)
                    return
                self._owner.read_no_more()
                asgi.keep_alive = False
                await send(message)
                asgi.keep_alive = True

            await app(scope, receive, announce)

        return run

    def _is_last_answer(self, own: int = 0) -> bool:
        """Return True if this answer is the last of a connection that drains or is used up. ``own`` is 1 if
        its request is still in the queue."""
        if len(self._cycles) != own:
            return False
        if self.draining:
            return not self._owner.is_receiving()
        if self.overlaps:
            self.overlaps, self._left = False, self._period
            return False
        return self._owner.is_idle()
