"""A fake service over a real store, with what the API of dead letters, parked events and attempts
needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import topics_service
from app.bindings.record import Record
from app.interfaces import Attempt, DeadLetter, EventName, Parked, WaitingEvent
from app.model.message import Message, Partition
from app.model.route import Route
from app.model.subscription import Subscription
from app.store import open_store

BEGIN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class FakeLettersService(topics_service.FakeTopicsService):
    """The fake service. ``names`` are the ids of its subscriptions."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.store: Any = open_store(folder / "store.db", timeout=60, clock=self.clock)
        self.logs = {"log": self.log}
        self.names = ["billing", "mail"]
        self.routes: list[Route] = []
        self.paused: set[str] = set()
        self.remembered: list[Attempt] = []
        self.clock._now = 70_000_000.0  # letters were given up before now

    @property
    def registry(self) -> FakeLettersService:
        """Return the service itself, which has no stored subscription."""
        return self

    async def entry(self, _name: str) -> None:
        return None

    async def declared(self) -> Sequence[Subscription]:
        return [self._subscription(name) for name in self.names]

    def attempts(self, subscription: str | None, limit: int) -> Sequence[Attempt]:
        found = [one for one in self.remembered if subscription in {None, one.subscription}]
        return found[:limit]

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[WaitingEvent]:
        return []

    def _subscription(self, name: str) -> Subscription:
        return Subscription.model_validate(
            {
                "id": name,
                "source": {"broker": "log", "topics": ["orders"]},
                "sink": "https://billing.example/hook",
                "paused": name in self.paused,
            }
        )


def a_message(
    number: int, *, key: bytes | None = b"k", body: bytes = b"{}", **named: str
) -> Message:
    """Return a message whose event id, position and offset are ``number``."""
    attributes = {
        "specversion": "1.0",
        "id": str(number),
        "source": "/shop",
        "type": "com.example.order",
        **named,
    }
    headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
    record = Record(key, (*headers, ("content-type", b"application/json")), body)
    return Message(record, Partition("orders", 0), str(number), number, BEGIN_MS, 0)


def a_letter(
    number: int,
    *,
    subscription: str = "billing",
    cause: str = "status-415",
    type_: str = "com.example.order",
    source: str = "/shop",
    **given: Any,
) -> DeadLetter:
    message = given.pop("message", None) or a_message(number, type=type_, source=source)
    return DeadLetter(
        subscription=subscription,
        broker="log",
        message=message,
        cause=cause,
        detail=given.pop("detail", "415 no"),
        attempts=1,
        status=415,
        at_ms=given.pop("at_ms", BEGIN_MS + number * 1000),
        lane=message.record.key or b"",
        event=EventName(str(number), source, type_),
        **given,
    )


def a_row(
    number: int, *, subscription: str = "billing", key: bytes | None = b"k", **given: Any
) -> Parked:
    return Parked(
        subscription=subscription,
        broker="log",
        message=a_message(number, key=key),
        lane=key or str(number).encode(),
        cause=given.pop("cause", "status-503"),
        at_ms=BEGIN_MS + number,
        event=EventName(str(number), "/shop", "com.example.order"),
        **given,
    )


def an_attempt(number: int, *, event: int = 1, outcome: str = "retry", **given: Any) -> Attempt:
    return Attempt(
        subscription=given.pop("subscription", "billing"),
        partition=Partition("orders", 0),
        position=given.pop("position", str(event)),
        event=EventName(str(event), "/shop", "com.example.order"),
        number=number,
        started_ms=BEGIN_MS + number,
        duration_ms=1.5,
        outcome=outcome,
        **given,
    )
