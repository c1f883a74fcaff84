"""What Kafka refuses for good has one end at each door: 422 for a sender, a dead letter for a mirror and a
spool, and for a dead letter's copy a letter in the store. Nothing of it holds up what comes behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from configuration import configuration, route, subscription
from service_process import serving
from waiting import until

pytestmark = pytest.mark.kafka

WITHIN = 240.0
EVENT = {"ce-specversion": "1.0", "ce-source": "/s", "ce-type": "t", "content-type": "text/plain"}


@pytest.fixture
async def compacted(kafka: str) -> str:
    """A topic that takes no record without a key."""
    name = f"t-{uuid4().hex[:12]}"
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        topic = NewTopic(name, 1, 1, topic_configs={"cleanup.policy": "compact"})
        await admin.create_topics([topic])
    finally:
        await admin.close()
    return name


class Service:
    def __init__(self, events: httpx.AsyncClient, admin: httpx.AsyncClient) -> None:
        self.events = events
        self.admin = admin

    async def post(self, route: str, id_: str, key: str | None = None) -> httpx.Response:
        headers = {**EVENT, "ce-id": id_} | ({"skybridge-key": key} if key else {})
        return await self.events.post(f"/events/{route}", content=b"x", headers=headers)

    async def letters(self, subscription: str) -> list[dict[str, Any]]:
        answer = await self.admin.get("/v1/dead-letters", params={"subscription": subscription})
        return list(answer.json()["dead_letters"])

    async def metric(self, line: str) -> bool:
        return line in (await self.admin.get("/metrics")).text

    async def stored(self, topic: str) -> set[str]:
        """The ids of events in a topic of Kafka."""
        answer = await self.admin.get(f"/v1/topics/main/{topic}/records", params={"limit": 100})
        return {each["event"]["id"] for each in answer.json()["messages"]}


@pytest.fixture
async def service(tmp_path: Path, kafka: str, compacted: str) -> AsyncIterator[Service]:
    to_kafka = {"broker": "main", "topic": compacted}
    mirror = subscription("mirror", to_kafka, "source", dead_letter=to_kafka)
    settings = configuration(
        tmp_path,
        brokers={"main": {"kind": "kafka", "bootstrap_servers": kafka}},
        routes=[
            {"name": "direct", "to": to_kafka},
            {"name": "both", "to": [to_kafka, {"broker": "log", "topic": "copy"}]},
            {
                "name": "spooled",
                "to": to_kafka,
                "spool": {"broker": "log", "when": "always", "max": "64MiB"},
            },
            route("source", name="source"),
        ],
        subscriptions=[mirror],
        timeouts={"publish": None, "drain": None},
    )
    with serving(settings, tmp_path) as process:
        async with (
            httpx.AsyncClient(base_url=process.events_url, timeout=WITHIN) as events,
            httpx.AsyncClient(base_url=process.admin_url, timeout=WITHIN) as admin,
        ):
            yield Service(events, admin)


async def test_what_kafka_refuses_for_good_ends_at_each_door(
    service: Service, compacted: str
) -> None:
    # a sender
    refused = await service.post("direct", "bad")
    assert refused.status_code == 422
    assert "retry-after" not in refused.headers
    assert refused.json()["type"] == "urn:skybridge:problem:rejected"
    for word in (compacted, "INVALID_RECORD", "key of the route"):
        assert word in refused.json()["detail"]
    assert (await service.post("direct", "direct", "k")).status_code == 202

    # a sender whose event another target has stored
    partly = await service.post("both", "bad")
    assert partly.status_code == 503
    assert [each["status"] for each in partly.json()["events"]] == [503, 202]

    # a spool, and a mirror whose dead letters have a copy in the same topic
    for name in ("spooled", "source"):
        assert (await service.post(name, f"bad-{name}")).status_code == 202
        assert (await service.post(name, f"good-{name}", "k")).status_code == 202
    for reader in ("spool:spooled", "mirror"):
        await until(lambda name=reader: service.letters(name))
        (letter,) = await service.letters(reader)
        assert (letter["cause"], letter["attempts"]) == ("status-422", 1)
        assert compacted in letter["detail"]
    wanted = {"direct", "good-spooled", "good-source"}

    async def all_stored() -> bool:
        return await service.stored(compacted) == wanted

    await until(all_stored)
    await until(
        lambda: service.metric(
            'skybridge_dead_letter_copies_refused_total{code="rejected",subscription="mirror"} 1.0'
        )
    )
    assert await service.metric('skybridge_kafka_produce_errors_total{broker="main",code="87"}')
    assert (await service.admin.get("/readyz")).status_code == 200
