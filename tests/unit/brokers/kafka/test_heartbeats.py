"""Heartbeats of many members: which leave together, on whose connection, and when they end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest

from app.brokers.kafka import heartbeats
from app.brokers.kafka.heartbeats import Heartbeats, Turns
from app.brokers.kafka.membership import Membership

WITHIN = 60.0


async def test_sleeps_that_end_at_about_the_same_time_end_together() -> None:
    """Else a hundred members wake the process a hundred times. One that is due much later sleeps on."""
    turns, ended = Turns(together=30.0), []

    async def sleep(name: str, wait: float) -> None:
        await turns.turn(wait)
        ended.append(name)

    later = asyncio.create_task(sleep("later", 3600.0))
    await asyncio.sleep(0)
    async with asyncio.timeout(WITHIN):
        await asyncio.gather(sleep("second", 29.0), sleep("first", 0.01), sleep("third", 0.02))
    assert sorted(ended) == ["first", "second", "third"]
    later.cancel()
    await asyncio.gather(later, return_exceptions=True)
    assert turns._timer is None, "nobody sleeps, and no timer runs"


class Member:
    """As aiokafka's coordinator of a group. ``answers``: whether each beat is well."""

    def __init__(self, *answers: bool) -> None:
        self.member_id = "m"
        self.beats = self.deaths = 0
        self._answers = list(answers)

    async def ensure_coordinator_known(self) -> None: ...

    async def _do_heartbeat(self) -> bool:
        self.beats += 1
        if not self._answers:
            self.member_id = JoinGroupRequest.UNKNOWN_MEMBER_ID
            return False
        return self._answers.pop(0)

    def coordinator_dead(self) -> None:
        self.deaths += 1


async def test_a_member_beats_until_it_is_thrown_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that gets no answer is tried again soon; when its session is over, its coordinator is looked for."""
    monkeypatch.setattr(heartbeats, "AGAIN_AFTER", 0.001)
    member = Member(True, False, False, True)
    async with asyncio.timeout(WITHIN):
        await Heartbeats(0.001, 3600.0, unused).keep(member)
    assert (member.beats, member.deaths) == (5, 0)
    member = Member(False, False)
    async with asyncio.timeout(WITHIN):
        await Heartbeats(0.001, -1.0, unused).keep(member)
    assert member.deaths == 3


async def test_a_member_that_leaves_beats_no_more() -> None:
    """aiokafka waits for the task that it has cancelled."""
    keeping = asyncio.create_task(Heartbeats(3600.0, 10.0, unused).keep(Member()))
    await asyncio.sleep(0)
    keeping.cancel()
    await keeping


async def unused(_node: int, _request: Any) -> Any:
    raise AssertionError


class Connections:
    """That of all, and that of one member. ``fault``: of the one of all."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.fault: Exception | None = None
        self.code = 0

    async def of_all(self, _node: int, _request: Any) -> Any:
        self.sent.append("all")
        if self.fault is not None:
            raise self.fault
        return SimpleNamespace(error_code=self.code)

    async def of_member(self, _node: int, _request: Any, **_options: Any) -> Any:
        self.sent.append("member")
        return SimpleNamespace(error_code=self.code)


async def test_a_beat_goes_where_all_go_and_else_on_its_own_connection() -> None:
    """The connection of all may not know a node that has just come, or may be gone: no reason to lose a place in a
    group. An answer renews the lease on either (rule 5), and a refusal is the member's own affair."""
    now, connections = 100.0, Connections()
    consumer: Any = SimpleNamespace(_client=SimpleNamespace(send=connections.of_member))
    beats = Heartbeats(2.0, 10.0, connections.of_all)
    membership = Membership(consumer, 10.0, lambda: now, beats)
    request = HeartbeatRequest("g", 1, "m")
    await consumer._client.send(1, request)
    assert connections.sent == ["all"]
    assert membership.sure()
    now, connections.fault = 110.0, KafkaConnectionError("gone")
    assert not membership.sure()
    await consumer._client.send(1, request)
    assert connections.sent == ["all", "all", "member"]
    assert membership.sure()
    now, connections.fault, connections.code = 120.0, None, 25
    assert (await consumer._client.send(1, request)).error_code == 25
    assert connections.sent == ["all", "all", "member", "all"]
    assert not membership.sure()
