"""Routes with less than all acknowledgements, beside one with all of them, on a real Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from sending import event_headers
from service import Service

pytestmark = pytest.mark.kafka

Started = Callable[[dict[str, Any]], Awaitable[Service]]
EVENT = event_headers("1")


async def test_relaxed_routes_take_events_and_show_up_as_no_broker(
    started: Started, kafka: str
) -> None:
    """Rule 1: each publishes through a log of its own; operators see the one broker that there is."""
    topics = {name: f"{name}-{uuid4().hex[:12]}" for name in ("full", "one", "none")}
    said = {
        "full": {},
        "one": {"durability": "relaxed"},
        "none": {"durability": "relaxed", "acks": 0},
    }
    broker = {"kind": "kafka", "bootstrap_servers": kafka, "topics": {"create": True}}
    settings = {
        "brokers": {"main": broker},
        "routes": [
            {"name": name, "to": {"broker": "main", "topic": topic}, **said[name]}
            for name, topic in topics.items()
        ],
        "timeouts": {"store": "60s", "publish": "60s", "not_ready": "0s"},
    }
    service = await started(settings)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for name in topics:
            url = f"{service.events_url}/events/{name}"
            assert (await client.post(url, headers=EVENT)).status_code == 202
        status = (await client.get(f"{service.admin_url}/status")).json()
        assert "#acks" not in json.dumps(status["brokers"])
        async with asyncio.timeout(240):
            while await service.stored(*topics.values(), broker="main") < 3:
                # nobody hears of one with acks 0 that a topic just made had no leader for
                await client.post(f"{service.events_url}/events/none", headers=EVENT)
                await asyncio.sleep(0.1)
        assert await service.stored(topics["none"], broker="main") >= 1
        assert await service.stored(topics["full"], topics["one"], broker="main") == 2
