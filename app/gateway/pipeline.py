"""The requests of one connection, answered in the order they came (RFC 9112 9.3.2).

Hot requests work side by side, at most ``in_work`` of them; an answer that is ready early waits for
those before it. A request of the ordinary ASGI way writes to the transport by itself, so it begins
when everything before it has been answered, and what comes behind it waits.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Protocol

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.gateway.answers import Answer
from app.gateway.request import Request
from app.telemetry import Histogram

_HUNDREDS = ((), ("1xx",), ("2xx",), ("3xx",), ("4xx",), ("5xx",))  # labels


class Connection(Protocol):
    """What the pipeline asks of the connection it belongs to."""

    def publish(self, exchange: Exchange) -> Answer | None:
        """Begin a hot request. None: ``exchange.answered`` will be called, once."""

    def begin_asgi(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None: ...

    def write(self, answer: Answer, *, last: bool) -> None:
        """Write ``answer``; close behind it when it is the ``last``."""

    def is_receiving(self) -> bool:
        """Whether a request has begun to arrive that is not in the pipeline yet."""

    def pipeline_changed(self) -> None:
        """Requests were added or answered."""


class Exchange:
    """One request and, when it has one, its answer. A refusal has only an answer.

    ``last``: the connection closes behind it. ``begun``: when the request was whole. ``request`` is let go with
    the answer: answers that are due before it may take long.
    """

    __slots__ = ("answer", "begun", "cycle", "hot", "last", "pipeline", "request")

    def __init__(self, pipeline: Pipeline, request: Request | None, last: bool) -> None:
        self.pipeline = pipeline
        self.request = request
        self.hot = request is not None
        self.last = last
        self.begun = perf_counter()
        self.answer: Answer | None = None
        self.cycle: RequestResponseCycle | None = None

    def answered(self, answer: Answer) -> None:
        """The answer of a hot request. The connection may be gone by now; then it is dropped."""
        if self.answer is None:
            self.answer = answer
            self.request = None
            self.pipeline.settled(self)


class OrdinaryExchange(Exchange):
    """A request of the ASGI way; it begins when it is at the head."""

    __slots__ = ("app", "running")

    def __init__(
        self, pipeline: Pipeline, cycle: RequestResponseCycle, app: ASGI3Application
    ) -> None:
        super().__init__(pipeline, None, last=False)
        self.cycle = cycle
        self.app = app
        self.running = False


class Pipeline:
    """Exchanges in the order of arrival; those in ``_waiting`` have not begun yet. ``answered``: how long
    hot requests wait for their answer, those before them included, by the hundred of its status."""

    def __init__(
        self, connection: Connection, in_work: int, answered: Histogram | None = None
    ) -> None:
        self.draining = False
        self._answered = Histogram() if answered is None else answered
        self._connection = connection
        self._bound = in_work
        self._exchanges: deque[Exchange] = deque()
        self._waiting: deque[Exchange] = deque()
        self._working = 0
        self._starting = False

    def __len__(self) -> int:
        return len(self._exchanges)

    @property
    def is_full(self) -> bool:
        return len(self._exchanges) >= self._bound

    def add_hot(self, request: Request, *, last: bool) -> None:
        exchange = Exchange(self, request, last)
        self._exchanges.append(exchange)
        if self._working < self._bound and not self._waiting:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)

    def add_asgi(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._exchanges.append(OrdinaryExchange(self, cycle, app))
        self._flush()

    def add_refusal(self, answer: Answer) -> None:
        """Nothing may be added behind it."""
        refusal = Exchange(self, None, last=True)
        refusal.answer = answer
        self._exchanges.append(refusal)
        self._flush()

    def settled(self, exchange: Exchange) -> None:
        """A hot request has its answer."""
        self._working -= 1
        if self._exchanges and self._exchanges[0] is exchange:
            self._flush()
        if self._waiting:
            self._begin_waiting()

    def asgi_completed(self) -> None:
        """The ordinary request at the head has written its whole answer."""
        self._exchanges.popleft()
        self._flush()

    def withdraw_asgi(self, cycle: RequestResponseCycle) -> None:
        """The newest request will never be whole; its application gets no more of it."""
        if self._exchanges and self._exchanges[-1].cycle is cycle:
            self._exchanges.pop()

    def drain(self) -> None:
        """No request is taken after those that are there: the answer of the newest says so."""
        self.draining = True
        if len(self._exchanges) == 1 and (cycle := self._exchanges[0].cycle) is not None:
            cycle.keep_alive = False

    def drop(self) -> list[RequestResponseCycle]:
        """The connection is gone. What has not begun never will. Returns the ordinary requests."""
        cycles = [exchange.cycle for exchange in self._exchanges if exchange.cycle is not None]
        self._exchanges.clear()
        self._waiting.clear()
        return cycles

    def _begin(self, exchange: Exchange) -> None:
        self._working += 1
        answer = self._connection.publish(exchange)
        if answer is not None:
            exchange.answered(answer)

    def _begin_waiting(self) -> None:
        """A loop, not a recursion, also when each one is answered at once."""
        if self._starting:
            return
        self._starting = True
        while self._waiting and self._working < self._bound:
            self._begin(self._waiting.popleft())
        self._starting = False

    def _flush(self) -> None:
        exchanges = self._exchanges
        while exchanges:
            head = exchanges[0]
            if head.answer is None:
                if type(head) is OrdinaryExchange:
                    self._begin_asgi(head)
                break
            exchanges.popleft()
            if head.hot:
                labels = _HUNDREDS[head.answer.status // 100]
                self._answered[labels].add(perf_counter() - head.begun)
            self._connection.write(head.answer, last=head.last or self._ends_here())
        self._connection.pipeline_changed()

    def _begin_asgi(self, head: OrdinaryExchange) -> None:
        if head.running or head.cycle is None:
            return
        head.running = True
        if self._ends_here(own=1):
            head.cycle.keep_alive = False
        self._connection.begin_asgi(head.cycle, head.app)

    def _ends_here(self, own: int = 0) -> bool:
        """Whether a connection that drains has nothing more to come after this answer."""
        return self.draining and len(self._exchanges) == own and not self._connection.is_receiving()
