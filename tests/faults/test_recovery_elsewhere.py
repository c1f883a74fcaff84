"""docs/recovery.md where a state outside of us goes back or away: what is stated to be lost is all that is."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer

from delivery_installation import Installation, Ledger, Service, numbered
from kafka_librdkafka import make_topic
from kafka_server import KafkaServer
from postgres_server import fresh_database, install
from waiting import until
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.nightly, pytest.mark.fault]

KEYS = 20
SHIFT = 7  # records of old in each partition of the other cluster: its offsets are others


class Database:
    """Tables of one store, and their copy of a moment, by PostgreSQL's own programs."""

    def __init__(self, server: str, folder: Path) -> None:
        self.dsn = fresh_database(server)
        self._server = server
        (options,) = parse_qs(urlsplit(self.dsn).query)["options"]
        self._schema = options.rpartition("=")[2]
        self._copy = folder / "store.sql"

    async def dump(self) -> None:
        await self._run("pg_dump", f"--schema={self._schema}", "--clean", f"--file={self._copy}")

    async def restore(self) -> None:
        await self._run("psql", "--set=ON_ERROR_STOP=1", "--quiet", f"--file={self._copy}")

    async def _run(self, program: str, *words: str) -> None:
        programs = (install() / "initdb").resolve().parent
        command = [str(programs / program), *words, f"--dbname={self._server}"]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def database(postgres: str, tmp_path: Path) -> Database:
    return Database(postgres, tmp_path)


@pytest.fixture
def house(tmp_path: Path, target: WebhookTarget) -> Iterator[Installation]:
    house = Installation(tmp_path, {"kind": "embedded", "path": "log"}, target)
    house.schedule = ["10ms", *["300ms"] * 400]
    house.hold = 1
    yield house
    house.close()


@pytest.mark.postgres
async def test_a_database_put_back_costs_what_began_to_wait_since_and_no_more(
    house: Installation, ledger: Ledger, database: Database
) -> None:
    """Issue 9, 8: the positions of the log are newer than the store. What waited then is delivered again, also what
    was delivered since; what began to wait since is on neither side."""
    house.store = {"kind": "postgresql", "dsn": database.dsn}
    stuck = {"/k3"}
    ledger.busy = lambda request: request.header("ce-source") in stuck
    service = await house.service()
    await service.publish(numbered(0, 40, KEYS))
    await service.until_parked(2)
    await until(lambda: len(ledger.numbers) == 38, "what is not stuck")
    await database.dump()
    stuck.clear()
    await until(lambda: ledger.numbers == set(range(40)), "what waited")
    stuck.add("/k5")
    await service.publish(numbered(40, 20, KEYS))
    await service.until_parked(1)
    await until(lambda: len(ledger.numbers) == 59, "what is not stuck")
    await service.stop()
    before = list(ledger.taken)
    await database.restore()
    stuck.clear()
    await service.start()
    await service.publish(numbered(60, 20, KEYS))
    await until(lambda: ledger.numbers >= set(range(60, 80)), "what came later")
    await until(lambda: (ledger.times(3), ledger.times(23)) == (2, 2), "what waited, again")
    await service.until_parked(0)
    await service.stop()
    assert set(range(80)) - ledger.numbers == {45}, "what began to wait since"
    again = [number for _, number in ledger.taken[len(before) :] if number < 60]
    assert again == [3, 23], "in their order, and nothing else"


@pytest.mark.kafka
async def test_another_kafka_goes_on_by_time_and_lacks_what_was_not_copied(
    tmp_path: Path, own_kafka: KafkaServer, kafka: str, target: WebhookTarget, ledger: Ledger
) -> None:
    """Offsets of the other cluster are others, and it knows no positions of ours. From a moment before the fail-over
    on all is delivered that was copied; what was delivered since that moment comes twice."""
    house = Installation(tmp_path, _broker(own_kafka.bootstrap_servers), target)
    house.schedule = ["1s"] * 600
    ledger.busy = lambda request: int(request.id) >= 60
    try:
        service = await house.service()
        await service.publish(numbered(0, 40, KEYS))
        await until(lambda: ledger.numbers == set(range(40)), "before the moment")
        moment = await _the_next_moment()
        await service.publish(numbered(40, 60, KEYS))
        await until(lambda: ledger.numbers == set(range(60)), "what the endpoint takes")
        await asyncio.to_thread(_copy, own_kafka.bootstrap_servers, kafka, house.topic, 90)
        await service.kill()
        await asyncio.to_thread(own_kafka.kill)
        ledger.busy = lambda _: False
        _point(service, kafka, moment)
        await service.start()
        await service.publish(numbered(100, 20, KEYS))
        due = {*range(90), *range(100, 120)}
        await until(lambda: ledger.numbers >= due, "what was copied, and what came later")
        await until(
            lambda: all(ledger.times(each) == 2 for each in range(40, 60)), "since the moment"
        )
        await service.stop()
    finally:
        house.close()
    assert ledger.numbers == due, "what was not copied"
    assert all(ledger.times(each) == 1 for each in range(40)), "what was before the moment"
    assert ledger.out_of_order() == {}


def _broker(servers: str) -> dict[str, str]:
    return {"kind": "kafka", "bootstrap_servers": servers, "session_timeout": "6s"}


async def _the_next_moment() -> datetime:
    """Later than all that was stored, and earlier than all that will be."""
    await asyncio.sleep(0.05)  # clocks of records count milliseconds
    moment = datetime.now(UTC)
    await asyncio.sleep(0.05)
    return moment


def _point(service: Service, servers: str, moment: datetime) -> None:
    """What an operator writes: the other cluster, and from when on."""
    config = service.process.settings
    config["brokers"]["main"]["bootstrap_servers"] = servers
    config["subscriptions"][0]["start"] = {"time": moment.isoformat().replace("+00:00", "Z")}
    service.process.write()


def _copy(source: str, target: str, topic: str, count: int) -> None:
    """As a mirror of clusters does: key, headers, value, time and partition stay, offsets do not. The first
    ``count`` events by their number."""
    settings = {"bootstrap.servers": source, "group.id": "mirror", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found = []
    while len(found) < 100:
        found += consumer.consume(100, 30)
    consumer.close()
    partitions = 1 + max(each.partition() for each in found)
    assert partitions <= 4
    make_topic(target, topic, 4)
    producer = Producer({"bootstrap.servers": target})
    for partition in range(4):
        for _ in range(SHIFT):
            producer.produce(topic, b"of old", partition=partition, timestamp=1_000)
    for each in found:
        kind, at = each.timestamp()
        assert kind == TIMESTAMP_CREATE_TIME
        headers = dict(each.headers() or [])
        if int(headers["ce_id"]) < count:
            producer.produce(
                topic, each.value(), each.key(), each.partition(), timestamp=at,
                headers=each.headers(),
            )  # fmt: skip
    assert producer.flush(120) == 0
