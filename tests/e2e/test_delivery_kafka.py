"""From HTTP over a real Kafka to a webhook: the service as a process, killed, shared and cut off."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import OffsetAndMetadata

from app.bindings.record import Record
from app.brokers.kafka.consumer import KafkaConsumer
from app.interfaces.clock import SystemClock
from app.model.receipt import Receipt
from app.model.subscription import Subscription
from app.store import open_store
from app.telemetry import Counters
from app.worker.supervisor import Supervisor
from delivery_installation import PATIENCE, Installation, Ledger, numbered, steady_publisher
from delivery_scenarios import DeliveryScenarios
from kafka_harness import open_calm_log
from kafka_server import KafkaServer
from waiting import until
from webhook_target import WebhookTarget, to_loopback

pytestmark = [pytest.mark.kafka, pytest.mark.fault]

SESSION = 10.0  # seconds: a member that stalls on a busy machine is not expelled


class KafkaHouse(Installation):
    """On Kafka, which tells what a group has committed."""

    def __init__(self, folder: Path, kafka: str, target: WebhookTarget) -> None:
        super().__init__(
            folder,
            {"kind": "kafka", "bootstrap_servers": kafka, "session_timeout": f"{SESSION:g}s"},
            target,
        )
        self.kafka = kafka

    async def commits(self) -> list[OffsetAndMetadata]:
        """What the group has committed, as Kafka tells it."""
        client = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
        try:
            await client.start()
            found = await client.list_consumer_group_offsets(self.group)
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


@contextlib.contextmanager
def housing(folder: Path, kafka: str, target: WebhookTarget) -> Iterator[KafkaHouse]:
    house = KafkaHouse(folder, kafka, target)
    try:
        yield house
    finally:
        house.close()


@pytest.fixture
def house(tmp_path: Path, kafka: str, target: WebhookTarget) -> Iterator[KafkaHouse]:
    with housing(tmp_path, kafka, target) as house:
        yield house


class TestKafka:
    @pytest.fixture
    def apart(self, house: KafkaHouse) -> KafkaHouse:
        return house

    test_an_event_crosses_and_arrives_in_either_mode = (
        DeliveryScenarios.test_an_event_crosses_and_arrives_in_either_mode
    )


@pytest.mark.nightly
async def test_a_kill_in_the_middle_of_a_failing_endpoint_loses_nothing_and_keeps_the_order(
    house: KafkaHouse, ledger: Ledger
) -> None:
    """Rules 2 and 3: duplicates are at most what was in flight and what was finished since the last
    commit."""
    dice = random.Random(7)
    ledger.busy = lambda _: dice.random() < 0.2
    ledger.takes = 0.03
    service = await house.service()
    await service.publish(numbered(0, 1_500, keys=40))
    await until(lambda: len(ledger.numbers) >= 900, "most of it delivered")
    at_stake = ledger.possible_repeats()
    assert at_stake < 1_500, "the bound says something"
    await service.kill()
    await service.start()
    await until(lambda: len(ledger.numbers) == 1_500, "everything delivered")
    await house.all_committed(1_500)
    assert ledger.out_of_order() == {}
    assert ledger.repeats <= at_stake
    await service.stop()


@pytest.mark.nightly
async def test_what_was_finished_above_an_open_event_is_not_repeated_after_a_kill(
    house: KafkaHouse, ledger: Ledger
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


@pytest.mark.nightly
async def test_processes_of_one_group_share_the_work_and_leave_in_order(
    house: KafkaHouse, ledger: Ledger
) -> None:
    """Rules 3 and 11: who comes and who leaves in order repeats nothing; every event arrives, in the order
    of its key."""
    house.broker = {**house.broker, "session_timeout": "30s"}  # a machine that stalls is no death
    first = await house.service()
    await first.until_owns(4)
    second = await house.service()
    await asyncio.gather(first.until_owns(2), second.until_owns(2))
    async with steady_publisher(second) as publisher:
        await publisher.until_more(ledger, 100)
        await first.stop()
        await publisher.until_more(ledger, 100)
        assert ledger.repeats == 0
        third = await house.service()
        await asyncio.gather(second.until_owns(2), third.until_owns(2))
        await publisher.until_more(ledger, 100)
    await until(lambda: ledger.numbers == set(range(publisher.published)), "everything delivered")
    assert ledger.repeats == 0
    assert ledger.out_of_order() == {}
    await asyncio.gather(second.stop(), third.stop())


@pytest.mark.nightly
async def test_who_is_left_of_a_group_takes_over_from_one_that_died(
    house: KafkaHouse, ledger: Ledger
) -> None:
    """Rules 2 and 3: a death repeats at most what was open; every event arrives, in the order of its key."""
    first, second = await house.service(), await house.service()
    await asyncio.gather(first.until_owns(2), second.until_owns(2))
    async with steady_publisher(second) as publisher:
        await publisher.until_more(ledger, 200)
        at_stake = ledger.possible_repeats()
        await first.kill()
        await second.until_owns(4)
        await publisher.until_more(ledger, 200)
    await until(lambda: ledger.numbers == set(range(publisher.published)), "everything delivered")
    assert ledger.out_of_order() == {}
    assert ledger.repeats <= at_stake
    await second.stop()


@pytest.mark.nightly
async def test_a_broker_that_is_killed_and_comes_back_is_delivered_from_again(
    tmp_path: Path, own_kafka: KafkaServer, target: WebhookTarget, ledger: Ledger
) -> None:
    """Reliability R1, on the way out: nobody restarts the worker."""
    ledger.takes = 0.04
    with housing(tmp_path, own_kafka.bootstrap_servers, target) as house:
        service = await house.service()
        await service.publish(numbered(0, 600, keys=40))
        await until(lambda: len(ledger.numbers) >= 100, "the first delivered")
        ledger.takes = 1.0  # a handful a second until it is back, however long that takes
        await asyncio.to_thread(own_kafka.kill)
        await asyncio.sleep(SESSION + 1.0)  # what it owns is in doubt from then on
        in_doubt = len(ledger.taken)
        assert in_doubt < 600
        ledger.takes = 0.0
        await asyncio.to_thread(own_kafka.restart)
        await until(lambda: len(ledger.numbers) == 600, "what was read before is delivered")
        await service.publish_until_accepted(numbered(600, 20, keys=40))
        await until(lambda: len(ledger.numbers) == 620, "what came after is delivered")
        assert ledger.out_of_order() == {}
        assert ledger.repeats <= in_doubt
        async with asyncio.timeout(PATIENCE):
            while (await service.status())["state"] != "running":
                await asyncio.sleep(0.05)
        await service.stop()


@pytest.mark.nightly
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
    log = open_calm_log(name="main", bootstrap_servers=kafka, create_topics=True)
    store = open_store(tmp_path / "store.db", timeout=60.0)
    source = {"broker": "main", "topics": [topic]}
    subscription = Subscription.model_validate(
        {"id": "hook", "source": source, "start": "earliest", "sink": target.url}
    )
    supervisor = Supervisor(
        [subscription],
        {"main": log},
        store,
        to_loopback,
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
