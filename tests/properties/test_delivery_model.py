"""Delivery held against its promises, whatever happens: events are accepted, targets fail, processes die,
freeze and come back, owners change, the store goes away, dead letters are given back.

One log and one store outlive everything; workers come and go. After each step the model asks what the
design promises: nothing acknowledged is lost, order per key, nothing twice without a fault, bounds.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.errors import StoreUnavailable
from app.filters.selection import Selection
from app.interfaces import DeadLetter, DeadLetterFilter, DeliveryRequest, Sink, SinkAnswer
from app.model.message import Partition
from app.telemetry import Counters
from app.worker.attempts import AttemptLog
from app.worker.components import Components
from app.worker.dispatch import Dispatcher
from example_counts import examples
from fake_log import FakeConsumer, FakeLog
from memory_store import MemoryStore
from virtual_clock import VirtualClock
from worker_doubles import a_subscription, an_event, event_id

GROUP = "g"
PARTITIONS = [Partition("orders", 0), Partition("orders", 1)]
KEYS = ["a", "b", "c", "d", "e", None]
WINDOW, CONCURRENCY, MAX_ROWS, BATCH = 24, 3, 40, 7
RETRY = {"schedule": ["200ms", "1s", "2s", "2s", *["3s"] * 40], "hold": 1}
ANSWERS = {
    "busy": SinkAnswer(409),
    "fails": SinkAnswer(500),
    "times out": SinkAnswer(None, "timeout"),
    "resets": SinkAnswer(None, "reset"),
    "cannot be reached": SinkAnswer(None, "connect"),
    "refuses": SinkAnswer(415),
    "asks to wait": SinkAnswer(503, retry_after="3"),
}
KEY = st.sampled_from([key for key in KEYS if key])
TROUBLE = st.sampled_from([name for name in ANSWERS if name != "asks to wait"])
SECONDS = st.sampled_from([0.0, 0.1, 0.5, 2.0, 6.0])
MOST_EXAMPLES = 5_000  # a tenth of a second each
LONG = 400  # virtual seconds in which everything must come to its end once all trouble is over


class Gate:
    """A process that is frozen does nothing until it is thawed: what it was about to do comes late."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @property
    def frozen(self) -> bool:
        return not self._open.is_set()

    def freeze(self) -> None:
        self._open.clear()

    def thaw(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        await self._open.wait()


class Behind:
    """What ``inner`` is, but that every step waits for the gate, takes its time, and may find it away."""

    def __init__(self, inner: Any, gate: Gate, world: World) -> None:
        self._inner, self._gate, self._world = inner, gate, world
        self.clock = world.clock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return Behind(found, self._gate, self._world)

        async def step(*given: Any, **named: Any) -> Any:
            await self._world.clock.sleep(self._world.chance.choice([0.0, 0.0, 0.02]))
            await self._gate.passed()
            if self._world.away:
                raise StoreUnavailable("away")
            if given and isinstance(given[0], DeadLetter):
                self._world.buried.add(body(given[0]))
            result = await found(*given, **named)
            await self._world.clock.sleep(self._world.chance.choice([0.0, 0.0, 0.02]))
            if self._world.away:  # done, but nobody knows
                raise StoreUnavailable("no answer in time")
            return result

        return step


class Worker(Sink):
    """One process: its memory goes with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gate = Gate()
        self.flying: Counter[str] = Counter()
        self.most_flying = 0
        self.dispatcher = self._dispatcher()
        self.task = asyncio.ensure_future(self._run())

    def _dispatcher(self) -> Dispatcher:
        world = self.world
        return Dispatcher(
            Components(
                a_subscription(
                    window=WINDOW,
                    concurrency=CONCURRENCY,
                    retry=RETRY,
                    parked={"max_rows": MAX_ROWS},
                ),
                world.log,
                Behind(world.store, self.gate, world),
                self,
                world.clock,
                group=GROUP,
                attempts=AttemptLog("billing", Counters()),
                selection=Selection(()),
                jitter=world.chance.random,
                hand_over=1.0,
            )
        )

    async def _run(self) -> None:
        """As the supervisor: what died of the store begins anew."""
        while True:
            try:
                await self.dispatcher.run()
            except* StoreUnavailable:
                await self.world.clock.sleep(1.0)
                self.dispatcher = self._dispatcher()
            else:
                return

    @property
    def consumer(self) -> FakeConsumer | None:
        return self.dispatcher._consumer

    async def send(self, request: DeliveryRequest) -> SinkAnswer:
        """As a target would: it takes a moment, and counts what it accepted."""
        world, name = self.world, event_id(request)
        key = world.key_of(name)
        await self.gate.passed()
        self.flying[key] += 1
        self.most_flying = max(self.most_flying, self.flying.total())
        assert self.flying[key] == 1, "two of a key at once"
        try:
            await world.clock.sleep(world.chance.choice([0.0, 0.05, 0.6]))
            await self.gate.passed()
        finally:
            self.flying[key] -= 1
        trouble = world.everybody or world.trouble.get(key, "")
        if trouble:
            return ANSWERS[trouble]
        world.accepted.append(name)
        return SinkAnswer(204)

    async def kill(self) -> None:
        """As SIGKILL: nothing is committed or said any more; who is left gets what it owned."""
        log, owned = self.world.log, []
        if self.consumer is not None:
            log.members[GROUP].remove(self.consumer)
            owned = list(self.consumer.owned)
            self.consumer.owned.clear()
        self.task.cancel()
        await asyncio.wait([self.task])
        heir = self.world.worker
        if owned and heir is not None and heir is not self and heir.consumer is not None:
            log.generations[GROUP] += 1
            heir.consumer.assign(owned, log.generations[GROUP])


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.log = FakeLog(batch=BATCH, clock=self.clock)
        self.store = MemoryStore(clock=self.clock)
        self.away = False
        self.published: list[str | None] = []  # the key of each, in the order of acceptance
        self.accepted: list[str] = []
        self.buried: set[str] = set()  # ever: their order is past
        self.trouble: dict[str, str] = {}
        self.everybody = ""
        self.worker: Worker | None = None
        self.zombies: list[Worker] = []
        self.faults = 0

    def key_of(self, name: str) -> str:
        """Of one without a key: its own."""
        return self.published[int(name)] or name

    async def publish(self, count: int, keys: int) -> None:
        for _ in range(count):
            key = self.chance.choice(KEYS[:keys])
            name = len(self.published)
            self.published.append(key)
            await self.log.submit("orders", [an_event(name, key)])

    async def begin(self) -> None:
        self.worker = Worker(self)
        await self.clock.advance(0.3)

    def rows(self) -> list[Any]:
        return list(self.store.parked.rows_by_id.values())

    def letters(self) -> set[str]:
        return {body(letter) for letter in self.store.letters.rows}

    def finished(self) -> set[str]:
        """What the log would not hand out again."""
        found = set()
        for partition in PARTITIONS:
            commit, runs = self.log.commits[GROUP].get(partition, (0, ""))
            stored = self.log.partitions[partition]
            done = set(range(commit)) | set(_runs(commit, runs))
            found |= {stored[at][0].body.decode() for at in done if at < len(stored)}
        return found


def body(kept: Any) -> str:
    return kept.message.record.body.decode()


def _runs(commit: int, text: str) -> list[int]:
    from app.delivery.offsets import decode_runs

    return [at for first, last in decode_runs(commit, text) for at in range(first, last + 1)]


class Delivery(RuleBasedStateMachine):
    """``faults``: only these may make an event arrive twice."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = None

    def go(self, step: Callable[[], Any]) -> None:
        async def run() -> None:
            await step()
            for worker in self.workers:
                if worker.task.done() and not worker.task.cancelled():
                    worker.task.result()

        self.loop.run_until_complete(run())

    @property
    def workers(self) -> list[Worker]:
        worker = self.world.worker
        return [*self.world.zombies, *([worker] if worker else [])]

    @initialize(seed=st.integers(0, 2**32), trouble=st.dictionaries(KEY, TROUBLE, max_size=3))
    def start(self, seed: int, trouble: dict[str, str]) -> None:
        async def build() -> None:
            self.world = World(seed)
            self.world.trouble = trouble
            await self.world.log.create_topic("orders", len(PARTITIONS))
            await self.world.begin()

        self.loop.run_until_complete(build())

    @rule(count=st.integers(1, 30), keys=st.integers(2, len(KEYS)), seconds=SECONDS)
    def accept(self, count: int, keys: int, seconds: float) -> None:
        async def step() -> None:
            await self.world.publish(count, keys)
            await self.world.clock.advance(seconds)

        self.go(step)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.go(lambda: self.world.clock.advance(seconds))

    @rule(trouble=st.dictionaries(KEY, TROUBLE, max_size=4), seconds=SECONDS)
    def fail_for_keys(self, trouble: dict[str, str], seconds: float) -> None:
        """And heal for all others."""
        self.world.trouble = trouble
        self.wait(seconds)

    @rule(how=st.sampled_from(["", "", "fails", "times out", "asks to wait", "cannot be reached"]))
    def fail_for_everybody(self, how: str) -> None:
        self.world.everybody = how

    @rule(seconds=SECONDS, back=st.booleans())
    def store_goes_away(self, seconds: float, back: bool) -> None:
        self.world.away = True
        self.world.faults += 1  # what was done may have to be done again
        self.wait(seconds)
        self.world.away = not back

    @precondition(lambda self: self.world.away)
    @rule()
    def store_comes_back(self) -> None:
        self.world.away = False

    @precondition(lambda self: self.world.worker is not None)
    @rule(back=st.booleans())
    def crash(self, back: bool) -> None:
        self.world.faults += 1
        worker, self.world.worker = self.world.worker, None
        self.go(worker.kill)
        if back:
            self.go(self.world.begin)

    @precondition(lambda self: self.world.worker is None)
    @rule()
    def restart(self) -> None:
        self.go(self.world.begin)

    @precondition(lambda self: self.world.worker is not None)
    @rule(frozen=st.booleans(), first=st.sampled_from([0.0, 0.03, 0.3]))
    def another_takes_over(self, frozen: bool, first: float) -> None:
        """``frozen``: the owner before does not notice, and comes back later."""
        world = self.world
        world.faults += 1

        async def take_over() -> None:
            before = world.worker
            if frozen:
                before.gate.freeze()
                await world.clock.advance(first)
            world.zombies.append(before)
            await world.begin()

        self.go(take_over)

    @precondition(lambda self: self.world.worker is not None and not self.world.away)
    @rule()
    def the_group_shares_anew(self) -> None:
        """What is on the wire may land before the partitions go, and so they come back: no fault."""
        world = self.world

        async def move() -> None:
            consumer = world.worker.consumer
            if consumer is None or not consumer.owned:
                return
            world.log.revoke(GROUP, PARTITIONS)
            await world.clock.advance(3.0)
            if world.worker.consumer is consumer:
                world.log.give(GROUP, PARTITIONS)

        self.go(move)

    @precondition(lambda self: self.world.zombies)
    @rule()
    def zombie_comes_back(self) -> None:
        async def thaw() -> None:
            self.world.zombies[0].gate.thaw()
            await self.world.clock.advance(0.1)

        self.go(thaw)

    @precondition(lambda self: self.world.zombies)
    @rule()
    def zombie_ends(self) -> None:
        self.go(self.world.zombies.pop(0).kill)

    @precondition(lambda self: self.world.worker is not None)
    @rule(seconds=SECONDS, back=st.booleans())
    def pause(self, seconds: float, back: bool) -> None:
        self.world.worker.dispatcher.pause("paused: by a person")
        self.wait(seconds)
        if back:
            self.enable()

    @precondition(lambda self: self.world.worker is not None)
    @rule()
    def enable(self) -> None:
        self.world.worker.dispatcher.enable()

    @precondition(lambda self: self.world.letters() and not self.world.away)
    @rule(rate=st.sampled_from([0.0, 2.0]), limit=st.integers(1, 20))
    def redrive(self, rate: float, limit: int) -> None:
        world = self.world

        async def give_back() -> None:
            now_ms = int(world.clock.now() * 1000)
            await world.store.letters.redrive(
                DeadLetterFilter(), rate=rate, now_ms=now_ms, limit=limit
            )
            if world.worker is not None and world.chance.random() < 0.5:
                world.worker.dispatcher.look()

        self.go(give_back)

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        """Rule 2: whatever the log would not hand out again is delivered, or stored."""
        if self.world is not None:
            kept = set(map(body, self.world.rows())) | self.world.letters()
            lost = self.world.finished() - set(self.world.accepted) - kept
            assert not lost, f"lost: {lost}"

    @invariant()
    def each_key_keeps_its_order(self) -> None:
        """Rules 3 to 5: of first deliveries; the order of what was a dead letter once is past."""
        if self.world is not None:
            firsts = defaultdict(list)
            for name in dict.fromkeys(self.world.accepted):
                if name not in self.world.buried:
                    firsts[self.world.key_of(name)].append(int(name))
            for key, numbers in firsts.items():
                assert numbers == sorted(numbers), f"out of order: {key}: {numbers}"

    @invariant()
    def nothing_comes_twice_without_a_fault(self) -> None:
        if self.world is not None and not self.world.faults:
            twice = [name for name, times in Counter(self.world.accepted).items() if times > 1]
            assert not twice, f"twice: {twice}"

    @invariant()
    def bounds_hold(self) -> None:
        """Rule 8: parked rows, attempts in flight, what is taken."""
        if self.world is None:
            return
        parked = [row for row in self.world.rows() if not row.redriven]
        assert len(parked) <= MAX_ROWS
        for worker in self.workers:
            assert worker.most_flying <= CONCURRENCY
            assert worker.dispatcher.status().window <= WINDOW + 2 * BATCH  # of one poll

    def teardown(self) -> None:
        """All trouble over: everything must come to its end in bounded time."""
        try:
            if self.world is not None:
                self.go(self._end)
                self.nothing_acknowledged_is_lost()
                self.each_key_keeps_its_order()
                self.nothing_comes_twice_without_a_fault()
        finally:
            while left := asyncio.all_tasks(self.loop):
                for task in left:
                    task.cancel()
                self.loop.run_until_complete(asyncio.wait(left))
            self.loop.close()

    async def _end(self) -> None:
        world = self.world
        world.everybody, world.trouble = "", {}
        world.away = False
        for zombie in world.zombies:
            zombie.gate.thaw()
        await world.clock.advance(1.0)
        if world.worker is None:
            await world.begin()
        world.worker.dispatcher.enable()
        for _ in range(LONG):
            if not world.rows() and world.finished() == set(map(str, range(len(world.published)))):
                break
            await world.clock.advance(1.0)
        everything = set(map(str, range(len(world.published))))
        assert set(world.accepted) | world.letters() == everything, "not all came to an end"
        assert not world.rows(), "rows are left"
        for worker in self.workers:
            await worker.kill()


Delivery.TestCase.settings = settings(
    examples(40),
    max_examples=min(examples(40).max_examples, MOST_EXAMPLES),
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestDelivery = Delivery.TestCase
