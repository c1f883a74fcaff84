"""Many subscriptions on one embedded log, that come and go, pause, fall behind, finish in any order and
crash, against lists of what each must have got.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from app.bindings.record import Record
from app.brokers import cursor
from app.brokers.embedded import ConsumerSettings, EngineSettings
from app.filters.model import Filter
from app.interfaces import Consumer
from app.model.message import Assigned, Message, Partition
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from consumer_filters import consumer_filter
from example_counts import stateful
from log_machine import LogMachine
from log_steps import is_covered

TOPIC = "orders"
PARTITIONS = 2
PLACES = [Partition(TOPIC, number) for number in range(PARTITIONS)]
PAGE = 4  # records: small, so that cursors part and meet
LOOKS = 30  # few, so that pages are handed out in slices
TYPES = ["a", "ab", "abc", "b", ""]  # "": no event
FILTERS: dict[str, dict[str, object] | None] = {
    "everything": None,
    "exact": {"exact": {"type": "a"}},
    "prefix": {"prefix": {"type": "ab"}},
    "either": {"any": [{"exact": {"type": "b"}}, {"prefix": {"type": "abc"}}]},
    "source": {"suffix": {"source": "1"}},
    "failing": {"any": [{"sql": "missing > 1"}, {"exact": {"type": "a"}}]},
    "none": {"exact": {"type": "never"}},
    "raw": None,
}
GROUPS = [
    "everything-1",
    "everything-2",
    "exact-1",
    "prefix-1",
    "either-1",
    "source-1",
    "failing-1",
    "none-1",
    "raw-1",
]


def a_record(number: int, kind: str, key: bytes) -> Record:
    if not kind:
        return Record(key, (("content-type", b"text/plain"),), b"%d" % number)
    attributes = {"specversion": "1.0", "id": str(number), "source": f"/{number}", "type": kind}
    headers = tuple((f"ce_{name}", text.encode()) for name, text in attributes.items())
    return Record(key, headers, b"%d" % number)


def wants(group: str, number: int, kind: str) -> bool:
    """What a person would say of the filters above."""
    match group.rpartition("-")[0]:
        case "exact" | "failing":
            return kind in ("a", "")
        case "prefix":
            return kind in ("ab", "abc", "")
        case "either":
            return kind in ("b", "abc", "")
        case "source":
            return not kind or str(number).endswith("1")
        case "none":
            return not kind
    return True


class Subscriber:
    """One group's consumer in this life, and what it has taken."""

    def __init__(self, group: str, consumer: Consumer) -> None:
        self.group = group
        self.consumer = consumer
        self.taken: list[Message] = []
        self.paused: set[Partition] = set()


