"""Heartbeats of many members: which leave together, and on whose connection."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, RequestTimedOutError
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import HeartbeatRequest

from app.brokers.aiokafka_adapter import OFFSET_COMMIT
from app.brokers.kafka.heartbeats import Heartbeats
from app.brokers.kafka.membership import KafkaMembership
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.tail import PartitionTails

WITHIN = 60.0


async def test_members_depart_together() -> None:
    """Else a hundred members wake the process a hundred times. One that is given up keeps no other."""
    left: list[str] = []

    async def unused(_node: int, _request: Any) -> Any:
        raise AssertionError

    beats = Heartbeats(0.02, unused)

    async def beat(name: str) -> None:
        await beats.depart()
        left.append(name)

    first, given_up, last = (asyncio.create_task(beat(name)) for name in ("a", "b", "c"))
    await asyncio.sleep(0)
    assert left == []
    given_up.cancel()
    async with asyncio.timeout(WITHIN):
        await asyncio.gather(first, last)
        assert left == ["a", "c"]
        await beat("d")
    assert left == ["a", "c", "d"], "the next one has its own departure"
    assert beats._waiting == [], "no timer runs"


async def test_the_repetition_of_a_heartbeat_that_failed_waits_for_no_other() -> None:
    """The session goes on meanwhile; four heartbeats of it may be lost (rule 5)."""
    connections = Connections()
    connections.code = 16
    consumer: Any = SimpleNamespace(_client=SimpleNamespace(send=connections.of_member, ready=None))
    beats = Heartbeats(0.001, connections.of_all)
    KafkaMembership(consumer, 10.0, beats=beats)
    await consumer._client.send(1, HeartbeatRequest("g", 1, "m"))
    beats._interval = 3600.0
    connections.code = 0
    async with asyncio.timeout(WITHIN):
        await consumer._client.send(1, HeartbeatRequest("g", 1, "m"))
    next_one = asyncio.create_task(consumer._client.send(1, HeartbeatRequest("g", 1, "m")))
    await asyncio.sleep(0)
    assert connections.sent == ["all", "all"]
    next_one.cancel()


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


async def never(*_args: object, **_options: object) -> Any:
    """Answer nothing, as a node that is cut off silently."""
    await asyncio.Event().wait()


def member(client: Any, of_all: Any = never) -> None:
    """Make a member whose requests go to a client."""
    KafkaMembership(SimpleNamespace(_client=client), 0.03, beats=Heartbeats(0.001, of_all))  # type: ignore[arg-type]


async def test_a_coordinator_that_is_cut_off_silently_is_given_up_within_the_session() -> None:
    """The member would otherwise wait for the limit of a join, and deliver nothing after its lease (seen by ``make proof
    ARGS="--scenario kafka-away"``)."""

    async def of_all(_node: int, _request: Any) -> Any:
        raise TimeoutError  # ``PartitionTails.beat`` has a limit of its own

    used: list[object] = []

    async def ready(_node: int, group: object) -> bool:
        used.append(group)
        return bool(await never())

    client = SimpleNamespace(send=never, ready=ready)
    member(client, of_all)
    async with asyncio.timeout(WITHIN):
        with pytest.raises(RequestTimedOutError):
            await client.send(1, HeartbeatRequest("g", 1, "m"), group=1)
        assert not await client.ready(1, group=1), "other connections do not wait for this one"
    assert used == ["1 1"], "a join would wait on the silent connection"


async def test_the_search_for_the_coordinator_asks_another_node_than_the_silent_one() -> None:
    asked: list[int] = []

    async def send(node: int, _request: Any, **_options: Any) -> str:
        asked.append(node)
        return "found" if node == 3 else await never()

    nodes = [SimpleNamespace(nodeId=number) for number in (1, 2, 3)]
    client = SimpleNamespace(send=send, ready=never, cluster=SimpleNamespace(brokers=lambda: nodes))
    member(client)
    async with asyncio.timeout(WITHIN):
        assert await client.send(2, FindCoordinatorRequest("g", 0)) == "found"
    assert asked == [2, 1, 3]


async def test_a_heartbeat_without_an_answer_is_followed_by_one_on_another_connection() -> None:
    """The connection of all members may be dead, and nobody says so."""
    tails = PartitionTails(KafkaSettings(name="k", bootstrap_servers="a:1", session_timeout=0.003))
    used: list[str] = []

    class Silent:
        async def ask(self, _node: int, _request: Any, connection: str) -> None:
            used.append(connection)
            await never()

    tails._fetching = Silent()  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await tails.beat(1, HeartbeatRequest("g", 1, "m"))
    assert len(set(used)) == 2


async def test_a_beat_goes_where_all_go_and_else_on_its_own_connection() -> None:
    """The connection of all may not know a node that has just come, or may be gone: no reason to lose a place in a
    group. An answer renews the lease on either (rule 5), and a refusal is the member's own affair."""
    now, connections = 100.0, Connections()
    consumer: Any = SimpleNamespace(_client=SimpleNamespace(send=connections.of_member, ready=None))
    beats = Heartbeats(0.004, connections.of_all)
    membership = KafkaMembership(consumer, 10.0, lambda: now, beats)
    request = HeartbeatRequest("g", 1, "m")
    await consumer._client.send(1, request)
    assert connections.sent == ["all"]
    assert membership.has_lease()
    now, connections.fault = 110.0, KafkaConnectionError("gone")
    assert not membership.has_lease()
    await consumer._client.send(1, request)
    assert connections.sent == ["all", "all", "member"]
    assert membership.has_lease()
    now, connections.fault, connections.code = 120.0, None, 25
    assert (await consumer._client.send(1, request)).error_code == 25
    assert connections.sent == ["all", "all", "member", "all"]
    assert not membership.has_lease()


async def test_the_error_of_a_commit_that_was_given_up_is_not_reported() -> None:
    """aiokafka shields the commit. While a coordinator was cut off, Python wrote one line for each: "Task exception was
    never retrieved" (53 of them in one run of ``make proof``)."""
    sent, failed = asyncio.Event(), asyncio.Event()

    async def send(_node: int, _request: Any, **_options: Any) -> Any:
        sent.set()
        await failed.wait()
        raise KafkaError("no answer")

    client = SimpleNamespace(ready=never, send=send)
    member(client)
    commit = SimpleNamespace(API_KEY=OFFSET_COMMIT)
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def commit_offsets() -> None:
        await asyncio.shield(client.send(1, commit))

    committing = asyncio.create_task(commit_offsets())
    await sent.wait()
    committing.cancel()
    await asyncio.wait({committing})
    failed.set()
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert reported == []
