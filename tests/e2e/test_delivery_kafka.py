"""From HTTP over a real Kafka to a webhook: the service as a process, killed, shared and cut off."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import OffsetAndMetadata

from app.bindings.record import Record
from app.brokers.kafka import open_log
from app.brokers.kafka.consumer import KafkaConsumer
from app.model.receipt import Receipt
from app.model.subscription import Subscription
from app.runtime.clock import SystemClock
from app.sinks.webhook import WebhookSink
from app.store import open_store
from app.telemetry import Counters
from app.worker.supervisor import Supervisor
from kafka_server import KafkaServer
from service_process import ServiceProcess, free_ports
from webhook_target import Received, WebhookTarget, status

pytestmark = [pytest.mark.kafka, pytest.mark.fault, pytest.mark.timeout(120)]

PATIENCE = 30.0  # a bound: every wait ends with its condition
CONCURRENCY = 16
COMMIT_EVERY = 1.5  # seconds: the interval is one, and two slow cores add to it
MOST_IN_A_BATCH = 500
QUICK = Path(__file__).parents[1] / "support" / "quick_sessions.py"
OK, BUSY = status(204), status(503)


async def until(condition: Callable[[], bool], what: str, within: float = PATIENCE) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.01)


def numbered(first: int, count: int, keys: int) -> list[dict[str, Any]]:
    """Events whose key is that of their number, which is their id."""
    return [
        {
            "specversion": "1.0",
            "id": str(number),
            "source": f"/k{number % keys}",
            "type": "com.example.counted",
            "partitionkey": f"k{number % keys}",
            "datacontenttype": "application/json",
            "data": {"n": number},
        }
        for number in range(first, first + count)
    ]


class Ledger:
    """The target's own account. ``busy``: whether it answers 503 now, request by request.
    ``takes``: seconds until it answers."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.busy: Callable[[Received], bool] = lambda _: False
        self.takes = 0.0
        self._moments: list[float] = []

    async def __call__(self, request: Received) -> bytes:
        await asyncio.sleep(self.takes)
        if self.busy(request):
            return BUSY
        self.taken.append((request.header("ce-source"), int(request.id)))
        self._moments.append(time.monotonic())
        return OK

    def at_stake(self) -> int:
        """How much a kill at this moment may repeat: what is in flight, and what was finished since
        the last commit."""
        since = time.monotonic() - COMMIT_EVERY
        return CONCURRENCY + len(self._moments) - bisect(self._moments, since)

    @property
    def numbers(self) -> set[int]:
        return {number for _, number in self.taken}

    @property
    def repeats(self) -> int:
        return len(self.taken) - len(self.numbers)

    def times(self, number: int) -> int:
        return Counter(n for _, n in self.taken)[number]

    def out_of_order(self) -> dict[str, list[int]]:
        """Keys whose first arrivals are not in the order of acceptance."""
        firsts: dict[str, list[int]] = defaultdict(list)
        for key, number in dict.fromkeys(self.taken):
            firsts[key].append(number)
        return {key: numbers for key, numbers in firsts.items() if numbers != sorted(numbers)}


