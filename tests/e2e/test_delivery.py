"""From the embedded log to a webhook on a real socket, with a real store: all parts, real time."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict

import pytest

from app.bindings import http
from app.bindings.record import Record
from app.brokers.embedded import ConsumerSettings, open_log
from app.brokers.embedded.consumer import EmbeddedConsumer
from app.interfaces import DeadLetterFilter
from app.model.receipt import Receipt
from app.model.route import Route
from app.routing.plan import Router
from app.store import open_store
from app.telemetry import Counters
from app.worker.supervisor import Supervisor
from loopback_supervisor import supervisor_of
from waiting import until
from webhook_target import Received, WebhookTarget, status

PATIENCE = 240.0  # a bound: every wait ends with its condition
TOPIC = "orders"
QUICK = {"schedule": ["10ms"] * 30}
OK = status(204)


def an_event(number: int, key: str) -> Record:
    attributes = {"specversion": "1.0", "id": str(number), "source": f"/{key}", "type": "t"}
    headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
    headers.append(("content-type", b"application/octet-stream"))
    return Record(key.encode(), tuple(headers), b"\x00\xff" + str(number).encode())


class House:
    """A log, a store and a target that outlive the supervisors started on them."""

    def __init__(self, folder, target: WebhookTarget) -> None:
        self.folder = folder
        self.target = target
        self.log = None
        self.store = None
        self.counters = Counters()
        self.supervisors = []
        self.published = 0

    async def open(self) -> None:
        consumers = ConsumerSettings(commit_interval=0.05)
        self.log = open_log(name="log", path=self.folder / "log", partitions=4, consumers=consumers)
        self.store = open_store(self.folder / "store.db", timeout=PATIENCE)
        await self.log.start()
        await self.store.start()
        await self.log.create_topic(TOPIC, 4)

    async def work(self, **settings) -> Supervisor:
        """A supervisor with one subscription, running when this returns."""
        document = {
            "id": "billing",
            "source": {"broker": "log", "topics": [TOPIC]},
            "start": "earliest",
            "sink": self.target.url,
            **settings,
        }
        supervisor = supervisor_of(document, self.log, self.store, self.counters)
        await supervisor.start()
        self.supervisors.append(supervisor)
        await until(lambda: supervisor.status()[0].state not in {"starting", "restarting"})
        return supervisor

    async def publish(self, count: int, keys: int) -> None:
        """Numbered events; the key of number n is ``k{n % keys}``."""
        numbers = range(self.published, self.published + count)
        self.published += count
        records = [an_event(n, f"k{n % keys}") for n in numbers]
        assert all(isinstance(one, Receipt) for one in await self.log.submit(TOPIC, records))

    async def settled(self) -> None:
        """Until the group has nothing left to read or finish, and nothing waits in the store."""

        async def left():
            metadata = await self.log.metadata([TOPIC], {"skybridge.e2e.billing": [TOPIC]})
            return sum(one.lag or 0 for one in metadata.groups) or await self.store.parked.count()

        async with asyncio.timeout(PATIENCE):
            while await left():
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for supervisor in self.supervisors:
            await supervisor.stop(60.0)
        await self.log.stop()
        await self.store.stop()


class Ledger:
    """Judges what a target took: everything, once, in order per key."""

    def __init__(self) -> None:
        self.taken: dict[str, list[int]] = defaultdict(list)

    def take(self, request: Received) -> bytes:
        self.taken[request.header("ce-source")].append(int(request.id))
        return OK

    @property
    def count(self) -> int:
        return sum(map(len, self.taken.values()))

    def all_came(self, count: int) -> bool:
        return {number for numbers in self.taken.values() for number in numbers} == set(
            range(count)
        )

    @property
    def repeats(self) -> int:
        return self.count - len({number for taken in self.taken.values() for number in taken})

    def in_order(self) -> bool:
        """Per key, by the first arrival of each."""
        return all(
            list(dict.fromkeys(numbers)) == sorted(set(numbers)) for numbers in self.taken.values()
        )

    def each_once(self, count: int) -> bool:
        return sorted(n for numbers in self.taken.values() for n in numbers) == list(range(count))


@pytest.fixture
async def house(tmp_path, target):
    house = House(tmp_path, target)
    await house.open()
    yield house
    await house.close()


async def arrived_once_in_order(house: House, ledger: Ledger, count: int) -> None:
    """Order per key, and no dead letter."""
    assert ledger.each_once(count)
    assert ledger.in_order()
    assert await house.store.letters.find(DeadLetterFilter()) == []


async def test_every_event_arrives_once_with_its_own_bytes(house, target):
    """G1 and G2 without faults: nothing lost, nothing twice, nothing changed."""
    ledger = Ledger()
    target.answer = ledger.take
    await house.work()
    await house.publish(2_000, keys=100)
    await house.settled()
    assert ledger.each_once(2_000)
    assert ledger.in_order()
    for request in target.received:
        assert request.body == b"\x00\xff" + request.id.encode()
        assert request.header("content-type") == "application/octet-stream"
    assert house.counters.values()["deliveries"] == {("billing", "delivered"): 2_000}


async def test_structured_mode_carries_the_same_event(house, target):
    await house.work(content_mode="structured")
    await house.publish(3, keys=1)
    await house.settled()
    documents = [json.loads(request.body) for request in target.received]
    assert [document["id"] for document in documents] == ["0", "1", "2"]
    assert all(document["data_base64"] for document in documents)
    assert target.received[0].header("content-type").startswith("application/cloudevents+json")


async def test_a_target_that_fails_at_first_gets_everything_in_order(house, target):
    """Rules 3, 4 and 6: retries and the pause of a target at fault keep the order of each key."""
    ledger = Ledger()

    def answer(request):
        since_the_first = request.at - target.received[0].at
        return ledger.take(request) if since_the_first > 0.5 else status(503)

    target.answer = answer
    await house.work(retry=QUICK)
    await house.publish(300, keys=20)
    await house.settled()
    await arrived_once_in_order(house, ledger, 300)


async def test_retry_after_is_kept_to_the_second(house, target):
    """W6: after a 429 nobody sends before the time it named."""
    ledger = Ledger()
    refused = []

    def answer(request):
        if len(refused) < 1 and ledger.count >= 20:
            refused.append(request.at)
            return status(429, "Retry-After: 1")
        return ledger.take(request)

    target.answer = answer
    supervisor = await house.work(concurrency=1)
    await house.publish(40, keys=10)
    await until(lambda: supervisor.status()[0].state == "paused")
    assert "429" in supervisor.status()[0].cause
    await house.settled()
    (at,) = refused
    later = [request.at for request in target.received if request.at > at]
    assert min(later) >= at + 1.0
    assert ledger.each_once(40)
    assert ledger.in_order()


async def test_gone_disables_through_a_restart_and_loses_nothing(house, target):
    """Rule 7, W5."""
    ledger = Ledger()
    target.answer = lambda _: status(410)
    first = await house.work()
    await house.publish(5, keys=1)
    await until(lambda: first.status()[0].state == "disabled")
    assert len(target.received) == 1
    await first.stop(60.0)
    target.answer = ledger.take
    second = await house.work()
    halts = await house.store.halts.all()
    assert {name: (halt.kind, halt.cause) for name, halt in halts.items()} == {
        "billing": ("disabled", "status-410")
    }
    assert second.status()[0].state == "disabled"
    assert len(target.received) == 1
    await house.store.halts.allow("billing")
    second.halt({})
    await house.settled()
    assert ledger.each_once(5)


async def test_what_is_refused_for_good_is_kept_with_its_cause(house, target):
    """W7 and rule 2: stored, byte for byte, before it counts as finished."""
    target.answer = lambda one: status(415, body=b"cannot read") if int(one.id) % 10 == 3 else OK
    await house.work(dead_letter={"broker": "log", "topic": "orders.dead"})
    await house.log.create_topic("orders.dead", 1)
    await house.publish(100, keys=7)
    await house.settled()
    letters = {
        letter.message.record.body: letter
        for letter in await house.store.letters.find(DeadLetterFilter())
    }
    expected = [an_event(n, f"k{n % 7}") for n in range(3, 100, 10)]
    assert {record.body for record in expected} == letters.keys()
    for record in expected:
        letter = letters[record.body]
        assert letter.message.record == record
        assert (letter.cause, letter.status, letter.attempts) == ("status-415", 415, 1)
        assert letter.detail == "cannot read"
    copies = await house.log.metadata(["orders.dead"])
    assert copies.topics[0].partitions[0].latest == "10"


async def test_a_slow_answer_times_out_and_holds_only_its_key(house, target):
    """Rules 4 and 7."""
    ledger = Ledger()
    stalled = []

    async def answer(request):
        if request.id == "0" and not stalled:
            stalled.append(request.at)
            await asyncio.Event().wait()
        return ledger.take(request)

    target.answer = answer
    supervisor = await house.work(timeout="5s", retry=QUICK)
    await house.publish(50, keys=5)
    await until(lambda: ledger.count == 40)
    assert [attempt.outcome for attempt in supervisor.attempts(limit=1)] == ["delivered"]
    await house.settled()
    assert ledger.each_once(50)
    assert ledger.in_order()
    assert house.counters.values()["attempts"][("billing", "timeout")] == 1


async def test_order_is_kept_and_nothing_lost_whatever_a_target_does(house, target):
    """R5 in small: 20 % 500, 5 % cut off, 1 % too slow, 2 % Retry-After: 0. Seeded."""
    ledger, hung = Ledger(), []
    chance = random.Random(20_261_121)

    async def answer(request):
        draw = chance.random()
        if draw < 0.20:
            return status(500)
        if draw < 0.25:
            return None
        if draw < 0.26:
            hung.append(request.id)
            await asyncio.Event().wait()
        if draw < 0.28:
            return status(429, "Retry-After: 0")
        return ledger.take(request)

    target.answer = answer
    await house.work(timeout="2s", retry=QUICK)
    await house.publish(1_000, keys=50)
    await house.settled()
    late = house.counters.values()["attempts"][("billing", "timeout")] - len(hung)
    assert ledger.all_came(1_000)
    assert ledger.repeats <= late, "only what our own load made late came again"
    assert ledger.in_order()
    assert await house.store.letters.find(DeadLetterFilter()) == []


async def test_a_target_that_is_down_costs_pauses_and_no_event(house, target):
    """Rule 6: the log is the buffer; when it is back everything comes, in order."""
    ledger = Ledger()
    target.answer = ledger.take
    await target.stop()
    supervisor = await house.work(window=50, retry={"schedule": ["10ms"] * 6})
    await house.publish(400, keys=40)
    await until(lambda: supervisor.status()[0].state == "paused")
    assert "connect" in supervisor.status()[0].cause
    await target.start()
    await house.settled()
    await arrived_once_in_order(house, ledger, 400)


async def test_an_orderly_restart_in_the_middle_repeats_nothing(house, target):
    """Rule 11: stop taking, finish or release, commit."""
    ledger = Ledger()
    target.answer = ledger.take
    first = await house.work(concurrency=4)
    await house.publish(1_000, keys=50)
    await until(lambda: ledger.count > 100)
    await first.stop(60.0)
    stopped_at = ledger.count
    assert 100 < stopped_at < 1_000
    await house.work()
    await house.settled()
    assert ledger.each_once(1_000)
    assert ledger.in_order()


async def test_duplicates_come_only_after_a_crash_and_are_few(house, target, monkeypatch):
    """Rule 2: at most what was in flight and what was finished since the last commit."""
    ledger = Ledger()
    target.answer = ledger.take
    first = await house.work(concurrency=4)
    await house.publish(1_000, keys=50)
    await until(lambda: ledger.count > 200)

    async def dead(self):
        return

    with monkeypatch.context() as crash:
        crash.setattr(EmbeddedConsumer, "commit", dead)
        uncommitted_from = ledger.count
        await until(lambda: ledger.count > uncommitted_from + 50)
        await first.stop(0.0)
        finished_since = ledger.count - uncommitted_from
    before = ledger.count
    await house.work()
    await house.settled()
    taken = sorted(n for numbers in ledger.taken.values() for n in numbers)
    assert sorted(set(taken)) == list(range(1_000))
    assert ledger.in_order()
    duplicates = len(taken) - 1_000
    committed_late = 400  # what may have been settled in the last commit interval before the crash
    assert 0 < duplicates <= finished_since + committed_late
    assert before < 1_000


async def test_a_second_worker_takes_its_share_without_a_break(house, target):
    """G3 and rule 5: the hand-over waits for what is on the wire, so nothing comes twice."""
    ledger = Ledger()

    async def answer(request):
        await asyncio.sleep(0.002)
        return ledger.take(request)

    target.answer = answer
    first = await house.work(concurrency=8)
    await house.publish(1_500, keys=60)
    await until(lambda: ledger.count > 50)
    second = await house.work(concurrency=8)
    await until(
        lambda: len(first.status()[0].partitions) == len(second.status()[0].partitions) == 2
    )
    await house.settled()
    assert ledger.each_once(1_500)
    assert ledger.in_order()


OLDER = {
    "0.1": {"ce-cloudeventsversion": '"0.1"', "ce-eventid": '"1"', "ce-source": '"/s"',
            "ce-eventtype": '"t"', "ce-x-myext": "5", "ce-x-other": '"5"'},
    "0.2": {"ce-specversion": '"0.2"', "ce-id": '"1"', "ce-source": '"/s"', "ce-type": '"t"',
            "ce-city": '"M%C3%BCnchen"', "ce-m-a": "5", "ce-m-b": '"5"'},
    "0.3": {"ce-specversion": "0.3", "ce-id": "1", "ce-source": "/s", "ce-type": "t",
            "ce-schemaurl": "/relative"},
}  # fmt: skip


@pytest.mark.parametrize("version", OLDER)
async def test_an_event_of_an_older_version_arrives_as_it_was_sent(house, target, version):
    """V4: from a request over a route and the log to a webhook, quotes, Maps and all."""
    fields = OLDER[version] | {"content-type": "text/plain"}
    pairs = [(name.encode(), text.encode()) for name, text in fields.items()]
    route = Route.model_validate({"name": "all", "to": {"broker": "log", "topic": TOPIC}})
    (decoded,) = http.decode(pairs, b"x")
    (publication,) = Router([route]).plan(decoded, b"k")

    await house.work()
    assert isinstance((await house.log.submit(TOPIC, [publication.record]))[0], Receipt)
    await house.settled()

    (request,) = target.received
    sent = {name: text.decode() for name, text in request.headers if name.startswith("ce-")}
    assert sent == OLDER[version]
    assert (request.header("content-type"), request.body) == ("text/plain", b"x")
