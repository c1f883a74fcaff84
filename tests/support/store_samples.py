"""The factory of stores for the store contract, and sample rows.

A test may open the same data several times, each time as another process would.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.bindings.record import Record
from app.interfaces import (
    Attempt,
    DeadLetter,
    DeadLetterFilter,
    EventName,
    Parked,
    PullMessage,
    Replay,
    Store,
)
from app.model.message import Message, Partition
from app.store import SqlStore, open_store

ALL = DeadLetterFilter()
ORDERS, PAYMENTS = Partition("orders", 3), Partition("payments", 0)
NOW = 1_700_000_000_000  # ms
PATIENT = (
    60.0  # seconds: a store timeout for tests that do not test it; a disk may stall for twenty
)
SUBSCRIPTION, BROKER = "billing", "main"
RECORD = Record(
    b"\x00\xff key",
    (("ce_id", b"1"), ("ce_id", b"again"), ("gone", None), ("empty", b"")),
    b"\x00body\xff",
    "application/x-thing",
)


class StoreFactory:
    """A factory of started stores on the same data. ``make`` returns a new store that is not yet
    started."""

    def __init__(self, make: Callable[..., Store]) -> None:
        self._make = make
        self._open: list[Store] = []

    async def open(self, **settings: Any) -> Any:
        store = self._make(**settings)
        await store.start()
        self._open.append(store)
        return store

    async def close(self) -> None:
        for store in self._open:
            await store.stop()


@asynccontextmanager
async def store_factory(make: Callable[..., Store]) -> AsyncIterator[StoreFactory]:
    house = StoreFactory(make)
    try:
        yield house
    finally:
        await house.close()


@asynccontextmanager
async def opened_store(folder: Path) -> AsyncIterator[SqlStore]:
    store = open_store(folder / "store.db", timeout=PATIENT)
    await store.start()
    yield store
    await store.stop()


def a_message(
    offset: int = 7, *, epoch: int = 5, partition: Partition = ORDERS, record: Record = RECORD
) -> Message:
    return Message(record, partition, str(offset), offset, NOW + offset, epoch)


def a_letter(offset: int = 7, *, cause: str = "status-415", **values: Any) -> DeadLetter:
    fields = {"subscription": SUBSCRIPTION, "broker": BROKER, "at_ms": NOW, "lane": b"k"} | {
        name: values.pop(name)
        for name in ("subscription", "broker", "at_ms", "lane", "event", "detail")
        if name in values
    }
    fields.setdefault("detail", "no such format")
    return DeadLetter(
        message=a_message(offset, **values), cause=cause, attempts=2, status=415, **fields
    )


def a_row(offset: int = 7, lane: bytes = b"k", **values: Any) -> Parked:
    fields = {"subscription": SUBSCRIPTION, "broker": BROKER, "at_ms": NOW} | {
        name: values.pop(name)
        for name in ("subscription", "due_ms", "at_ms", "cause", "detail", "steps", "attempts")
        if name in values
    }
    event = EventName(str(offset), "/shop", "made")
    return Parked(message=a_message(offset, **values), lane=lane, event=event, **fields)


def an_offer(offset: int = 7, lane: bytes = b"k", **values: Any) -> PullMessage:
    subscription = values.pop("subscription", SUBSCRIPTION)
    return PullMessage(
        subscription=subscription,
        broker=BROKER,
        message=a_message(offset, **values),
        lane=lane,
        at_ms=NOW,
        event=EventName(str(offset), "/shop", "made"),
    )


def an_attempt(number: int = 1, **values: Any) -> Attempt:
    fields = {
        "subscription": SUBSCRIPTION,
        "partition": ORDERS,
        "position": str(number),
        "event": EventName(f"e{number}", "/shop", "made"),
        "number": number,
        "started_ms": NOW + number,
        "duration_ms": 1.5,
        "outcome": "retry",
        "status": 503,
        "detail": "it answered é",
        "next_try_in": 2.25,
    }
    return Attempt(**fields | values)


def a_replay(**values: Any) -> Replay:
    fields = {
        "subscription": SUBSCRIPTION,
        "broker": BROKER,
        "partition": ORDERS,
        "next": "5",
        "until": "9",
        "rate": 2.5,
        "asked_ms": NOW,
    }
    return Replay(**fields | values)


def sqlite_file(folder: Path) -> Path:
    return folder / "data" / "store.db"


def offsets(rows: list[Any]) -> list[int]:
    return [row.message.offset for row in rows]