class Service:
    """One process of the service, in a folder of its own."""

    def __init__(self, folder: Path, house: House, sinks: dict[str, Any]) -> None:
        folder.mkdir()
        self._events_port, self.admin_port = free_ports(2)
        config = folder / "skybridge.json"
        config.write_text(json.dumps(self._config(house, sinks)))
        program = (sys.executable, str(QUICK))
        self.process = ServiceProcess(config, folder, self.admin_port, program)

    async def start(self) -> None:
        root = str(Path(__file__).parents[2])
        await asyncio.to_thread(self.process.start, {"PYTHONPATH": root})

    async def kill(self) -> None:
        await asyncio.to_thread(self.process.kill)

    async def stop(self) -> None:
        assert await asyncio.to_thread(self.process.stop) == 0

    async def post(self, content: bytes, headers: dict[str, str]) -> int:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            url = f"http://127.0.0.1:{self._events_port}/events"
            return (await client.post(url, content=content, headers=headers)).status_code

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        kind = {"content-type": "application/cloudevents-batch+json"}
        for first in range(0, len(events), MOST_IN_A_BATCH):
            batch = json.dumps(events[first : first + MOST_IN_A_BATCH]).encode()
            assert await self.post(batch, kind) == 202

    async def publish_at_last(self, events: Sequence[dict[str, Any]]) -> None:
        """One after the other, each again until it is accepted."""
        kind = {"content-type": "application/cloudevents+json"}
        async with asyncio.timeout(PATIENCE):
            for event in events:
                while await self.post(json.dumps(event).encode(), kind) != 202:
                    await asyncio.sleep(0.2)

    async def status(self) -> dict[str, Any]:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(f"http://127.0.0.1:{self.admin_port}/status")
        [subscription] = answer.json()["subscriptions"]
        return subscription

    async def partitions(self, count: int) -> None:
        """Until this process owns so many."""
        async with asyncio.timeout(PATIENCE):
            while len((await self.status())["partitions"]) != count:
                await asyncio.sleep(0.05)

    def _config(self, house: House, sinks: dict[str, Any]) -> dict[str, Any]:
        return {
            "version": 1,
            "installation": house.installation,
            "server": {
                "events": {"host": "127.0.0.1", "port": self._events_port},
                "admin": {"host": "127.0.0.1", "port": self.admin_port},
            },
            "store": {"kind": "sqlite", "path": "store.db"},
            "brokers": {
                "main": {
                    "kind": "kafka",
                    "bootstrap_servers": house.kafka,
                    "topics": {"create": True, "partitions": house.partitions},
                }
            },
            "routes": [
                {
                    "name": "all",
                    "to": {"broker": "main", "topic": house.topic},
                    "key": {"mapper": "partitionkey"},
                }
            ],
            "subscriptions": [
                {
                    "id": name,
                    "source": {"broker": "main", "topics": [house.topic]},
                    "start": "earliest",
                    "concurrency": CONCURRENCY,
                    "retry": {"schedule": house.schedule, "hold": len(house.schedule)},
                    **settings,
                }
                for name, settings in sinks.items()
            ],
            "webhooks": {"allow_private": ["127.0.0.0/8"]},
            "timeouts": {"not_ready": "0s"},
        }


