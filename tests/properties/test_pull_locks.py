"""The locks of a pull subscription against a model: whatever consumers do and forget to do, in any order,
with the store closed and opened in between.

A lane has one holder at a time, and hands out its oldest; a token means something while its lock lasts,
and once; what was offered is there until it is acknowledged or a dead letter.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.interfaces import DeadLetter, DeadLetterFilter, PullMessage
from app.store import open_store
from example_counts import stateful
from folder_in_memory import folder_in_memory
from store_samples import BROKER, NOW, SUBSCRIPTION, an_offer

LOCK = 60_000
MOST_DELIVERIES = 3
LANES = [b"a", b"b", b"c"]


@dataclass
class Row:
    """What must be true of one message."""

    offset: int
    lane: bytes
    token: str = ""
    until: int = 0
    deliveries: int = 0


class Locks(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(dir=folder_in_memory()))
        self.runner = asyncio.Runner()
        self.store = open_store(self.home / "store.db", timeout=60)
        self.runner.run(self.store.start())
        self.now = NOW
        self.rows: list[Row] = []  # in the order of their offering
        self.tokens: list[str] = []  # that were ever given
        self.offered = 0
        self.acknowledged = 0
        self.buried: list[int] = []

    @rule(lanes=st.lists(st.sampled_from(LANES), min_size=1, max_size=4))
    def offer(self, lanes: list[bytes]) -> None:
        rows = [Row(self.offered + n, lane) for n, lane in enumerate(lanes)]
        self.runner.run(self.store.pulled.offer([an_offer(row.offset, row.lane) for row in rows]))
        self.rows += rows
        self.offered += len(rows)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def offer_again(self, data: st.DataObject) -> None:
        """As after a kill between row and commit."""
        row = data.draw(st.sampled_from(self.rows))
        self.runner.run(self.store.pulled.offer([an_offer(row.offset, row.lane)]))

    @rule(most=st.integers(1, 5))
    def receive(self, most: int) -> None:
        got = self.runner.run(
            self.store.pulled.receive(
                SUBSCRIPTION, most=most, most_bytes=1 << 20, lock_ms=LOCK, now_ms=self.now
            )
        )
        due = [row for row in self._heads() if row.until <= self.now][:most]
        assert [each.message.offset for each in got] == [row.offset for row in due]
        for row, each in zip(due, got, strict=True):
            assert each.deliveries == row.deliveries + 1
            assert each.token not in self.tokens
            row.token, row.until = each.token, self.now + LOCK
            row.deliveries += 1
            self.tokens.append(each.token)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        work = self.store.pulled.acknowledge(SUBSCRIPTION, [token, "nobody's"], self.now)
        if (row := self._told(token, work)) is not None:
            self.rows.remove(row)
            self.acknowledged += 1

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), delay=st.sampled_from([0, 1, LOCK]))
    def release(self, data: st.DataObject, delay: int) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        work = self.store.pulled.release(SUBSCRIPTION, [token], delay_ms=delay, now_ms=self.now)
        if (row := self._told(token, work)) is not None:
            row.token, row.until = "", self.now + delay

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        work = self.store.pulled.renew(SUBSCRIPTION, [token], lock_ms=LOCK, now_ms=self.now)
        if (row := self._told(token, work)) is not None:
            row.until = self.now + LOCK

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        row = self._holder(token)
        held = self.runner.run(self.store.pulled.locked(SUBSCRIPTION, [token], self.now))
        assert [each.message.offset for each in held] == ([row.offset] if row else [])
        self._bury(held)

    @rule()
    def bury_worn_out(self) -> None:
        worn = self.runner.run(
            self.store.pulled.worn_out(
                SUBSCRIPTION, most_deliveries=MOST_DELIVERIES, now_ms=self.now
            )
        )
        expected = {
            row.offset
            for row in self.rows
            if row.deliveries >= MOST_DELIVERIES and row.until <= self.now
        }
        assert {each.message.offset for each in worn} == expected
        for each in worn:
            row = next(row for row in self.rows if row.offset == each.message.offset)
            row.token, row.until = each.token, self.now + LOCK
        self._bury(worn)

    @rule(span=st.sampled_from([1, LOCK // 2, LOCK - 1, LOCK]))
    def time_passes(self, span: int) -> None:
        self.now += span

    @rule()
    def another_process(self) -> None:
        """Nothing is in the memory of the one that handed out."""
        self.runner.run(self.store.stop())
        self.store = open_store(self.home / "store.db", timeout=60)
        self.runner.run(self.store.start())

    @invariant()
    def all_is_accounted_for(self) -> None:
        count = self.runner.run(self.store.pulled.count(SUBSCRIPTION))
        assert count == len(self.rows)
        assert self.offered == count + self.acknowledged + len(self.buried)

    @invariant()
    def a_lane_has_one_holder(self) -> None:
        held = [row.lane for row in self.rows if row.token and row.until > self.now]
        assert len(held) == len(set(held))

    def teardown(self) -> None:
        try:
            letters = self.runner.run(self.store.letters.find(DeadLetterFilter(), limit=10_000))
            assert sorted(each.message.offset for each in letters) == sorted(self.buried)
        finally:
            self.runner.run(self.store.stop())
            self.runner.close()
            shutil.rmtree(self.home)

    def _heads(self) -> list[Row]:
        """The oldest of each lane, the oldest first."""
        heads: dict[bytes, Row] = {}
        for row in self.rows:
            heads.setdefault(row.lane, row)
        return sorted(heads.values(), key=lambda row: row.offset)

    def _holder(self, token: str) -> Row | None:
        return next((r for r in self.rows if r.token == token and r.until > self.now), None)

    def _told(self, token: str, work: Coroutine[Any, Any, Mapping[str, bool]]) -> Row | None:
        """The row that the token held, after the work has told whether it held one."""
        row, done = self._holder(token), self.runner.run(work)
        assert done[token] is (row is not None)
        assert not done.get("nobody's")
        return row

    def _bury(self, held: list[PullMessage]) -> None:
        letters = {
            each.token: DeadLetter(
                subscription=SUBSCRIPTION,
                broker=BROKER,
                message=each.message,
                cause="rejected",
                detail="",
                attempts=each.deliveries,
                status=None,
                at_ms=self.now,
            )
            for each in held
        }
        assert all(self.runner.run(self.store.pulled.bury(letters, self.now)).values())
        gone = {each.message.offset for each in held}
        self.rows = [row for row in self.rows if row.offset not in gone]
        self.buried += gone


TestLocks = Locks.TestCase
TestLocks.settings = stateful(25, 30)
