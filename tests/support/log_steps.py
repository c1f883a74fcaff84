"""Small helpers that tests of the embedded log share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.bindings.record import Record
from app.delivery.offsets import decode_runs
from app.interfaces import PublishResult
from app.log.engine import LogEngine
from app.log.groups.positions import CommittedOffset
from app.log.settings import EngineSettings
from app.model.message import Message, Partition
from app.model.receipt import Receipt


class EngineSubmission(asyncio.Future[list[PublishResult]]):
    """A submission to the engine, without the broker-independent part around it."""

    identities = None

    def __init__(self, topic: str, records: Sequence[Record]) -> None:
        super().__init__()
        self.topic = topic
        self.records = records

    def resolve_all(self, results: list[PublishResult]) -> None:
        if not self.done():
            self.set_result(results)


class ManualTime:
    """A wall clock of a log in ms since 1970, which the test moves."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


async def started(folder: Path, **settings: Any) -> LogEngine:
    engine = LogEngine(EngineSettings(path=folder, **settings))
    await engine.start()
    return engine


def append(engine: LogEngine, topic: str, *records: Record) -> EngineSubmission:
    appending = EngineSubmission(topic, records)
    engine.append(appending)
    return appending


async def append_stored(engine: LogEngine, topic: str, *records: Record) -> list[Receipt]:
    results = await append(engine, topic, *records)
    receipts = [result for result in results if isinstance(result, Receipt)]
    assert len(receipts) == len(results), results
    return receipts


async def read_all(engine: LogEngine, topic: str) -> list[Message]:
    """Return all readable messages of a topic, partition by partition."""
    found: list[Message] = []
    for log in engine.topics()[topic].partitions:
        offset = log.earliest
        while offset < log.next_offset:
            page = await engine.page(log.place, offset)
            found += page.messages
            assert page.next_offset > offset
            offset = page.next_offset
    return found


def numbered(*numbers: int, key: bytes = b"k", size: int = 0) -> list[Record]:
    return [Record(key, (), b"%d" % number + b"." * size) for number in numbers]


def place(topic: str, number: int = 0) -> Partition:
    return Partition(topic, number)


def is_covered(committed: CommittedOffset, offset: int) -> bool:
    """Return True if a group with this commit has finished the offset."""
    runs = decode_runs(committed.offset, committed.metadata)
    return offset < committed.offset or any(first <= offset <= last for first, last in runs)
