"""From HTTP over a real RabbitMQ to a webhook: the service as a process, killed and restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest

from delivery_house import House, Ledger, numbered, until
from delivery_scenarios import DeliveryScenarios
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.rabbitmq, pytest.mark.fault]

OWN_QUEUES = "{topic}.{group}.{partition}"


@pytest.fixture
def house(tmp_path: Path, rabbitmq: str, target: WebhookTarget) -> Iterator[House]:
    house = House(tmp_path, {"kind": "rabbitmq", "addresses": rabbitmq}, target)
    yield house
    house.close()


@pytest.fixture
def apart(house: House) -> House:
    house.broker = {**house.broker, "queue": OWN_QUEUES}
    return house


class TestRabbitMQ(DeliveryScenarios):
    """Quorum queues under single active consumers."""


class TestStreams(DeliveryScenarios):
    """Streams, with their places in the store: the service is killed and restarted, the store stays."""

    @pytest.fixture
    def house(self, house: House) -> House:
        house.broker = {**house.broker, "queue_type": "stream"}
        return house

    @pytest.fixture
    def apart(self, house: House) -> House:
        return house


async def test_events_reach_a_queue_of_others_by_an_exchange_and_are_delivered_from_there(
    house: House, rabbitmq: str, ledger: Ledger
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


async def bound_queue(address: str, queue: str, exchange: str, routing_key: str) -> None:
    async with await aio_pika.connect(f"amqp://guest:guest@{address}/") as connection:
        channel = await connection.channel()
        arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
        declared = await channel.declare_queue(queue, durable=True, arguments=arguments)
        await declared.bind(exchange, routing_key)
