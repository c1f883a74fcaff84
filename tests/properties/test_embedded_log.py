"""The embedded log against a model that a reader can check by eye: lists and sets."""

from __future__ import annotations

import asyncio

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from app.bindings.record import Record
from app.brokers.embedded import (
    ConsumerSettings,
    EngineSettings,
    RetentionLimits,
)
from app.interfaces import Consumer
from app.model.message import Message, Partition
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from example_counts import stateful
from log_machine import LogMachine
from log_steps import ManualTime, is_covered, read_all

TOPIC = "orders"
GROUP = "reader"
PARTITIONS = 2
KEEP = 100  # seconds


class EmbeddedLog(LogMachine):
    """``stored``: body by (partition, offset), in the order of the answers. ``finished``: what the
    group has settled."""

    def __init__(self) -> None:
        super().__init__()
        self.time = ManualTime()
        self.stored: dict[Partition, dict[int, bytes]] = {
            Partition(TOPIC, number): {} for number in range(PARTITIONS)
        }
        self.finished: set[tuple[Partition, int]] = set()
        self.settled: set[tuple[Partition, int]] = set()  # of them, what a commit has not covered
        self.committed: set[tuple[Partition, int]] = set()  # what a crash leaves of the finished
        self.begun: dict[Partition, int] = {}  # where this life's consumer began
        self.taken: list[Message] = []
        self.runner.run(self._open())

    async def _open(self) -> None:
        await self.begin(
            EngineSettings(
                path=self.folder,
                partitions=PARTITIONS,
                segment_bytes=300,
                wal_bytes=64 << 10,
                now_ms=self.time,
                retention=RetentionLimits(max_age=KEEP),
                retention_interval=3600,
            ),
            ConsumerSettings(commit_interval=3600),
        )
        self.consumer: Consumer = await self.log.subscribe(GROUP, [TOPIC], EARLIEST)
        self.taken = []

    @rule(key=st.sampled_from([b"a", b"b", b"c", None]), many=st.integers(1, 4))
    def publish(self, key: bytes | None, many: int) -> None:
        self.runner.run(self._publish(key, many))

    async def _publish(self, key: bytes | None, many: int) -> None:
        bodies = [b"%d" % (self.count + n) for n in range(many)]
        self.count += many
        results = await self.log.submit(TOPIC, [Record(key, (), body) for body in bodies])
        for body, result in zip(bodies, results, strict=True):
            assert isinstance(result, Receipt)
            records = self.stored[Partition(TOPIC, result.partition)]
            offset = int(result.position)
            assert offset > max(records, default=-1), "offsets rise and are never used again"
            records[offset] = body
        told = self.driver.engine.groups.positions.of(
            GROUP
        )  # what was settled before may have gone along
        self.committed |= {
            (place, offset) for place, offset in self.finished if is_covered(told[place], offset)
        }

    @rule()
    def take(self) -> None:
        self.runner.run(self._take())

    async def _take(self) -> None:
        async with asyncio.timeout(60):
            while len(self.taken) < self._expected_taken():
                event = await self.consumer.poll(0.5)
                if isinstance(event, tuple):
                    self.taken += event
        before = self.finished - self.settled
        for message in self.taken:
            assert (message.partition, message.offset) not in before, "finished ones do not repeat"
            assert self.stored[message.partition][message.offset] == message.record.body
        for place in self.stored:
            offsets = [m.offset for m in self.taken if m.partition == place]
            assert offsets == sorted(set(offsets)), "order within a partition, nothing twice"

    def _expected_taken(self) -> int:
        """All that is stored and was not finished when this life began."""
        before = self.finished - self.settled
        return sum(
            (place, offset) not in before
            for place, records in self.stored.items()
            for offset in records
            if offset >= self.begun.get(place, 0)
        )

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        some = data.draw(st.lists(st.sampled_from(self.taken), min_size=1, max_size=6))
        self.runner.run(self.consumer.settle(some))
        new = {(m.partition, m.offset) for m in some} - self.finished
        self.finished |= new
        self.settled |= new

    @rule()
    def commit(self) -> None:
        self.runner.run(self.consumer.commit())
        self.committed = set(self.finished)

    @rule()
    def close_and_reopen(self) -> None:
        self.runner.run(self.log.stop())
        self.committed = set(self.finished)
        self._begin_life()

    @rule()
    def crash(self) -> None:
        self.die()
        self.finished = set(self.committed)
        self._begin_life()

    def _begin_life(self) -> None:
        self.settled = set()
        self.begun = {place: self._lowest_unfinished(place) for place in self.stored}
        self.runner.run(self._open())

    def _lowest_unfinished(self, place: Partition) -> int:
        """The commit position: everything below is finished."""
        open_ones = [o for o in self.stored[place] if (place, o) not in self.finished]
        return min(open_ones, default=max(self.stored[place], default=-1) + 1)

    @rule(seconds=st.integers(1, 300))
    def time_passes_and_retention_runs(self, seconds: int) -> None:
        self.time.now_ms += seconds * 1_000
        dropped = self.runner.run(self.driver.engine.upkeep.retain())
        if not dropped:
            return
        for place, records in self.stored.items():
            earliest = self.driver.engine.partition(place).earliest
            for offset in [offset for offset in records if offset < earliest]:
                assert (place, offset) in self.committed, "retention passed what was unread"
                del records[offset]
            self.taken = [m for m in self.taken if m.partition != place or m.offset >= earliest]

    @invariant()
    def everything_stored_is_served(self) -> None:
        self.runner.run(self._compare())

    async def _compare(self) -> None:
        if TOPIC not in self.driver.engine.topics():
            return
        served: dict[Partition, dict[int, bytes | None]] = {place: {} for place in self.stored}
        for message in await read_all(self.driver.engine, TOPIC):
            served[message.partition][message.offset] = message.record.body
        assert served == self.stored


TestEmbeddedLog = EmbeddedLog.TestCase
TestEmbeddedLog.settings = stateful(20, 25)
