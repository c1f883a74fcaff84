"""Links to leaders and producer ids: made in the background, and told when they are there."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import ClusterAuthorizationFailedError, KafkaConnectionError

from app.brokers.kafka import connection as module
from app.brokers.kafka.connection import IDLE_FOR, ProducerConnection
from app.brokers.kafka.produce_request import ProducerId
from app.brokers.kafka.settings import KafkaSettings
from waiting import until

SETTINGS = KafkaSettings(name="main", bootstrap_servers="127.0.0.1:1")
NOT_AVAILABLE, NO_RIGHT = 15, 31


class Nodes:
    """Stand for the brokers of a cluster. ``codes`` are the answers to requests for a producer id; then it is given."""

    def __init__(self) -> None:
        self.opened: list[Any] = []
        self.codes: list[int] = []
        self.away: set[int] = set()
        self.ready = 0
        self.refreshed = 0

    def link(self, *_: object) -> Any:
        return _Link(self, asyncio.get_running_loop().time())

    def count_ready(self) -> None:
        self.ready += 1

    def refresh(self) -> None:
        self.refreshed += 1


class _Link:
    def __init__(self, nodes: Nodes, now: float) -> None:
        self.nodes, self.used, self.closed = nodes, now, False

    async def open(self, _host: str, port: int, **_: object) -> None:
        await asyncio.sleep(0)
        if port in self.nodes.away:
            raise KafkaConnectionError("refused")
        self.nodes.opened.append(self)

    async def ask(self, *_: object) -> bytes:
        code = self.nodes.codes.pop(0) if self.nodes.codes else 0
        return struct.pack(">ihqh", 0, code, -1 if code else 7, -1 if code else 0)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes()
    monkeypatch.setattr(module, "BrokerLink", made.link)
    monkeypatch.setattr(module, "ASK_AGAIN", 0.0)
    return made


@pytest.fixture
async def connection(nodes: Nodes) -> AsyncIterator[ProducerConnection]:
    made = ProducerConnection(SETTINGS, nodes.count_ready)
    brokers = [SimpleNamespace(nodeId=number, host="h", port=number) for number in (1, 2)]
    made.client.cluster.brokers = lambda: brokers
    made.client.cluster.broker_metadata = dict(zip((1, 2), brokers, strict=True)).get
    made.client.force_metadata_update = nodes.refresh
    yield made
    await made.close()


async def test_a_link_is_opened_once_in_the_background(
    nodes: Nodes, connection: ProducerConnection
) -> None:
    assert [connection.link(1) for _ in range(3)] == [None] * 3
    await until(lambda: nodes.ready, "the link")
    assert [connection.link(1)] == nodes.opened


async def test_a_link_that_was_idle_for_long_is_opened_again(
    nodes: Nodes, connection: ProducerConnection
) -> None:
    """The broker closes it at any moment: a request on it would wait for nothing."""
    connection.link(1)
    await until(lambda: nodes.ready, "the link")
    nodes.opened[0].used -= IDLE_FOR + 1
    assert connection.link(1) is None
    assert nodes.opened[0].closed
    connection._drop(nodes.opened[0])
    await until(lambda: connection.link(1), "another link")


async def test_a_node_that_cannot_be_reached_is_told_by_fresh_metadata(
    nodes: Nodes, connection: ProducerConnection
) -> None:
    nodes.away.add(1)
    connection.link(1)
    await until(lambda: nodes.refreshed, "fresh metadata")
    assert (nodes.ready, connection.link(1)) == (0, None)


async def test_a_producer_id_comes_from_any_node_that_can_give_one(
    nodes: Nodes, connection: ProducerConnection
) -> None:
    nodes.away.add(1)
    nodes.codes += [NOT_AVAILABLE, NOT_AVAILABLE]
    for _ in range(3):
        connection.renew()
    await until(lambda: nodes.ready, "a producer id")
    assert connection.sequences.identity == ProducerId(7, 0)
    assert len(nodes.opened) == 1


async def test_without_the_right_to_a_producer_id_there_is_no_connection(
    nodes: Nodes, connection: ProducerConnection
) -> None:
    nodes.codes += [NO_RIGHT]
    with pytest.raises(ClusterAuthorizationFailedError):
        await connection._get_identity()


async def test_a_closed_connection_begins_nothing_more(
    nodes: Nodes, connection: ProducerConnection
) -> None:
    """What is on the wire then is unknown, and is not sent by the next connection."""
    await connection.close()
    assert connection.closed
    connection.renew()
    assert connection.link(1) is None
    await asyncio.sleep(0)
    assert nodes.opened == []


async def test_a_producer_id_that_is_refused_again_and_again_is_logged_once(
    nodes: Nodes, connection: ProducerConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """It is requested ten times a second while records wait for it."""
    nodes.codes += [NO_RIGHT] * 3

    def is_ready() -> int:
        connection.renew()
        return nodes.ready

    await until(is_ready, "a producer id")
    assert len(caplog.records) == 1


async def test_of_two_links_that_were_opened_at_once_one_is_closed(
    nodes: Nodes, connection: ProducerConnection
) -> None:
    links = await asyncio.gather(connection._open_link(1), connection._open_link(1))
    assert links[0] is links[1] is connection.link(1)
    assert sorted(each.closed for each in nodes.opened) == [False, True]
