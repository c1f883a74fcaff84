"""A Kafka that stands still under a service that goes on being asked: every answer stays bounded, and so
does the memory.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import httpx
import pytest

from app.brokers.kafka import open_log
from kafka_server import KafkaServer
from publishing_service import PUBLISH, PublishingService
from waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.kafka, pytest.mark.fault]

SENDERS = 48
BODY = b"x" * 20_000
OVERHEAD = 30.0  # seconds that busy cores may add to the publish time-out
MOST_GROWTH = 64 << 20  # bytes; what arrives during the shorter stall is several times that


class Answer(NamedTuple):
    status: int
    retry_after: str | None
    took: float
    at: float


class Senders:
    """Post one event after another, whatever is answered."""

    def __init__(self, url: str) -> None:
        self.answers: list[Answer] = []
        self._url = url
        self._tasks = [asyncio.create_task(self._run(number)) for number in range(SENDERS)]

    async def _run(self, number: int) -> None:
        headers = {
            "ce-specversion": "1.0",
            "ce-id": "1",
            "ce-source": f"/{number}",
            "ce-type": "t",
            "skybridge-key": str(number),
        }
        async with httpx.AsyncClient(timeout=120) as client:
            while True:
                began = time.monotonic()
                answer = await client.post(self._url, content=BODY, headers=headers)
                now = time.monotonic()
                retry_after = answer.headers.get("retry-after")
                self.answers.append(Answer(answer.status_code, retry_after, now - began, now))
                if answer.status_code != 202:
                    await asyncio.sleep(0.01)  # a sender that is refused takes breath

    def since(self, moment: float) -> list[Answer]:
        return [answer for answer in self.answers if answer.at >= moment]

    def asked_since(self, moment: float) -> list[Answer]:
        return [answer for answer in self.answers if answer.at - answer.took >= moment]

    async def accepted(self, since: float) -> None:
        await until(lambda: any(answer.status == 202 for answer in self.since(since)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends


async def made(address: str) -> str:
    topic = f"t-{uuid4().hex[:12]}"
    log = open_log(name="kafka", bootstrap_servers=address)
    await log.start()
    await log.create_topic(topic, 4)
    await log.stop()
    return topic


@pytest.mark.parametrize("stalled", [3.0, pytest.param(20.0, marks=pytest.mark.nightly)])
async def test_a_broker_that_stands_still_holds_no_sender_and_fills_no_memory(
    own_kafka: KafkaServer, tmp_path: Path, stalled: float
) -> None:
    """Reliability R7, rules 8 and 9: 503 with Retry-After in time for each, and 202 again soon after."""
    topic = await made(own_kafka.bootstrap_servers)
    broker = {"bootstrap_servers": own_kafka.bootstrap_servers}
    service = PublishingService(tmp_path, broker, topic)
    with service.process.ended():
        await asyncio.to_thread(service.process.start)
        senders = Senders(service.events)
        await senders.accepted(time.monotonic())
        await asyncio.sleep(1.0)  # buffers and pools have the size that they need
        before = service.process.resident()
        own_kafka.pause()
        stood_still = time.monotonic()
        await asyncio.sleep(stalled)  # the length of the fault is the test's subject
        ended = time.monotonic()
        await until(
            lambda: len(senders.asked_since(ended)) >= SENDERS, "answers to the end of the stall"
        )
        grown = service.process.resident() - before
        during = senders.asked_since(stood_still)  # what was stored before may be answered still
        own_kafka.resume()
        await senders.accepted(time.monotonic() + 0.1)
        await senders.stop()
    assert {answer.status for answer in during} == {503}
    assert all(answer.retry_after for answer in during)
    assert max(answer.took for answer in during) < PUBLISH + OVERHEAD
    assert grown < MOST_GROWTH, f"{grown >> 20} MiB more"
