"""Starts on Pulsar, whoever dies while they are made, and whatever the broker lacks just then (rule 10)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from uuid import uuid4

import pytest

from app.brokers.portable import PortableLog
from app.brokers.pulsar import PulsarSettings
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.answers import PartitionStats
from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.positions import Position, read_position
from app.brokers.pulsar.start_positions import INTENT, prepare
from app.model.start import EARLIEST, LATEST, StartAt
from app.routing.partitions import partition_of
from contract_tools import ANSWERED_WITHIN, bodies, fresh_group, publish, take, text
from pulsar_harness import calm_log

pytestmark = [pytest.mark.nightly, pytest.mark.pulsar]

PARTITIONS = 3
KEYS = [
    next(str(n) for n in range(99) if partition_of(b"%d" % n, PARTITIONS) == p) for p in (0, 1, 2)
]


LATEST_OF_ALL = {"ledgerId": (1 << 63) - 1, "entryId": (1 << 63) - 1}
NOT_MOVED = (  # by Pulsar 4.0.8, which a killed broker's bookie was not ready for
    "Unable to find position for position specified: "
    "unable to persist readPosition for cursor reset 16:-1"
)


class Died(Exception):
    """We are not there any more."""


class Mortal(PulsarAdmin):
    """Asks until it has changed something so many times."""

    def __init__(self, settings: PulsarSettings, changes: int) -> None:
        super().__init__(settings)
        self.left = changes

    async def _ask(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> bytes:
        if method != "GET":
            if not self.left:
                raise Died
            self.left -= 1
        return await super()._ask(method, path, body, query)


class Lacking(PulsarAdmin):
    """One change finds no bookie at hand: the broker has made a subscription then, at the latest message, and
    could not move it; of any other change it has done nothing."""

    def __init__(self, settings: PulsarSettings, change: int) -> None:
        super().__init__(settings)
        self.changes, self._lacks = 0, change

    async def _ask(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> bytes:
        if method == "GET":
            return await super()._ask(method, path, body, query)
        self.changes += 1
        if self.changes != self._lacks:
            return await super()._ask(method, path, body, query)
        if isinstance(body, dict) and "ledgerId" in body:
            await super()._ask(method, path, body | LATEST_OF_ALL, query)
            raise AdminError(412, NOT_MOVED)
        raise AdminError(503, "no bookie")


class Forgetful(PulsarAdmin):
    """The broker counts no partition but the last one, once: it could not ask the others."""

    forgets = True

    async def stats(self, topic: str) -> Mapping[str, PartitionStats]:
        found = await super().stats(topic)
        if not self.forgets:
            return found
        self.forgets = False
        return dict(sorted(found.items())[-1:])


@pytest.fixture
def settings(pulsar: tuple[str, str]) -> PulsarSettings:
    return PulsarSettings(
        name="pulsar", service_url=pulsar[0], admin_url=pulsar[1],
        operation_timeout=ANSWERED_WITHIN, connect_timeout=ANSWERED_WITHIN,
    )  # fmt: skip


@pytest.fixture
async def log(pulsar: tuple[str, str]) -> AsyncIterator[PortableLog]:
    async with calm_log(pulsar) as log:
        yield log


async def one_each(log: PortableLog, topic: str, what: str) -> dict[int, str]:
    """One event in each partition; where they are."""
    receipts = await publish(log, topic, [text(f"{what} {p}", KEYS[p]) for p in range(PARTITIONS)])
    return {receipt.partition: receipt.position for receipt in receipts}


async def filled(log: PortableLog) -> tuple[str, str, dict[int, str]]:
    """A topic with one event in each partition, a group that has not begun, and where the events are."""
    topic = f"t-{uuid4().hex[:12]}"
    await log.create_topic(topic, PARTITIONS)
    return topic, fresh_group(), await one_each(log, topic, "from")


def start_of(kind: str, places: dict[int, str], time_ms: int) -> StartAt:
    starts = {"earliest": EARLIEST, "latest": LATEST, "time": StartAt("time", time_ms=time_ms)}
    return starts.get(kind) or StartAt("position", positions=places)


@pytest.mark.parametrize("kind", ["earliest", "latest", "time", "position"])
async def test_a_start_is_kept_through_a_death_at_any_step(
    log: PortableLog, settings: PulsarSettings, kind: str
) -> None:
    """Nothing skipped and nothing of before, after each number of changes that reached the broker."""
    topic = f"t-{uuid4().hex[:12]}"
    await log.create_topic(topic, PARTITIONS)
    before = await one_each(log, topic, "before")
    time_ms = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 <= time_ms:
        pass  # a millisecond or two: what follows is stored later
    places = await one_each(log, topic, "from")
    start = start_of(kind, places, time_ms)
    groups = []
    for changes in range(PARTITIONS + 2):
        mortal, group = Mortal(settings, changes), fresh_group()
        try:
            await prepare(mortal, group, [topic], start)
        except Died:
            groups.append(group)
        await mortal.stop()
    assert len(groups) == PARTITIONS + 1, "each change but the last can be the one that is missing"
    after = await one_each(log, topic, "after")
    wanted = {"earliest": ["before", "from", "after"], "latest": ["after"]}
    expected = [
        f"{what} {p}" for what in wanted.get(kind, ["from", "after"]) for p in range(PARTITIONS)
    ]
    admin = PulsarAdmin(settings)
    first = {"earliest": before, "latest": after}.get(kind, places)
    for group in groups[1:]:  # the first one died before anything was decided
        await prepare(admin, group, [topic], LATEST, patience=0.0)
        assert await begins_at(admin, topic, group) == first
    consumer = await log.subscribe(groups[-1], [topic], LATEST)
    found = [(body or b"").decode() for body in bodies(await take(consumer, len(expected)))]
    assert sorted(found) == sorted(expected)
    await consumer.close()
    await admin.stop()


async def test_a_subscription_that_the_broker_made_and_never_moved_is_moved(
    log: PortableLog, settings: PulsarSettings
) -> None:
    """The broker makes it at the latest message first; killed there, it stays there."""
    topic, group, places = await filled(log)
    admin = PulsarAdmin(settings)
    latest = {n: Position(p.ledger, p.entry + 1) for n, p in _places(places).items()}
    intent = json.dumps({n: list(place) for n, place in _places(places).items()})
    for number, wire in (await admin.wires(topic)).items():
        await admin.create_subscription(
            wire, group, latest[number], {} if number else {INTENT: intent, "ours": "kept"}
        )
    await prepare(admin, group, [topic], LATEST, patience=0.0)
    subscription = (await admin.stats(topic))[(await admin.wires(topic))[0]].subscriptions[group]
    assert subscription.subscription_properties == {"ours": "kept"}
    await admin.stop()
    consumer = await log.subscribe(group, [topic], LATEST)
    assert len(await take(consumer, PARTITIONS)) == PARTITIONS
    await consumer.close()


@pytest.mark.parametrize("kind", ["earliest", "position"])
async def test_a_start_is_exact_though_the_broker_could_not_do_all_of_it_at_once(
    log: PortableLog, settings: PulsarSettings, kind: str
) -> None:
    """After each change that was done by half: nothing skipped, nothing of before, nothing left unfinished."""
    topic = f"t-{uuid4().hex[:12]}"
    await log.create_topic(topic, PARTITIONS)
    before = await one_each(log, topic, "before")
    places = await one_each(log, topic, "from")
    first = before if kind == "earliest" else places
    for change in range(1, PARTITIONS + 2):
        lacking, group = Lacking(settings, change), fresh_group()
        await prepare(lacking, group, [topic], start_of(kind, places, 0), patience=0.0)
        assert lacking.changes > PARTITIONS + 1, "it was not felt"
        assert await begins_at(lacking, topic, group) == first
        for stats in (await lacking.stats(topic)).values():
            assert not stats.subscriptions[group].subscription_properties
        await lacking.stop()


async def test_a_partition_that_the_broker_could_not_ask_is_not_taken_for_a_new_one(
    log: PortableLog, settings: PulsarSettings
) -> None:
    """Else the start that is written down there would be passed over, and what it holds with it."""
    topic, group, places = await filled(log)
    mortal, forgetful = Mortal(settings, PARTITIONS), Forgetful(settings)
    with pytest.raises(Died):
        await prepare(mortal, group, [topic], EARLIEST)
    for number, wire in (await forgetful.wires(topic)).items():
        await forgetful.move(wire, group, Position(_places(places)[number].ledger, 9))
    await prepare(forgetful, group, [topic], LATEST, patience=0.0)
    assert not forgetful.forgets
    assert await begins_at(forgetful, topic, group) == places
    for admin in (mortal, forgetful):
        await admin.stop()


async def begins_at(admin: PulsarAdmin, topic: str, group: str) -> dict[int, str]:
    """Where each partition's subscription stands, as the broker has it."""
    places = {}
    for number, wire in (await admin.wires(topic)).items():
        place = (await admin.internal(wire)).committed(group)
        assert place is not None
        places[number] = place.text
    return places


def _places(positions: Mapping[int, str]) -> dict[int, Position]:
    return {number: read_position(position) for number, position in positions.items()}


async def test_members_that_come_at_once_begin_at_one_start(
    log: PortableLog, settings: PulsarSettings
) -> None:
    """One decides, the others wait for it: nobody moves what somebody already reads."""
    topic, group = f"t-{uuid4().hex[:12]}", fresh_group()
    await log.create_topic(topic, PARTITIONS)
    await one_each(log, topic, "from")
    slow, other = PulsarAdmin(settings), PulsarAdmin(settings)
    wires = await slow.wires(topic)
    await prepare(slow, group, [topic], EARLIEST)
    await slow.set_properties(
        wires[0], group, {INTENT: json.dumps({n: [-1, -1, -1] for n in wires})}
    )
    moved: list[str] = []
    other.move = lambda *args: moved.append(args[0])  # type: ignore[assignment]
    waiting = asyncio.create_task(prepare(other, group, [topic], LATEST))
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not done
    await slow.set_properties(wires[0], group, {})
    await waiting
    assert not moved
    for admin in (slow, other):
        await admin.stop()
