"""The requests of one connection, answered in the order they came (RFC 9112 9.3.2).

Hot requests work side by side, at most ``in_work`` of them; an answer that is ready early waits for
those before it. A request of the ordinary ASGI way writes to the transport by itself, so it begins
when everything before it has been answered, and what comes behind it waits.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Any, Protocol

from app.gateway.answers import Answer
from app.gateway.request import Request
from app.gateway.uvicorn_adapter import AsgiCycle
from app.telemetry import Histogram

_HUNDREDS = ((), ("1xx",), ("2xx",), ("3xx",), ("4xx",), ("5xx",))  # labels


class QueueOwner(Protocol):
    """What the queue asks of the connection it belongs to."""

    def publish(self, cycle: RequestCycle) -> Answer | None:
        """Begin a hot request. None: ``cycle.answered`` will be called, once."""

    def begin_asgi(self, asgi: AsgiCycle, app: Any) -> None: ...

    def write(self, answer: Answer, *, last: bool) -> None:
        """Write ``answer``; close behind it when it is the ``last``."""

    def is_receiving(self) -> bool:
        """Whether a request has begun to arrive that is not in the queue yet."""

    def queue_changed(self) -> None:
        """Requests were added or answered."""


class RequestCycle:
    """One request and, when it has one, its answer. A refusal has only an answer.

    ``last``: the connection closes behind it. ``begun``: when the request was whole. ``request`` is let go when it
    has begun: a body is not kept beside the records made of it while a log stores them.
    """

    __slots__ = ("answer", "asgi", "begun", "hot", "last", "queue", "request")

    def __init__(self, queue: RequestQueue, request: Request | None, last: bool) -> None:
        self.queue = queue
        self.request = request
        self.hot = request is not None
        self.last = last
        self.begun = perf_counter()
        self.answer: Answer | None = None
        self.asgi: AsgiCycle | None = None

    def answered(self, answer: Answer) -> None:
        """The answer of a hot request. The connection may be gone by now; then it is dropped."""
        if self.answer is None:
            self.answer = answer
            self.queue.settled(self)


class OrdinaryCycle(RequestCycle):
    """A request of the ASGI way; it begins when it is at the head."""

    __slots__ = ("app", "running")

    def __init__(self, queue: RequestQueue, asgi: AsgiCycle, app: Any) -> None:
        super().__init__(queue, None, last=False)
        self.asgi = asgi
        self.app = app
        self.running = False


class RequestQueue:
    """Cycles in the order of arrival; those in ``_waiting`` have not begun yet. ``answered``: how long
    hot requests wait for their answer, those before them included, by the hundred of its status."""

    def __init__(self, owner: QueueOwner, in_work: int, answered: Histogram | None = None) -> None:
        self.draining = False
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
    def is_full(self) -> bool:
        return len(self._cycles) >= self._bound

    def add_hot(self, request: Request, *, last: bool) -> None:
        cycle = RequestCycle(self, request, last)
        self._cycles.append(cycle)
        if self._working < self._bound and not self._waiting:
            self._begin(cycle)
        else:
            self._waiting.append(cycle)

    def add_asgi(self, asgi: AsgiCycle, app: Any) -> None:
        self._cycles.append(OrdinaryCycle(self, asgi, app))
        self._flush()

    def add_refusal(self, answer: Answer) -> None:
        """Nothing may be added behind it."""
        refusal = RequestCycle(self, None, last=True)
        refusal.answer = answer
        self._cycles.append(refusal)
        self._flush()

    def settled(self, cycle: RequestCycle) -> None:
        """A hot request has its answer."""
        self._working -= 1
        if self._cycles and self._cycles[0] is cycle:
            self._flush()
        if self._waiting:
            self._begin_waiting()

    def asgi_completed(self) -> None:
        """The ordinary request at the head has written its whole answer."""
        self._cycles.popleft()
        self._flush()

    def withdraw_asgi(self, asgi: AsgiCycle) -> None:
        """The newest request will never be whole; its application gets no more of it."""
        if self._cycles and self._cycles[-1].asgi is asgi:
            self._cycles.pop()

    def drain(self) -> None:
        """No request is taken after those that are there: the answer of the newest says so."""
        self.draining = True
        if len(self._cycles) == 1 and (asgi := self._cycles[0].asgi) is not None:
            asgi.keep_alive = False

    def drop(self) -> list[AsgiCycle]:
        """The connection is gone. What has not begun never will. Returns the ordinary requests."""
        asgi_cycles = [cycle.asgi for cycle in self._cycles if cycle.asgi is not None]
        self._cycles.clear()
        self._waiting.clear()
        return asgi_cycles

    def _begin(self, cycle: RequestCycle) -> None:
        self._working += 1
        answer = self._owner.publish(cycle)
        cycle.request = None
        if answer is not None:
            cycle.answered(answer)

    def _begin_waiting(self) -> None:
        """A loop, not a recursion, also when each one is answered at once."""
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
                if type(head) is OrdinaryCycle:
                    self._begin_asgi(head)
                break
            cycles.popleft()
            if head.hot:
                labels = _HUNDREDS[head.answer.status // 100]
                self._answered[labels].add(perf_counter() - head.begun)
            self._owner.write(head.answer, last=head.last or self._ends_here())
        self._owner.queue_changed()

    def _begin_asgi(self, head: OrdinaryCycle) -> None:
        if head.running or head.asgi is None:
            return
        head.running = True
        if self._ends_here(own=1):
            head.asgi.keep_alive = False
        self._owner.begin_asgi(head.asgi, head.app)

    def _ends_here(self, own: int = 0) -> bool:
        """Whether a connection that drains has nothing more to come after this answer."""
        return self.draining and len(self._cycles) == own and not self._owner.is_receiving()
