"""A fake service for tests of the pull API, over an in-memory log and store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.bindings.record import Record
from app.delivery.lane_id import lane_id
from app.interfaces import EventName, Halt, PullMessage
from app.model.message import Message, Partition
from app.model.subscription import Subscription
from app.sinks.pull_queue import Wakeups
from fake_log import FakeLog
from memory_store import MemoryStore
from topics_service import FakeTopicsService
from worker_doubles import an_event

VERBS = "/v1/subscriptions/billing"
EVENTS = Partition("events", 0)


class FakePullService(FakeTopicsService):
    """A fake of what the pull API needs from a service.

    ``settings`` has settings of the subscription ``billing``, and ``pull`` those of its pull queue.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies = FakeLog("copies")
        self.logs["copies"] = self.copies
        self.store = MemoryStore(clock=self.clock)
        self.wakeups = Wakeups()
        self.told: list[tuple[str, Mapping[str, object]]] = []
        self.settings: dict[str, Any] = {}
        self.pull: dict[str, Any] = {}
        self.offered = 0

    def notify(self, kind: str, subscription: str, detail: Mapping[str, object], /) -> None:
        self.told.append((kind, detail))

    async def declared(self) -> Sequence[Subscription]:
        usual = {"source": {"broker": "log", "topics": ["events"]}, "sink": {"pull": self.pull}}
        hook = {**usual, "id": "hook", "sink": "https://billing.example/hook"}
        return [
            Subscription.model_validate(each)
            for each in ({**usual, "id": "billing", **self.settings}, hook)
        ]

    def halts(self) -> Mapping[str, Halt]:
        return self.store.halts.rows

    async def offer(self, *records: Record) -> None:
        """Store events in the pull queue as the worker does, and wake up waiting consumers."""
        rows = [self._row(record) for record in records]
        await self.store.pulled.offer(rows)
        self.wakeups.tell("billing")

    async def offer_events(self, *numbers: int, key: str | None = None) -> None:
        await self.offer(*(an_event(n, f"k{n}" if key is None else key) for n in numbers))

    def _row(self, record: Record) -> PullMessage:
        place = self.offered
        self.offered += 1
        time_ms = int(self.clock.now() * 1000)
        return PullMessage(
            subscription="billing",
            broker="log",
            message=Message(record, EVENTS, str(place), place, time_ms, 1),
            lane=lane_id(record.key, None, EVENTS, str(place)),
            at_ms=time_ms,
            event=EventName(dict(record.headers).get("ce_id", b"").decode()),
        )
