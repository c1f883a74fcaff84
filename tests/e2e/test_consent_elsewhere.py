"""A webhook consents at a gateway; the worker that asked it is another process of the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from consenting_webhook import ConsentingWebhook
from delivery_installation import Installation, Service, numbered
from postgres_server import fresh_database
from waiting import until
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.rabbitmq, pytest.mark.postgres]

BRIDGE = "https://bridge.example"  # in front of all gateways


@pytest.fixture
def webhook() -> Iterator[ConsentingWebhook]:
    with ConsentingWebhook() as webhook:
        yield webhook


@pytest.fixture
def house(
    tmp_path: Path, rabbitmq: str, postgres: str, target: WebhookTarget
) -> Iterator[Installation]:
    house = Installation(tmp_path, {"kind": "rabbitmq", "addresses": rabbitmq}, target)
    house.store = {"kind": "postgresql", "dsn": fresh_database(postgres)}
    house.webhooks = {"callback": BRIDGE}
    yield house
    house.close()


async def started(house: Installation, role: str, webhook: ConsentingWebhook) -> Service:
    house.arguments = ("--role", role)
    return await house.service(hook={"sink": webhook.url, "handshake": "require"})


@pytest.mark.parametrize("later", [False, True], ids=["it was there", "it came later"])
async def test_a_consent_at_a_gateway_reaches_the_worker_that_asked(
    house: Installation, webhook: ConsentingWebhook, later: bool
) -> None:
    """Spec 5.3. ``later``: the gateway that is called was not there yet when the webhook was asked."""
    gateway = await started(house, "gateway", webhook)
    await started(house, "worker", webhook)
    await gateway.publish(numbered(0, 3, keys=3))
    await until(lambda: webhook.callbacks != [], "a question")
    called = await started(house, "gateway", webhook) if later else gateway
    asked = len(webhook.callbacks)  # once a minute, so a slow start may have seen two
    address = webhook.callbacks[-1]
    assert address.startswith(f"{BRIDGE}/handshake/")
    here = address.replace(BRIDGE, called.events_url)
    assert webhook.events == 0
    assert await asyncio.to_thread(webhook.call, f"{here}-not") == 404
    assert await asyncio.to_thread(webhook.call, here) == 200
    await until(lambda: webhook.events == 3, "the events, after the consent")
    assert len(webhook.callbacks) == asked
    assert await asyncio.to_thread(webhook.call, here) == 404
    for each in house.services:
        await each.stop()
