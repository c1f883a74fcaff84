"""Routes with less than all acknowledgements, beside one with all of them, on a real Kafka."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from app.config.load import load
from app.runtime.build import build
from app.runtime.clock import SystemClock
from app.runtime.service import Service

pytestmark = pytest.mark.kafka

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


async def test_relaxed_routes_take_events_and_show_up_as_no_broker(
    tmp_path: Path, kafka: str
) -> None:
    """Rule 1: each publishes through a log of its own; operators see the one broker that there is."""
    topics = {name: f"{name}-{uuid4().hex[:12]}" for name in ("full", "one", "none")}
    said = {
        "full": {},
        "one": {"durability": "relaxed"},
        "none": {"durability": "relaxed", "acks": 0},
    }
    broker = {"kind": "kafka", "bootstrap_servers": kafka, "topics": {"create": True}}
    file = tmp_path / "skybridge.json"
    document = {
        "version": 1,
        "server": {"events": {"port": 0}, "admin": {"port": 0}},
        "store": {"kind": "sqlite", "path": str(tmp_path / "store.db")},
        "brokers": {"main": broker},
        "routes": [
            {"name": name, "to": {"broker": "main", "topic": topic}, **said[name]}
            for name, topic in topics.items()
        ],
        "timeouts": {"store": "60s", "publish": "60s", "not_ready": "0s"},
    }
    file.write_text(json.dumps(document))
    service = Service(build(load(file, {}).config, SystemClock()))
    await service.start()
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            for name in topics:
                url = f"{service.events_url}/events/{name}"
                assert (await client.post(url, headers=EVENT)).status_code == 202
            status = (await client.get(f"{service.admin_url}/status")).json()
            assert "#acks" not in json.dumps(status["brokers"])
            async with asyncio.timeout(240):
                while await stored(service, list(topics.values())) < 3:
                    # nobody hears of one with acks 0 that a topic just made had no leader for
                    await client.post(f"{service.events_url}/events/none", headers=EVENT)
                    await asyncio.sleep(0.1)
            assert await stored(service, [topics["none"]]) >= 1
            assert await stored(service, [topics["full"], topics["one"]]) == 2
    finally:
        await service.stop()


async def stored(service: Service, topics: list[str]) -> int:
    metadata = await service.parts.logs["main"].metadata(topics)
    return sum(int(part.latest or 0) for topic in metadata.topics for part in topic.partitions)
