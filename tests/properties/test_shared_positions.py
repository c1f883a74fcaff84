"""Positions in a shared group lose nothing, whatever is read, finished, paused, stored and killed in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from app.brokers.kafka import shared_positions
from app.brokers.kafka.shared_positions import SharedPartition, SharedPosition
from app.delivery.offsets import decode_runs
from app.interfaces import Commit, Progress
from app.model.message import Partition
from memory_tables import OffsetRows, ProgressRows

T = TypeVar("T")
AT = Partition("orders", 0)
GROUPS = ["a", "b", "c"]
KEY = "kafka", "shared"
BEHIND = 4


@pytest.fixture(autouse=True, scope="module")
def near() -> Any:
    """Let subscriptions leave the floor after a few offsets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_positions, "BEHIND", BEHIND)
        yield


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the call waits")


class Reader:
    """One subscription that reads the partition message by message."""

    waiting = False

    def __init__(self, position: SharedPosition) -> None:
        self.place_in_group = position
        self.position = position.begin
        self.cursor: Any = self
        position.reader = self
        position.watch()


class Tail:
    """The cursors of the partition: each reader has its own."""

    def __init__(self) -> None:
        self.readers: list[Reader] = []

    def positions(self, counts: Callable[[Any], bool]) -> list[int]:
        return [each.position for each in self.readers if each.cursor is not None and counts(each)]


class SharedPositions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = ProgressRows(OffsetRows())
        self.done: dict[str, set[int]] = {group: set() for group in GROUPS}
        at_once(self.store.begin(*KEY, {group: {AT: Commit(0)} for group in GROUPS}))
        self.epoch = 0
        self.now = 0.0
        self.kill()

    @rule()
    def kill(self) -> None:
        """Begin again with what the store has."""
        self.epoch += 1
        floors, rows = at_once(self.store.own(*KEY, self.epoch, [AT], newest=True))
        self.tail = Tail()
        self.held = SharedPartition(AT, self.epoch, floors[AT], rows[AT], self.tail)  # type: ignore[arg-type]
        self.open: dict[str, set[int]] = {group: set() for group in GROUPS}
        self.readers: dict[str, Reader] = {}

    @rule(group=st.sampled_from(GROUPS))
    def join(self, group: str) -> None:
        if group not in self.readers:
            self.readers[group] = reader = Reader(self.held.positions[group])
            self.tail.readers.append(reader)

    @rule(group=st.sampled_from(GROUPS))
    def leave(self, group: str) -> None:
        if (reader := self.readers.pop(group, None)) is not None:
            self.tail.readers.remove(reader)
            reader.place_in_group.detach()
            self.open[group] = set()

    @rule(group=st.sampled_from(GROUPS), wanted=st.lists(st.booleans(), min_size=1, max_size=6))
    def read(self, group: str, wanted: list[bool]) -> None:
        reader = self.readers.get(group)
        if reader is None or reader.cursor is None:
            return
        for wants in wanted:
            offset = reader.position
            if wants and reader.place_in_group.take(offset):
                self.open[group].add(offset)
            elif not wants:
                self.done[group].add(offset)
            else:
                assert offset in self.done[group], "only a finished message is not handed out again"
            reader.place_in_group.watch()
            reader.position += 1

    @rule(group=st.sampled_from(GROUPS), data=st.data())
    def finish(self, group: str, data: st.DataObject) -> None:
        if self.open[group]:
            offset = data.draw(st.sampled_from(sorted(self.open[group])))
            self.open[group].remove(offset)
            self.done[group].add(offset)
            self.readers[group].place_in_group.finish(offset)

    @rule(group=st.sampled_from(GROUPS), paused=st.booleans())
    def pause(self, group: str, paused: bool) -> None:
        if (reader := self.readers.get(group)) is not None:
            reader.cursor = None if paused else reader
            reader.place_in_group.watch()

    @rule(late=st.booleans())
    def store_batch(self, late: bool) -> None:
        self.now += 100.0 if late else 0.1
        rows = self.held.batch(self.now)
        at_once(self.store.save(*KEY, self.epoch, {AT: self.held.floor}, {AT: rows}))
        self.held.stored(rows, self.now)

    @rule()
    def fail_batch(self) -> None:
        self.held.failed(self.held.batch(self.now))

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every message before a stored position, and in its finished ranges, was finished or not wanted."""
        found = at_once(self.store.find("kafka", GROUPS))
        for group in GROUPS:
            row: Progress = found[group][AT]
            finished = set(range(row.offset))
            for first, last in decode_runs(row.offset, row.finished):
                finished.update(range(first, last + 1))
            assert finished <= self.done[group]

    def teardown(self) -> None:
        """When all have finished and read to one end, the floor is there, and no position is watched."""
        for group in GROUPS:
            self.join(group)
            self.pause(group, paused=False)
            for offset in sorted(self.open[group]):
                self.done[group].add(offset)
                self.readers[group].place_in_group.finish(offset)
            self.open[group] = set()
        end = max(each.position for each in self.readers.values())
        for group, reader in self.readers.items():
            self.read(group, [False] * (end - reader.position))
        for _ in range(2):
            self.store_batch(late=True)
        assert self.held.floor == end
        assert not self.held._watched  # they would cost time with every batch
        self.nothing_is_lost()


SharedPositions.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSharedPositions = SharedPositions.TestCase
