"""From HTTP over a real RabbitMQ to a webhook: the service as a process, killed and restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import httpx
import pytest

from delivery_installation import PATIENCE, Installation, Ledger, numbered
from delivery_scenarios import DeliveryScenarios
from waiting import until
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.rabbitmq, pytest.mark.fault]

OWN_QUEUES = "{topic}.{group}.{partition}"


@pytest.fixture
def house(tmp_path: Path, rabbitmq: str, target: WebhookTarget) -> Iterator[Installation]:
    house = Installation(tmp_path, {"kind": "rabbitmq", "addresses": rabbitmq}, target)
    yield house
    house.close()


@pytest.fixture
def apart(house: Installation) -> Installation:
    house.broker = {**house.broker, "queue": OWN_QUEUES}
    return house


class TestRabbitMQ(DeliveryScenarios):
    """Quorum queues under single active consumers."""


class TestStreams(DeliveryScenarios):
    """Streams, with their places in the store: the service is killed and restarted, the store stays."""

    @pytest.fixture
    def house(self, house: Installation) -> Installation:
        house.broker = {**house.broker, "queue_type": "stream"}
        return house

    @pytest.fixture
    def apart(self, house: Installation) -> Installation:
        return house


async def test_events_reach_a_queue_of_others_by_an_exchange_and_are_delivered_from_there(
    house: Installation, rabbitmq: str, ledger: Ledger
) -> None:
    """A template makes the routing key, the broker's own bindings decide, ``queue:NAME`` is read."""
    queue = f"{house.installation}-audit"
    await bound_queue(rabbitmq, queue, "amq.topic", "com.example.#")
    house.source = f"queue:{queue}"
    house.to = {"exchange": "amq.topic", "routing_key": "{type}.{partitionkey}"}
    service = await house.service()
    await service.publish(numbered(0, 100, keys=10))
    await until(lambda: ledger.numbers == set(range(100)), "everything delivered")
    assert ledger.out_of_order() == {}
    await service.stop()


async def test_what_was_refused_for_its_type_is_refused_again_when_it_is_redriven(
    house: Installation, rabbitmq: str, ledger: Ledger
) -> None:
    """R9: no attribute is a fraction. Without it the rest would be an event."""
    queue = f"{house.installation}-odd"
    await bound_queue(rabbitmq, queue, "amq.topic", queue)
    house.source = f"queue:{queue}"
    service = await house.service()
    good = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    await sent(rabbitmq, queue, {**good, "ce-f": 1.5, "ce-i": 2**31, "ce-t": {"a": 1}})
    letters = f"http://127.0.0.1:{service.admin_port}/v1/dead-letters"
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        first = await letter_above(client, letters, 0)
        shown = (await client.get(f"{letters}/{first['id']}")).json()["message"]["record"]
        order = {"id": [first["id"]], "dry_run": False}
        assert (await client.post(f"{letters}:redrive", json=order)).json()["redriven"] == 1
        again = await letter_above(client, letters, first["id"])
    typed = {each["name"]: each.get("typed") for each in shown["headers"]}
    assert (typed["ce-f"], typed["ce-i"], typed["ce-t"]) == (1.5, 2**31, {"a": 1})
    assert first["cause"] == again["cause"] == "foreign"
    assert ledger.taken == []
    await service.stop()


async def letter_above(client: httpx.AsyncClient, letters: str, id_: int) -> dict[str, Any]:
    """The dead letter after the one of that id."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for letter in (await client.get(letters)).json()["dead_letters"]:
                if letter["id"] > id_:
                    return letter
            await asyncio.sleep(0.05)


async def sent(address: str, routing_key: str, headers: dict[str, Any]) -> None:
    async with await aio_pika.connect(f"amqp://guest:guest@{address}/") as connection:
        exchange = await (await connection.channel()).get_exchange("amq.topic")
        await exchange.publish(aio_pika.Message(b"x", headers=headers), routing_key)


async def bound_queue(address: str, queue: str, exchange: str, routing_key: str) -> None:
    async with await aio_pika.connect(f"amqp://guest:guest@{address}/") as connection:
        channel = await connection.channel()
        arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
        declared = await channel.declare_queue(queue, durable=True, arguments=arguments)
        await declared.bind(exchange, routing_key)
