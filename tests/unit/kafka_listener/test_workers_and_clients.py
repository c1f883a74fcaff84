"""Skybridge's own consumers and Kafka's clients in one log and in one group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from app.bindings.record import Record
from app.brokers.embedded import ConsumerSettings, EmbeddedDriver, EngineSettings
from app.brokers.portable import PortableLog
from app.filters.model import Filter
from app.interfaces import Consumer, ConsumerFilter
from app.interfaces.clock import SystemClock
from app.kafka_listener.gate import CloudEventsGate
from app.kafka_listener.node import KafkaListenerSettings, KafkaNode
from app.kafka_listener.server import KafkaListenerServer
from app.log.groups.positions import CommittedOffset
from app.model.message import Assigned, Message, Revoked
from app.model.start import EARLIEST
from app.telemetry import Counters
from consumer_filters import consumer_filter
from kafka_listening import RawClient
from log_steps import place
from patience import PATIENT, PATIENT_GROUP
from versioned_client import VersionedClient, part
from waiting import until

TOPIC, GROUP = "t", "g"
RECORDS = 40


class House:
    """A log, its driver as the workers have it, and its listener."""

    def __init__(self, folder: Path) -> None:
        self.driver = EmbeddedDriver(
            EngineSettings(path=folder, partitions=4),
            ConsumerSettings(times=PATIENT_GROUP),
        )
        self.log = PortableLog(self.driver, PATIENT)
        self.listener: KafkaListenerServer
        self.workers: list[Worker] = []

    async def start(self) -> None:
        await self.log.start()
        node = KafkaNode(
            engine=self.driver.engine,
            gate=CloudEventsGate(),
            clock=SystemClock(),
            settings=KafkaListenerSettings(port=0),
            cluster=self.driver.engine.cluster,
            counters=Counters(),
        )
        self.listener = KafkaListenerServer(node)
        await self.listener.start()

    async def worker(self, wanted: ConsumerFilter | None = None) -> Worker:
        worker = Worker(await self.log.subscribe(GROUP, [TOPIC], EARLIEST, wanted=wanted))
        self.workers.append(worker)
        return worker

    async def stop(self) -> None:
        for worker in self.workers:
            await worker.close()
        await self.listener.stop(5.0)
        await self.log.stop()

    async def publish(self, first: int, count: int) -> None:
        records = [Record(b"%d" % n, (), b"%d" % n) for n in range(first, first + count)]
        await self.log.submit(TOPIC, records)

    def client(self, group: str) -> AIOKafkaConsumer:
        host, port = self.listener.address
        return AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=f"{host}:{port}",
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=60_000,
            request_timeout_ms=90_000,
            heartbeat_interval_ms=100,
            metadata_max_age_ms=1_000,
        )


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    await house.start()
    yield house
    await house.stop()


class Worker:
    """Settles what it is handed, and follows what it owns."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.owned: set[int] = set()
        self.got: list[Message] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            match await self.consumer.poll(0.1):
                case Assigned(partitions):
                    self.owned |= {place.number for place in partitions}
                case Revoked(partitions):
                    self.owned -= {place.number for place in partitions}
                case tuple() as messages:
                    self.got += messages
                    await self.consumer.settle(messages)

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.close()


async def test_a_worker_and_a_client_share_the_partitions_of_one_group(house: House) -> None:
    """Each event goes to one of them, and who is left goes on where the other committed."""
    await house.publish(0, RECORDS)
    worker = await house.worker()
    seen: list[int] = []
    async with asyncio.timeout(180):
        while len(worker.got) < RECORDS:
            await asyncio.sleep(0.01)
        client = house.client(GROUP)
        await client.start()
        try:
            while not (len(worker.owned) == 2 and len(client.assignment()) == 2):
                await client.getmany(timeout_ms=20)
            theirs = {place.partition for place in client.assignment()}
            assert theirs | worker.owned == {0, 1, 2, 3}
            await house.publish(RECORDS, RECORDS)
            while len(worker.got) + len(seen) < 2 * RECORDS:
                for messages in (await client.getmany(timeout_ms=20)).values():
                    seen += [int(message.value) for message in messages]
            await client.commit()
        finally:
            await client.stop()
        while worker.owned != {0, 1, 2, 3}:
            await asyncio.sleep(0.01)
        await house.publish(2 * RECORDS, RECORDS)
        while len(worker.got) + len(seen) < 3 * RECORDS:
            await asyncio.sleep(0.01)
    both = [int(message.record.body or b"") for message in worker.got] + seen
    assert sorted(both) == list(range(3 * RECORDS))
    assert seen


async def test_positions_and_lag_are_the_same_from_both_sides(house: House) -> None:
    """Also of a worker that passed over all there is."""
    await house.publish(0, RECORDS)
    filters = [Filter.model_validate({"exact": {"type": "never"}})]
    wanted = consumer_filter(filters, lambda *_: None)
    await house.worker(wanted)
    asking = VersionedClient(RawClient(*await asyncio.open_connection(*house.listener.address)))

    async def ours() -> dict[int, tuple[int, int]]:
        groups = (await house.log.metadata([TOPIC], {GROUP: [TOPIC]})).groups
        return {each.partition: (int(each.committed), each.lag) for each in groups}

    async def theirs() -> dict[int, int]:
        group = part("OffsetFetchRequestGroup", group_id=GROUP, topics=None)
        (answer,) = (await asking.ask(9, 9, groups=[group])).groups
        (topic,) = answer.topics
        return {each.partition_index: each.committed_offset for each in topic.partitions}

    async with asyncio.timeout(180):
        while any(lag for _, lag in (await ours()).values()):
            await asyncio.sleep(0.01)
    assert await theirs() == {number: position for number, (position, _) in (await ours()).items()}
    assert sum((await theirs()).values()) == RECORDS
    await asking.close()


@pytest.mark.parametrize("reset", [-1, -2])
async def test_a_group_that_a_tool_reset_has_no_position_and_starts_anew(
    house: House, reset: int
) -> None:
    """Else its lag is longer than the log, and a worker stops at a position that no log can have."""
    await house.publish(0, RECORDS)
    places = {place(TOPIC, number): CommittedOffset(reset) for number in range(4)}
    await house.driver.engine.groups.commit(GROUP, places)
    assert (await house.log.metadata([TOPIC], {GROUP: [TOPIC]})).groups == ()
    worker = await house.worker()
    await until(lambda: len(worker.got) >= RECORDS)


async def test_a_worker_that_is_kept_out_says_so_once_and_comes_in_when_it_can(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator has to see why a subscription delivers nothing."""
    await house.publish(0, 1)
    asking = VersionedClient(RawClient(*await asyncio.open_connection(*house.listener.address)))
    sticky = part("JoinGroupRequestProtocol", name="sticky", metadata=b"")
    joined = await asking.ask(
        11,
        3,
        group_id=GROUP,
        session_timeout=timedelta(seconds=60),
        rebalance_timeout=timedelta(seconds=60),
        member_id="",
        protocol_type="consumer",
        protocols=[sticky],
    )
    worker = await house.worker()
    async with asyncio.timeout(180):
        while "do not support range" not in caplog.text:
            await asyncio.sleep(0.01)
        await asking.ask(13, 0, group_id=GROUP, member_id=joined.member_id)
        while not worker.got:
            await asyncio.sleep(0.01)
    assert caplog.text.count("do not support range") == 1
    await asking.close()
