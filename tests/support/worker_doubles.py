"""A target, a store and events for tests of the worker, all in the test's hand."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping

from app.bindings.record import Record
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import DeadLetter, SinkAnswer, SinkRequest
from app.model.message import Partition
from app.model.metadata import Health
from app.model.subscription import Subscription

PATIENCE = 10.0
OK = SinkAnswer(204)


async def until(condition: Callable[[], bool], within: float = PATIENCE) -> None:
    """Bounded wait on a condition."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.002)


def an_event(number: int, key: str | None = "k", **attributes: str) -> Record:
    """A record of an event in binary mode; its id is ``number``, its data too."""
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


def event_id(request: SinkRequest) -> str:
    return dict(request.headers)["ce-id"]


class ScriptedSink:
    """``script``: answers in turn by event id; ``default`` when it is used up. ``held`` ids do not get
    an answer before ``release``. Records order, concurrency and what was sent when."""

    def __init__(self, default: SinkAnswer = OK) -> None:
        self.default = default
        self.script: dict[str, deque[SinkAnswer]] = defaultdict(deque)
        self.requests: list[SinkRequest] = []
        self.answered: list[str] = []
        self.flying = self.most_flying = 0
        self.stopped = False
        self._gates: dict[str, asyncio.Event] = {}

    @property
    def ids(self) -> list[str]:
        """Of all attempts, in the order they were begun."""
        return [event_id(request) for request in self.requests]

    def hold(self, *ids: object) -> None:
        for name in map(str, ids):
            self._gates[name] = asyncio.Event()

    def release(self, *ids: object) -> None:
        for name in map(str, ids):
            self._gates.pop(name).set()

    def answer(self, name: object, *answers: SinkAnswer) -> None:
        self.script[str(name)].extend(answers)

    async def send(self, request: SinkRequest) -> SinkAnswer:
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


class MemoryStore:
    """Fills ``interfaces.Store``. ``failures``: raised by the next writes."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.disabled_ones: dict[str, str] = {}
        self.epochs: dict[Partition, int] = {}
        self.failures: deque[StoreUnavailable | StaleOwner] = deque()

    async def start(self) -> None: ...
    async def stop(self) -> None: ...

    async def own(
        self, subscription: str, broker: str, partitions: Collection[Partition], epoch: int
    ) -> None:
        self.epochs.update(dict.fromkeys(partitions, epoch))

    async def add_dead_letter(self, letter: DeadLetter) -> None:
        self._fail()
        message = letter.message
        if message.epoch < self.epochs.get(message.partition, 0):
            raise StaleOwner("stale")
        places = [(one.message.partition, one.message.position) for one in self.letters]
        if (message.partition, message.position) not in places:
            self.letters.append(letter)

    async def dead_letters(
        self, subscription: str | None = None, limit: int = 100
    ) -> list[DeadLetter]:
        return self.letters[-limit:]

    async def count_dead_letters(self) -> Mapping[tuple[str, str], int]:
        return Counter((letter.subscription, letter.cause) for letter in self.letters)

    async def set_disabled(self, subscription: str, cause: str) -> None:
        self._fail()
        self.disabled_ones[subscription] = cause

    async def disabled(self) -> Mapping[str, str]:
        return dict(self.disabled_ones)

    async def enable(self, subscription: str) -> None:
        self.disabled_ones.pop(subscription, None)

    async def health(self) -> Health:
        return Health(healthy=True)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.popleft()
