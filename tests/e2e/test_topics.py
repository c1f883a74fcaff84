"""The four operations of the protocol guide on every broker: the service as a process, the verbs as a
person types them, and the same answers whatever the broker is (but for what it declares it cannot do).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

import kafka_harness
import pulsar_harness
from app.brokers import rabbitmq
from app.brokers.portable import PortableLog
from app.cli import exits
from child_service import run
from configuration import Settings, configuration, route
from free_ports import free_ports
from sending import event_headers
from service_process import serving

PATIENCE = 240.0  # a bound: every wait ends with its condition
KINDS = [
    "embedded",
    pytest.param("kafka", marks=pytest.mark.kafka),
    pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
    pytest.param("streams", marks=[pytest.mark.rabbitmq, pytest.mark.nightly]),
    pytest.param("pulsar", marks=[pytest.mark.pulsar, pytest.mark.nightly]),
]
PARTITIONS = 2
TESTS = 5  # each uses up a topic
GROUP = "skybridge.topics.hook"


@dataclass
class BrokerTopic:
    """A service, a broker named ``main``, and a topic on it that nothing has been published to."""

    folder: Path
    admin: str
    topic: str
    replayable: bool

    @property
    def path(self) -> str:
        return f"/v1/topics/main/{self.topic}"

    async def cli(self, verb: str, *words: str) -> tuple[int, str, str]:
        """``skybridge topics``: exit code, output, errors."""
        topic = () if verb == "list" else (self.topic,)
        where = ("--broker", "main", "--server", self.admin)
        return await run(self.folder, "topics", verb, *topic, *words, *where)

    async def answer(self, verb: str, *words: str) -> list[Any]:
        """What it prints with --json, a value a line."""
        code, out, err = await self.cli(verb, *words, "--json")
        assert code == exits.OK, err
        return [json.loads(line) for line in out.splitlines()]

    async def publish(self, name: str, **headers: str) -> dict[str, Any]:
        """One event, without a process of its own."""
        async with self.client() as client:
            answer = await client.post(
                f"{self.path}/records", headers=event_headers(name) | headers
            )
            assert answer.status_code == 201, answer.text
            return answer.json()

    async def offsets(self, **query: str) -> dict[str, Any]:
        """What ``skybridge topics offsets`` prints, without a process of its own."""
        async with self.client() as client:
            answer = await client.get(f"{self.path}/offsets", params=query)
            assert answer.status_code == 200, answer.text
            return answer.json()

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.admin, trust_env=False, timeout=60)


def broker(kind: str, request: pytest.FixtureRequest) -> tuple[dict[str, Any], PortableLog | None]:
    """Its settings in a configuration, and a log on it to make topics with."""
    if kind == "embedded":
        return {"kind": kind, "path": "./log", "partitions": PARTITIONS}, None
    address = request.getfixturevalue("rabbitmq" if kind == "streams" else kind)
    if kind == "kafka":
        settings = {"bootstrap_servers": address}
        return {"kind": kind, **settings}, kafka_harness.open_calm_log(name="maker", **settings)
    if kind in ("rabbitmq", "streams"):
        queues: Any = "quorum" if kind == "rabbitmq" else "stream"
        maker = rabbitmq.open_log(name="maker", addresses=address, kind=queues)
        return {"kind": "rabbitmq", "addresses": address, "queue_type": queues}, maker
    settings = {"service_url": address[0], "admin_url": address[1]}
    return {"kind": kind, **settings}, pulsar_harness.open_calm_log(name="maker", **settings)


async def make(log: PortableLog, topics: Sequence[str]) -> None:
    await log.start()
    try:
        async with asyncio.timeout(PATIENCE):
            for topic in topics:
                await log.create_topic(topic, PARTITIONS)
            while len((await log.metadata(topics)).topics) < len(topics):
                await asyncio.sleep(0.05)
    finally:
        await log.stop()


@dataclass
class House:
    """A service on one kind of broker, with topics to be used up."""

    folder: Path
    admin: str
    topics: list[str]
    replayable: bool


@pytest.fixture(scope="module", params=KINDS)
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp(request.param)
    settings, maker = broker(request.param, request)
    topics = [f"topics-{uuid4().hex[:8]}" for _ in range(TESTS)]
    if maker is not None:
        asyncio.run(make(maker, topics))
    past = request.param != "rabbitmq"
    with serving(configured(folder, settings, topics, past=past), folder) as service:
        yield House(folder, service.admin_url, topics, past)


def configured(
    folder: Path, broker: dict[str, Any], topics: Sequence[str], *, past: bool
) -> Settings:
    """Return a configuration whose subscription's sink is a port where no one listens."""
    (closed,) = free_ports(1)
    hook = {
        "id": "hook",
        "source": {"broker": "main", "topics": topics},
        "sink": f"http://127.0.0.1:{closed}/nobody",
        "retry": {"schedule": ["1h"], "hold": 1},  # it never parks: its event stays the log's
        **({"start": "earliest"} if past else {}),
    }
    return configuration(
        folder,
        installation="topics",
        brokers={"log": None, "main": broker},
        routes=[route(topics[0], broker="main")],
        subscriptions=[hook],
        timeouts={"drain": None},
    )


@pytest.fixture
def place(house: House) -> BrokerTopic:
    return BrokerTopic(house.folder, house.admin, house.topics.pop(), house.replayable)