class Followers(LogMachine):
    """``stored``: number and type by (partition, offset). ``finished`` by group; ``settled``: of those,
    what a crash may take back because no commit has covered it."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[tuple[Partition, int], tuple[int, str]] = {}
        self.finished: dict[str, set[tuple[Partition, int]]] = {group: set() for group in GROUPS}
        self.committed: dict[str, set[tuple[Partition, int]]] = {group: set() for group in GROUPS}
        self.begun: dict[str, set[tuple[Partition, int]]] = {}  # finished when its consumer began
        self.running: dict[str, Subscriber] = {}
        self.miscounted = False
        self.slices = patch.object(cursor, "LOOKS", LOOKS)
        self.slices.start()
        self.runner.run(self._open())

    async def _open(self) -> None:
        await self.begin(
            EngineSettings(path=self.folder, partitions=PARTITIONS, retention_interval=3600),
            ConsumerSettings(commit_interval=3600, page_records=PAGE),
        )
        self.running = {}

    @rule(kind=st.sampled_from(TYPES), key=st.sampled_from([b"a", b"b"]), many=st.integers(1, 14))
    def publish(self, kind: str, key: bytes, many: int) -> None:
        self.runner.run(self._publish(kind, key, many))

    async def _publish(self, kind: str, key: bytes, many: int) -> None:
        numbers = range(self.count, self.count + many)
        self.count += many
        results = await self.log.submit(TOPIC, [a_record(n, kind, key) for n in numbers])
        for number, result in zip(numbers, results, strict=True):
            assert isinstance(result, Receipt)
            where = Partition(TOPIC, result.partition), int(result.position)
            self.stored[where] = number, kind
        for group in GROUPS:  # what was settled before may have gone along
            told = self.driver.engine.groups.positions.of(group)
            self.committed[group] |= {
                (place, offset)
                for place, offset in self.finished[group]
                if is_covered(told[place], offset)
            }

    @precondition(lambda self: len(self.running) < len(GROUPS))
    @rule(data=st.data())
    def come(self, data: st.DataObject) -> None:
        absent = [group for group in GROUPS if group not in self.running]
        group = data.draw(st.sampled_from(absent))
        self.begun[group] = set(self.finished[group])
        self.running[group] = self.runner.run(self._come(group))

    @initialize()
    def some_are_there(self) -> None:
        self.publish("a", b"a", 9)
        for group in GROUPS[:5]:
            self.begun[group] = set()
            self.running[group] = self.runner.run(self._come(group))

    async def _come(self, group: str) -> Subscriber:
        """It owns its partitions when this returns."""
        rule_ = FILTERS[group.rpartition("-")[0]]
        filters = [] if rule_ is None else [Filter.model_validate(rule_)]

        def passed(filtered: int, failed: int) -> None:
            wrong = filtered if group.startswith("failing") else failed
            self.miscounted |= wrong != 0 or filtered < 0

        wanted = consumer_filter(filters, passed)
        raw = group.startswith("raw")
        consumer = await self.log.subscribe(
            group, [TOPIC], EARLIEST, wanted=None if raw else wanted
        )
        subscriber = Subscriber(group, consumer)
        async with asyncio.timeout(60):
            while not isinstance(await consumer.poll(0.5), Assigned):
                pass
        return subscriber

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        """It commits what it has settled."""
        group = data.draw(st.sampled_from(sorted(self.running)))
        self.runner.run(self.running.pop(group).consumer.close())
        self.committed[group] = set(self.finished[group])

    @precondition(lambda self: self.running)
    @rule(data=st.data(), place=st.sampled_from(PLACES))
    def pause_or_resume(self, data: st.DataObject, place: Partition) -> None:
        one = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        if place in one.paused:
            one.consumer.resume([place])
        else:
            one.consumer.pause([place])
        one.paused ^= {place}

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def poll_once(self, data: st.DataObject) -> None:
        """Some fall behind, some do not."""
        one = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        self.runner.run(self._poll(one, 0.005))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def take_all(self, data: st.DataObject) -> None:
        one = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        self.runner.run(self._take_all(one))

    async def _poll(self, one: Subscriber, wait: float) -> None:
        event = await one.consumer.poll(wait)
        if isinstance(event, tuple):
            assert not one.paused & {message.partition for message in event}
            one.taken += event
            self._check(one)

    async def _take_all(self, one: Subscriber) -> None:
        async with asyncio.timeout(60):
            while not self._expected(one) <= {(m.partition, m.offset) for m in one.taken}:
                await self._poll(one, 0.5)

    def _expected(self, one: Subscriber) -> set[tuple[Partition, int]]:
        return {
            where
            for where, (number, kind) in self.stored.items()
            if wants(one.group, number, kind)
            and where not in self.begun[one.group]
            and where[0] not in one.paused
        }

    def _check(self, one: Subscriber) -> None:
        for message in one.taken:
            where = message.partition, message.offset
            number, kind = self.stored[where]
            assert message.record.body == b"%d" % number
            assert wants(one.group, number, kind)
            assert where not in self.begun[one.group], "finished ones do not repeat"
        for place in PLACES:
            offsets = [m.offset for m in one.taken if m.partition == place]
            assert offsets == sorted(set(offsets)), "order within a partition, nothing twice"

    @precondition(lambda self: self.running)
    @rule(data=st.data(), picks=st.lists(st.integers(0, 40), min_size=1, max_size=8))
    def settle(self, data: st.DataObject, picks: list[int]) -> None:
        """Which have come by now is a matter of time, and nothing that may be drawn from."""
        group = data.draw(st.sampled_from(sorted(self.running)))
        one = self.running[group]
        some = [one.taken[pick % len(one.taken)] for pick in picks if one.taken]
        self.runner.run(one.consumer.settle(some))
        self.finished[group] |= {(m.partition, m.offset) for m in some}

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(sorted(self.running)))
        self.runner.run(self.running[group].consumer.commit())
        self.committed[group] = set(self.finished[group])

    @rule()
    def positions_of_all_are_committed(self) -> None:
        """The round that the timer makes, made now."""
        self.runner.run(self._round())
        for group in self.running:
            self.committed[group] = set(self.finished[group])

    async def _round(self) -> None:
        assert self.driver._shared is not None
        self.driver._shared.commits._round()
        await self.driver.engine.create_topic("after-all-commits")

    @rule()
    def crash(self) -> None:
        self.die()
        self.finished = {group: set(done) for group, done in self.committed.items()}
        self.runner.run(self._open())

    def copy(self, old: Path) -> None:
        """Between two writes."""
        self.runner.run(self._copy(old))

    async def _copy(self, old: Path) -> None:
        await self.driver.engine._writer_or_raise().run(lambda _: super(Followers, self).copy(old))

    @rule()
    def restart(self) -> None:
        self.runner.run(self.log.stop())
        for group in self.running:
            self.committed[group] = set(self.finished[group])
        self.runner.run(self._open())

    @invariant()
    def no_position_is_beyond_what_is_unfinished(self) -> None:
        """Neither the one in the file nor the one that is shown (rule 2)."""
        for group in GROUPS:
            for place, committed in self.driver.engine.groups.positions.of(group).items():
                below = [
                    where
                    for where, (number, kind) in self.stored.items()
                    if where[0] == place
                    and where[1] < committed.offset
                    and wants(group, number, kind)
                ]
                assert set(below) <= self.finished[group]

    @invariant()
    def a_failed_expression_is_counted_as_one(self) -> None:
        """All that is passed over for the one whose expression fails, and nothing of the others."""
        assert not self.miscounted

    def teardown(self) -> None:
        """Whoever is there gets all that it wants, whatever came before."""
        try:
            for one in self.running.values():
                one.consumer.resume(one.paused)
                one.paused = set()
                self.runner.run(self._take_all(one))
        finally:
            self.slices.stop()
            super().teardown()


TestFollowers = Followers.TestCase
TestFollowers.settings = stateful(25, 30)