class House:
    """Services of one installation on one topic of their own; killed at the end if they still run."""

    def __init__(self, folder: Path, kafka: str, target: WebhookTarget) -> None:
        self._folder = folder
        self.kafka = kafka
        self.installation = f"e2e-{uuid4().hex[:12]}"
        self.topic = f"{self.installation}-events"
        self.partitions = 4
        self.schedule = ["20ms"] * 50
        self._sinks = {"hook": {"sink": target.url}}
        self.services: list[Service] = []

    async def service(self, **sinks: Any) -> Service:
        folder = self._folder / f"service-{len(self.services)}"
        service = Service(folder, self, sinks or self._sinks)
        self.services.append(service)
        await service.start()
        return service

    async def commits(self) -> list[OffsetAndMetadata]:
        """What the group has committed, as Kafka tells it."""
        client = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
        try:
            await client.start()
            found = await client.list_consumer_group_offsets(f"skybridge.{self.installation}.hook")
        finally:
            await client.close()
        return [commit for place, commit in found.items() if place.topic == self.topic]

    async def committed(self, enough: Callable[[list[OffsetAndMetadata]], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not enough(await self.commits()):
                await asyncio.sleep(0.1)

    async def all_committed(self, count: int) -> None:
        """Until the group has nothing left to finish."""
        await self.committed(lambda found: sum(each.offset for each in found) == count)


class Steady:
    """Publishes a few events at a time, one batch after the other, by whichever service it is told."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.published = 0
        self.stopping = False

    def by(self, service: Service) -> None:
        self._service = service

    async def run(self) -> None:
        while not self.stopping:
            await self._service.publish(numbered(self.published, 20, keys=20))
            self.published += 20
            await asyncio.sleep(0.02)

    async def until_more(self, ledger: Ledger, count: int) -> None:
        goal = len(ledger.numbers) + count
        await until(lambda: len(ledger.numbers) >= goal, f"{count} more delivered")


@contextlib.asynccontextmanager
async def steady(service: Service) -> AsyncIterator[Steady]:
    publisher = Steady(service)
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        publisher.stopping = True
        await task


@pytest.fixture
async def target() -> Any:
    target = WebhookTarget()
    await target.start()
    yield target
    await target.stop()


@pytest.fixture
def ledger(target: WebhookTarget) -> Ledger:
    target.answer = ledger = Ledger()
    return ledger


@contextlib.contextmanager
def housing(folder: Path, kafka: str, target: WebhookTarget) -> Iterator[House]:
    house = House(folder, kafka, target)
    try:
        yield house
    finally:
        for service in house.services:
            if service.process.running:
                service.process.kill()


@pytest.fixture
def house(tmp_path: Path, kafka: str, target: WebhookTarget) -> Iterator[House]:
    with housing(tmp_path, kafka, target) as house:
        yield house


async def test_an_event_crosses_kafka_and_arrives_in_either_mode(
    house: House, target: WebhookTarget
) -> None:
    """Both modes in, both modes out, nothing changed on the way (H1, K1, W1)."""
    service = await house.service(
        plain={"sink": f"{target.url}/binary", "content_mode": "binary"},
        whole={"sink": f"{target.url}/structured", "content_mode": "structured"},
    )
    attributes = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/a", "ce-type": "t"}
    odd = {"ce-subject": "50%25 caf%C3%A9", "ce-partitionkey": "k"}
    binary = {**attributes, **odd, "content-type": "application/octet-stream"}
    assert await service.post(b"\x00\xff\n", binary) == 202
    event = {**numbered(2, 1, 1)[0], "subject": "50% café", "partitionkey": "k"}
    structured = {"content-type": "application/cloudevents+json"}
    assert await service.post(json.dumps(event).encode(), structured) == 202
    await until(lambda: len(target.received) >= 4, "four deliveries")
    first, second = (r for r in target.received if r.path.endswith("/binary"))
    assert (first.body, first.header("content-type")) == (b"\x00\xff\n", "application/octet-stream")
    assert json.loads(second.body) == {"n": 2}
    assert [first.header("ce-subject"), second.header("ce-subject")] == ["50%25%20caf%C3%A9"] * 2
    raw, same = (json.loads(r.body) for r in target.received if r.path.endswith("/structured"))
    assert (raw["data_base64"], raw["subject"]) == ("AP8K", "50% café")
    assert same == event
    await service.stop()


async def test_a_kill_in_the_middle_of_a_failing_endpoint_loses_nothing_and_keeps_the_order(
    house: House, ledger: Ledger
) -> None:
    """Rules 2 and 3: duplicates are at most what was in flight and what was finished since the last
    commit, which the kill follows within a second."""
    dice = random.Random(7)
    ledger.busy = lambda _: dice.random() < 0.2
    ledger.takes = 0.03
    service = await house.service()
    await service.publish(numbered(0, 1_500, keys=40))
    await until(lambda: len(ledger.numbers) >= 900, "most of it delivered")
    at_stake = ledger.at_stake()
    assert at_stake < 900, "the bound says something"
    await service.kill()
    await service.start()
    await until(lambda: len(ledger.numbers) == 1_500, "everything delivered")
    await house.all_committed(1_500)
    assert ledger.out_of_order() == {}
    assert ledger.repeats <= at_stake
    await service.stop()


async def test_what_was_finished_above_an_open_event_is_not_repeated_after_a_kill(
    house: House, ledger: Ledger
) -> None:
    """Rule 2: the finished ranges travel in the commit's metadata, on real Kafka as anywhere."""
    house.partitions = 1
    house.schedule = ["1h"] * 3  # for number 0 alone: the others succeed at once
    ledger.busy = lambda request: request.id == "0"
    service = await house.service()
    await service.publish(numbered(0, 400, keys=20))
    done = {number for number in range(400) if number % 20}  # 20 of key k0 wait behind number 0
    await until(lambda: ledger.numbers == done, "the other keys delivered")
    await house.committed(lambda found: _ranges(found) == 19 * 20)
    await service.kill()
    ledger.busy = lambda _: False
    await service.start()
    await house.all_committed(400)
    assert ledger.numbers == set(range(400))
    assert ledger.repeats == 0
    await service.stop()


def _ranges(commits: Sequence[OffsetAndMetadata]) -> int:
    """How many events the commits' metadata name as finished."""
    runs = [run for each in commits for run in each.metadata.removeprefix("f1:").split(",") if run]
    bounds = [(run.partition("-")[0], run.rpartition("-")[2]) for run in runs]
    return sum(int(last) - int(first) + 1 for first, last in bounds)


async def test_processes_of_one_group_share_the_work_and_survive_each_other(
    house: House, ledger: Ledger
) -> None:
    """Rules 2, 3 and 11: an orderly leave repeats nothing, a death at most what was open; in either
    case every event arrives, in the order of its key."""
    first = await house.service()
    await first.partitions(4)
    second = await house.service()
    await asyncio.gather(first.partitions(2), second.partitions(2))
    async with steady(second) as publisher:
        await publisher.until_more(ledger, 200)
        await first.stop()
        await publisher.until_more(ledger, 200)
        assert ledger.repeats == 0
        third = await house.service()
        await asyncio.gather(second.partitions(2), third.partitions(2))
        assert ledger.repeats == 0
        publisher.by(third)
        await publisher.until_more(ledger, 200)
        at_stake = ledger.at_stake()
        await second.kill()
        await third.partitions(4)
        await publisher.until_more(ledger, 200)
    await until(lambda: ledger.numbers == set(range(publisher.published)), "everything delivered")
    assert ledger.out_of_order() == {}
    assert ledger.repeats <= at_stake
    await third.stop()


async def test_a_broker_that_is_killed_and_comes_back_is_delivered_from_again(
    tmp_path: Path, own_kafka: KafkaServer, target: WebhookTarget, ledger: Ledger
) -> None:
    """Reliability R1, on the way out: nobody restarts the worker."""
    ledger.takes = 0.04
    with housing(tmp_path, own_kafka.bootstrap_servers, target) as house:
        service = await house.service()
        await service.publish(numbered(0, 1_200, keys=40))
        await until(lambda: len(ledger.numbers) >= 100, "the first delivered")
        await asyncio.to_thread(own_kafka.kill)
        await asyncio.sleep(2.5)  # longer than the session: what is ours is in doubt from then on
        in_doubt = len(ledger.taken)
        assert in_doubt < 1_200
        await asyncio.to_thread(own_kafka.restart)
        await until(lambda: len(ledger.numbers) == 1_200, "what was read before is delivered")
        await service.publish_at_last(numbered(1_200, 20, keys=40))
        await until(lambda: len(ledger.numbers) == 1_220, "what came after is delivered")
        assert ledger.out_of_order() == {}
        assert ledger.repeats <= in_doubt
        assert (await service.status())["state"] == "running"
        await service.stop()


async def test_a_member_whose_partitions_could_not_be_placed_is_replaced(
    tmp_path: Path,
    kafka: str,
    target: WebhookTarget,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a member owns nothing from then on and says so once: whoever polls begins anew."""
    place, fails = KafkaConsumer._places, iter([True])

    async def places(self: KafkaConsumer, assigned: Any) -> Any:
        if next(fails, False):
            raise TimeoutError
        return await place(self, assigned)

    monkeypatch.setattr(KafkaConsumer, "_places", places)
    topic = f"t-{uuid4().hex[:12]}"
    log = open_log(name="main", bootstrap_servers=kafka, create_topics=True)
    store = open_store(tmp_path / "store.db")
    source = {"broker": "main", "topics": [topic]}
    subscription = Subscription.model_validate(
        {"id": "hook", "source": source, "start": "earliest", "sink": target.url}
    )
    supervisor = Supervisor(
        [subscription],
        {"main": log},
        store,
        lambda _: WebhookSink(allow_private=("127.0.0.0/8",)),
        SystemClock(),
        Counters(),
        installation=topic,
    )
    async with contextlib.AsyncExitStack() as closing:
        await store.start()
        closing.push_async_callback(store.stop)
        await log.start()
        closing.push_async_callback(log.stop)
        await supervisor.start()
        closing.push_async_callback(supervisor.stop, 5.0)
        headers = {"ce_specversion": "1.0", "ce_id": "0", "ce_source": "/k", "ce_type": "t"}
        named = tuple((name, text.encode()) for name, text in headers.items())
        assert isinstance((await log.submit(topic, [Record(b"k", named, b"")]))[0], Receipt)
        await until(lambda: ledger.numbers == {0}, "delivered by the next member")
        assert supervisor.status()[0].restarts == 1
        assert next(fails, None) is None