async def test_metadata_produce_and_offset_of_any_broker(place: BrokerTopic) -> None:
    """One set of verbs: what is published is where its receipt says, and the lag counts it."""
    words = ("--type", "com.example.hello", "--key", "order-7", "--data", '{"price": 1.10}')
    (receipt,) = await place.answer("publish", *words)
    assert (receipt["broker"], receipt["topic"]) == ("main", place.topic)
    (shown,) = await place.answer("show")
    assert [each["number"] for each in shown["partitions"]] == [0, 1]
    assert all(each["leader"] is not None and each["isr"] for each in shown["partitions"])
    assert place.topic in {each["name"] for each in await place.answer("list")}
    async with asyncio.timeout(PATIENCE):
        while lag(await place.offsets()) != 1:  # by HTTP: a process takes longer than the wait
            await asyncio.sleep(0.05)
    (found,) = await place.answer("offsets")
    assert lag(found) == 1
    assert {(each["group"], each["subscription"]) for each in found["groups"]} == {(GROUP, "hook")}
    ends = found["partitions"][receipt["partition"]]
    assert (
        ends["earliest"] != ends["latest"] or not place.replayable
    )  # a queue may be with its member


def lag(found: dict[str, Any]) -> int:
    return sum(each["lag"] or 0 for each in found["groups"])


async def test_fetch_of_any_broker_that_has_a_past(place: BrokerTopic) -> None:
    """Peek finds each record once, over pages; one that has no past says so."""
    for number in range(5):
        await place.publish(str(number), **{"skybridge-key": f"k{number}"})
    if not place.replayable:
        code, _, err = await place.cli("peek")
        assert code == exits.FAILED
        assert "consume messages" in err
        return
    seen, begin = [], "earliest"
    async with place.client() as client:
        for _ in range(3):
            query = {"from": begin, "limit": 2, "raw": "true"}
            page = (await client.get(f"{place.path}/records", params=query)).json()
            seen += [each["event"]["id"] for each in page["messages"]]
            begin = page["next"]
    assert sorted(seen) == list("01234")
    assert page["complete"]
    newest = await place.answer("peek", "--from", "latest-1", "--raw")
    assert len(newest) == len({each["partition"] for each in newest})
    assert all(each["record"]["headers"] for each in newest)


async def test_offsets_by_time_of_any_broker_that_keeps_times(place: BrokerTopic) -> None:
    """The guide's Offset by time: the first record from then on, the next one where there is none."""
    await place.publish("before", **{"skybridge-key": "k"})
    if not place.replayable:
        code, _, err = await place.cli("offsets", "--time", "2020-01-01T00:00:00Z")
        assert (code, "by time" in err) == (exits.FAILED, True)
        return
    (long_ago,) = await place.answer("offsets", "--time", "2020-01-01T00:00:00Z")
    far = await place.offsets(time="4102444800000")
    assert [each["at_time"] for each in far["partitions"]] == [
        each["latest"] for each in far["partitions"]
    ]
    for each in long_ago["partitions"]:
        empty = each["earliest"] == each["latest"]
        assert each["at_time"] == each["latest" if empty else "earliest"]


async def test_a_tail_is_live_and_goes_on_where_it_was_cut(place: BrokerTopic) -> None:
    """Server-sent events through the reading that belongs to no group: nothing twice, none left out."""
    if not place.replayable:
        async with place.client() as client:
            answer = await client.get(f"{place.path}/tail")
        assert answer.status_code == 501
        return
    await place.publish("old", **{"skybridge-key": "old"})
    async with blocks(place) as stream:
        last = (await anext(stream))["id"]
        await place.publish("first", **{"skybridge-key": "a"})
        await place.publish("second", **{"skybridge-key": "b"})
        found = [await message(stream) for _ in range(2)]
        last = found[0]["id"]
    missed = {json.loads(found[1]["data"])["event"]["id"]}
    await place.publish("third", **{"skybridge-key": "c"})
    async with blocks(place, last) as stream:
        again = {json.loads((await message(stream))["data"])["event"]["id"] for _ in range(2)}
    assert again == missed | {"third"}


async def test_an_unknown_topic_and_a_record_that_is_too_large_are_told_alike(
    place: BrokerTopic,
) -> None:
    """spec.md 9: 404 naming both, 413; and nothing was made by asking."""
    async with place.client() as client:
        event = event_headers("1")
        nowhere = f"/v1/topics/main/nope-{uuid4().hex[:8]}"
        for answer in [
            await client.get(nowhere),
            await client.post(f"{nowhere}/records", headers=event),
        ]:
            assert answer.status_code == 404, answer.text
            assert "broker main has no topic nope-" in answer.json()["detail"]
        large = await client.post(f"{place.path}/records", headers=event, content=b"x" * (40 << 20))
        assert large.status_code == 413, large.text
        assert (await client.get(nowhere)).status_code == 404


@contextlib.asynccontextmanager
async def blocks(
    place: BrokerTopic, last: str = ""
) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
    """A tail, block by block, each as its fields."""

    async def read(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, str]]:
        block: dict[str, str] = {}
        async for line in lines:
            name, colon, value = line.partition(": ")
            if colon:
                block[name] = value
            elif block:
                yield block
                block = {}

    headers = {"last-event-id": last} if last else {}
    async with (
        place.client() as client,
        client.stream("GET", f"{place.path}/tail", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        yield read(answer.aiter_lines())


async def message(stream: AsyncIterator[dict[str, str]]) -> dict[str, str]:
    """The next block that has a message."""
    async with asyncio.timeout(PATIENCE):
        async for block in stream:
            if "data" in block:
                assert "event" not in block, block
                return block
    raise AssertionError("the stream ended")
