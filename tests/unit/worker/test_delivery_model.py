"""The guarantee of delivery, held against random plans of failures, kills, restarts and hand-overs."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from app.interfaces import SinkAnswer
from app.model.message import Partition
from app.telemetry import Counters
from app.worker.attempts import AttemptLog
from app.worker.dispatch import Dispatcher
from fake_log import FakeLog
from virtual_clock import VirtualClock
from worker_doubles import MemoryStore, a_subscription, an_event, event_id

GROUP = "g"
PARTITIONS = [Partition("orders", 0), Partition("orders", 1)]
ANSWERS = [
    SinkAnswer(500),
    SinkAnswer(429, retry_after="3"),
    SinkAnswer(None, "timeout"),
    SinkAnswer(None, "reset"),
    SinkAnswer(409),
]
REFUSED = SinkAnswer(415)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 20)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 1.0, 7.0])),
        st.tuples(st.just("trouble"), st.sampled_from([0.0, 0.3, 1.0])),
        st.tuples(st.sampled_from(["kill", "stop", "revoke", "lose"]), st.just(0)),
    ),
    max_size=15,
)


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.log = FakeLog(batch=7, clock=self.clock)
        self.store = MemoryStore()
        self.trouble = 0.0
        self.published: dict[str, str] = {}  # id: key
        self.accepted: list[str] = []
        self.refused: set[str] = set()
        self.flying: defaultdict[str, int] = defaultdict(int)
        self.overlaps = 0
        self.dispatcher: Dispatcher | None = None
        self.task: asyncio.Task[None] | None = None

    async def send(self, request):
        """As a target would: takes 0 to 2 s, and counts what it accepted."""
        name = event_id(request)
        key = self.published[name]
        self.flying[key] += 1
        self.overlaps += self.flying[key] > 1
        try:
            await self.clock.sleep(self.chance.choice([0.0, 0.05, 2.0]))
        finally:
            self.flying[key] -= 1
        if self.chance.random() < self.trouble:
            return self.chance.choice(ANSWERS)
        if int(name) % 11 == 5:
            self.refused.add(name)
            return REFUSED
        self.accepted.append(name)
        return SinkAnswer(204)

    async def begin(self) -> None:
        self.log.killed = False
        self.dispatcher = Dispatcher(
            a_subscription(window=20, concurrency=3, retry={"schedule": ["1s"] * 500}),
            self.log,
            self.store,
            self,
            self.clock,
            group=GROUP,
            attempts=AttemptLog("billing", Counters()),
            jitter=self.chance.random,
            hand_over=5.0,
        )
        self.task = asyncio.create_task(self.dispatcher.run())
        await self.clock.advance(0.2)

    async def publish(self, count: int) -> None:
        for _ in range(count):
            name, key = str(len(self.published)), self.chance.choice("abcdefgh")
            self.published[name] = key
            await self.log.submit("orders", [an_event(int(name), key)])

    async def wait(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    async def kill(self, _: int) -> None:
        self.log.killed = True
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.begin()

    async def stop(self, _: int) -> None:
        stopping = asyncio.create_task(self.dispatcher.stop(5.0))
        while not stopping.done():
            await self.clock.advance(0.5)
        await self.task
        await self.begin()

    async def revoke(self, _: int) -> None:
        self.log.revoke(GROUP, PARTITIONS)
        while self.log.members[GROUP][-1].owned:
            await self.clock.advance(0.5)
        self.log.give(GROUP, PARTITIONS)

    async def lose(self, _: int) -> None:
        self.log.lose(GROUP, PARTITIONS)
        self.log.give(GROUP, PARTITIONS)

    def settled_only_what_is_finished(self) -> None:
        """Rule 2, looked at between any two steps."""
        buried = {letter.message.record.body.decode() for letter in self.store.letters}
        for consumer in self.log.members[GROUP]:
            settled = {message.record.body.decode() for message in consumer.settled}
            assert settled <= buried | set(self.accepted), "settled before it was finished"

    async def end(self) -> None:
        """All trouble over: everything must come to its end in bounded time."""
        self.trouble = 0.0
        for _ in range(400):
            if all(
                self.log.committed(GROUP, at) == len(self.log.partitions[at]) for at in PARTITIONS
            ):
                break
            await self.clock.advance(1.0)
        self.log.killed = True
        self.task.cancel()
        await asyncio.wait([self.task])


async def live(seed, steps) -> World:
    world = World(seed)
    await world.log.create_topic("orders", 2)
    await world.begin()
    for verb, argument in steps:
        if verb == "trouble":
            world.trouble = argument
        else:
            await getattr(world, verb)(argument)
        world.settled_only_what_is_finished()
    await world.end()
    return world


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), STEPS)
def test_nothing_is_lost_and_each_key_keeps_its_order(seed, steps):
    """Reliability 5.6, G1 to G3: whatever fails, dies or moves."""
    world = asyncio.run(live(seed, steps))
    buried = {letter.message.record.body.decode() for letter in world.store.letters}
    assert buried == world.refused
    assert set(world.accepted) | buried == set(world.published), "lost"
    assert not set(world.accepted) & buried
    firsts = defaultdict(list)
    for name in dict.fromkeys(world.accepted):
        firsts[world.published[name]].append(int(name))
    assert all(numbers == sorted(numbers) for numbers in firsts.values()), "out of order"
    verbs = {verb for verb, _ in steps}
    if not verbs & {"kill", "lose"}:
        assert len(world.accepted) == len(set(world.accepted)), "twice without a fault"
    if "lose" not in verbs:  # then an attempt of the owner before may still be on the wire
        assert world.overlaps == 0, "two of one key at once"
