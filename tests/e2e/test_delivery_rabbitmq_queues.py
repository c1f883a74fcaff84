"""Queues of RabbitMQ that come and go under a running service, and queues of others: from HTTP to a webhook."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import httpx
import pytest

from delivery_installation import PATIENCE, Installation, Ledger, Service, numbered
from rabbitmq_harness import channel_to
from waiting import until
from webhook_target import Received, WebhookTarget, status

pytestmark = [pytest.mark.rabbitmq, pytest.mark.fault]

ARGUMENTS = {
    "quorum": {"x-queue-type": "quorum", "x-single-active-consumer": True},
    "stream": {"x-queue-type": "stream"},
}


class Given(Installation):
    """Makes no topics."""

    makes = False

    @property
    def settings(self) -> dict[str, Any]:
        return {**self.broker, "topics": {"create": self.makes, "partitions": self.partitions}}


@pytest.fixture
def house(tmp_path: Path, rabbitmq: str, target: WebhookTarget) -> Iterator[Given]:
    house = Given(tmp_path, {"kind": "rabbitmq", "addresses": rabbitmq}, target)
    yield house
    house.close()


@pytest.fixture(params=ARGUMENTS)
def kind(request: pytest.FixtureRequest, house: Given) -> str:
    house.broker = {**house.broker, "queue_type": request.param}
    return request.param


async def made(house: Given, kind: str, *numbers: int) -> None:
    """By an operator."""
    async with channel_to(house.broker["addresses"]) as channel:
        exchange = await channel.declare_exchange(house.topic, "direct", durable=True)
        for number in numbers:
            name = f"{house.topic}.{number}"
            queue = await channel.declare_queue(name, durable=True, arguments=ARGUMENTS[kind])
            await queue.bind(exchange, str(number))


async def deleted(house: Given, number: int) -> None:
    async with channel_to(house.broker["addresses"]) as channel:
        await channel.queue_delete(f"{house.topic}.{number}")


async def gateway(house: Given) -> Service:
    house.arguments = ("--role", "gateway")
    return await house.service()


async def probe(service: Service) -> str:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        return (await client.get(f"http://127.0.0.1:{service.admin_port}/readyz")).text


async def until_named(service: Service, words: str) -> None:
    """In the status of the subscription and in readiness."""
    async with asyncio.timeout(PATIENCE):
        while words not in (await service.status())["cause"] or words not in await probe(service):
            await asyncio.sleep(0.1)


async def test_a_queue_that_appears_is_read_by_a_worker_that_runs(
    house: Given, kind: str, ledger: Ledger
) -> None:
    """A gateway that starts later publishes to it; nothing waits for a restart, and the lag is known."""
    await made(house, kind, 0, 1)
    service = await house.service()
    await service.publish(numbered(0, 12, keys=12))
    await made(house, kind, 2)
    second = await gateway(house)
    await second.publish(numbered(12, 24, keys=12))
    await until(lambda: ledger.numbers == set(range(36)), "everything delivered")
    await service.until_no_lag()
    assert len((await service.status())["partitions"]) == 3
    await second.stop()
    await service.stop()


@pytest.mark.nightly
async def test_a_queue_that_vanished_is_named_and_read_when_it_is_there_again(
    house: Given, kind: str, ledger: Ledger
) -> None:
    """With the cure, by the worker and by the gateway; the others go on meanwhile."""
    await made(house, kind, 0, 1, 2)
    service = await house.service()
    await service.publish(numbered(0, 12, keys=12))
    await until(lambda: ledger.numbers == set(range(12)), "everything delivered")
    await deleted(house, 1)
    await until_named(service, f"no queue {house.topic}.1: create it, or set topics.create")
    found = await service.status()
    assert (found["state"], found["ready"], found["restarts"]) == ("running", True, 0)
    await made(house, kind, 1)
    await service.publish_until_accepted(numbered(12, 24, keys=12))
    await until(lambda: ledger.numbers == set(range(36)), "everything delivered")
    async with asyncio.timeout(PATIENCE):
        while (await service.status())["cause"] or f"{house.topic}.1" in await probe(service):
            await asyncio.sleep(0.1)
    await service.stop()


async def test_a_queue_that_vanished_is_made_again(house: Given, kind: str, ledger: Ledger) -> None:
    """Where the settings say so, its keys are stored again soon."""
    house.makes, house.partitions = True, 2
    service = await house.service()
    await service.publish(numbered(0, 12, keys=12))
    await until(lambda: ledger.numbers == set(range(12)), "everything delivered")
    await deleted(house, 1)
    await service.publish_until_accepted(numbered(12, 24, keys=12))
    await until(lambda: ledger.numbers == set(range(36)), "everything delivered")
    assert "no queue" not in await probe(service)
    await service.stop()


async def test_messages_with_a_content_coding(house: Given, target: WebhookTarget) -> None:
    """In a queue of others beside queues of groups. What is undone is delivered as it is, and payload filters see
    it; the rest are dead letters, by the name of the coding."""
    house.broker = {**house.broker, "queue": "{topic}.{group}.{partition}"}
    house.source = f"queue:{house.topic}"
    house.to = {"topic": house.source}
    arrived: list[Received] = []

    async def keep(request: Received) -> bytes:
        arrived.append(request)
        return status(204)

    target.answer = keep
    async with channel_to(house.broker["addresses"]) as channel:
        await channel.declare_queue(house.topic, durable=True, arguments=ARGUMENTS["quorum"])
    filters = [{"sql": "DATA('/n') > 1"}]
    service = await house.service(hook={"sink": target.url, "filters": filters})
    bodies = {"gzip": gzip.compress(b'{"n":7}'), "br": b"\x0b\x03", "identity": b'{"n":8}'}
    bodies["gzip, br"], bodies["GZIP"] = b"?", gzip.compress(b'{"n":' + b" " * 2_000_000 + b"9}")
    async with channel_to(house.broker["addresses"]) as channel:
        for n, (coding, body) in enumerate(bodies.items()):
            headers = {"ce-specversion": "1.0", "ce-id": str(n), "ce-source": "/s", "ce-type": "t"}
            sent = aio_pika.Message(
                body, headers=headers, content_type="application/json", content_encoding=coding
            )
            await channel.default_exchange.publish(sent, house.topic)
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        url = f"http://127.0.0.1:{service.admin_port}/v1/dead-letters"
        async with asyncio.timeout(PATIENCE):
            letters: list[dict[str, Any]] = []
            while len(letters) < 3 or len(arrived) < 2:
                await asyncio.sleep(0.05)
                letters = (await client.get(url)).json()["dead_letters"]
    assert {each.body for each in arrived} == {b'{"n":7}', b'{"n":8}'}
    assert not any(each.has("content-encoding") for each in arrived)
    details = " ".join(each["detail"] for each in letters)
    assert {each["cause"] for each in letters} == {"foreign"}
    assert "'br'" in details
    assert "'gzip, br'" in details
    assert "'GZIP' it has more than 1048576 bytes" in details
    await service.stop()
