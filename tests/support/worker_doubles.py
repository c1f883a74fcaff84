"""A sink, a client, events and a subscription for tests of the worker, all under the control of the
test."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from app.bindings.http import HttpMessage
from app.bindings.record import Decoded, Record
from app.interfaces import AnswerCallback, BegunAttempt, DeliveryRequest, Sink, SinkAnswer
from app.model.subscription import Subscription

PATIENCE = 60.0  # seconds: only a bound, because every wait ends with its condition
OK = SinkAnswer(204)


def an_event(number: int, key: str | None = "k", **attributes: str) -> Record:
    """Return the record of an event in binary mode, with ``number`` as its id and data."""
    named = {"specversion": "1.0", "id": str(number), "source": "/t", "type": "t", **attributes}
    headers = tuple((f"ce_{name}", text.encode()) for name, text in named.items())
    return Record(None if key is None else key.encode(), headers, str(number).encode())


def a_subscription(**settings: object) -> Subscription:
    return Subscription.model_validate(
        {
            "id": "billing",
            "source": {"broker": "log", "topics": ["orders"]},
            "start": "earliest",
            "sink": "https://billing.example/hook",
            **settings,
        }
    )


def event_id(outgoing: DeliveryRequest) -> str:
    """Return the id of the event in a request, or "" if the record is not an event."""
    return "" if outgoing.decoded is None else outgoing.decoded.event.attributes.get("id", "")


class ScriptedSink(Sink):
    """A sink that gives scripted answers, and records the order and concurrency of requests.

    Attributes:
        script: Answers in turn, by event id.
        default: The answer when the script of an event is empty.
        requests: The requests in the order in which they began.
        answered: The ids of the answered requests, in order.
        flying: The count of requests in flight.
        most_flying: The greatest count of requests in flight.
        begins: Whether attempts begin without a task of the worker, as those of webhooks do.
        begun: The tasks of this sink that answer such attempts.
    """

    begins = True

    def __init__(self, default: SinkAnswer = OK) -> None:
        self.begun: set[asyncio.Task[None]] = set()
        self.default = default
        self.script: dict[str, deque[SinkAnswer]] = defaultdict(deque)
        self.requests: list[DeliveryRequest] = []
        self.answered: list[str] = []
        self.flying = self.most_flying = 0
        self.stopped = False
        self._gates: dict[str, asyncio.Event] = {}

    @property
    def ids(self) -> list[str]:
        """Return the event ids of all attempts, in the order in which they began."""
        return [event_id(request) for request in self.requests]

    def hold(self, *ids: object) -> None:
        for name in map(str, ids):
            self._gates[name] = asyncio.Event()

    def release(self, *ids: object) -> None:
        for name in map(str, ids):
            self._gates.pop(name).set()

    def answer(self, name: object, *answers: SinkAnswer) -> None:
        self.script[str(name)].extend(answers)

    def when_ready(self, ready: Callable[[], None]) -> None:
        self.ready = ready

    def begin(
        self, decoded: Decoded | None, within: float, on_answer: AnswerCallback
    ) -> BegunAttempt | None:
        if not self.begins:
            return None
        request: Any = SimpleNamespace(decoded=decoded, timeout=within)

        async def answer() -> None:
            on_answer(await self.answer_to(request))

        task = asyncio.create_task(answer())
        self.begun.add(task)
        task.add_done_callback(self.begun.discard)
        attempt: Any = SimpleNamespace(abort=task.cancel)
        return attempt  # type: ignore[no-any-return]

    async def send(self, request: DeliveryRequest) -> SinkAnswer:
        return await self.answer_to(request)

    async def answer_to(self, request: DeliveryRequest) -> SinkAnswer:
        """Record the request, and return its answer when it is not held."""
        name = event_id(request)
        self.requests.append(request)
        self.flying += 1
        self.most_flying = max(self.most_flying, self.flying)
        try:
            gate = self._gates.get(name)
            await (gate.wait() if gate is not None else asyncio.sleep(0))
        finally:
            self.flying -= 1
        self.answered.append(name)
        script = self.script.get(name)
        return script.popleft() if script else self.default

    async def stop(self) -> None:
        self.stopped = True


class RecordingClient:
    """A webhook client that records the requests it would post, and gives a fixed answer."""

    def __init__(self, answer: SinkAnswer = OK) -> None:
        self.answer = answer
        self.posted: list[HttpMessage] = []
        self.told: list[tuple[str, float]] = []

    def begin(self, *_: object) -> None:
        """Leave every attempt to ``send``."""

    async def send(
        self, method: str, url: str, message: HttpMessage, within: float, target: str = ""
    ) -> SinkAnswer:
        """Record the request, and return the fixed answer."""
        assert (method, target) == ("POST", "")
        self.posted.append(message)
        self.told.append((url, within))
        return self.answer

    async def stop(self) -> None: ...
