"""Routes that store an event once, and routes that look at its data, as senders meet them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from configuration import configuration
from sending import event_headers
from service import Service, running

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
JSON = {"content-type": "application/json"}
RECEIPTS = {"prefer": "return=representation"}


class House:
    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        self.service = service
        self.client = client

    async def post(
        self, id_: str, data: Any, route: str = "", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        url = f"{self.service.events_url}/events{route}"
        whole = {**JSON, **event_headers(id_), **(headers or {})}
        return await self.client.post(url, headers=whole, content=json.dumps(data))

    async def structured(self, *events: tuple[str, Any]) -> httpx.Response:
        documents = [
            {"specversion": "1.0", "id": id_, "source": "/s", "type": "t", "data": data}
            for id_, data in events
        ]
        form = "cloudevents-batch" if len(events) > 1 else "cloudevents"
        body: Any = documents if len(events) > 1 else documents[0]
        return await self.client.post(
            f"{self.service.events_url}/events",
            headers={"content-type": f"application/{form}+json", **RECEIPTS},
            content=json.dumps(body),
        )

    async def metrics(self, name: str) -> list[str]:
        text = (await self.client.get(f"{self.service.admin_url}/metrics")).text
        return [line for line in text.splitlines() if line.startswith(f"skybridge_{name}")]


@asynccontextmanager
async def serving(folder: Path, routes: Any, **brokers: Any) -> AsyncIterator[House]:
    settings = configuration(folder, routes=routes, brokers=brokers)
    async with (
        running(settings, folder) as service,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        yield House(service, client)


ONCE = [{"name": "once", "to": {"broker": "log", "topic": "once"}, "deduplicate": {"window": "1h"}}]


async def test_a_repeat_is_202_with_the_first_receipt_in_every_mode(tmp_path):
    """The same event in another content mode is the same event: its data is."""
    async with serving(tmp_path, ONCE) as house:
        first = await house.post("1", {"a": 1}, headers=RECEIPTS)
        again = await house.post("1", {"a": 1}, headers=RECEIPTS)
        structured = await house.structured(("1", {"a": 1}))
        assert "skybridge-duplicate" not in first.headers
        for repeat in (again, structured):
            assert repeat.headers["skybridge-duplicate"] == "true"
            assert repeat.json() == [{**first.json()[0], "duplicate": True}]
        plain = await house.post("1", {"a": 1})
        assert (plain.status_code, plain.headers["skybridge-duplicate"]) == (202, "true")
        assert await house.service.stored("once") == 1


async def test_a_batch_tells_of_each_and_other_data_is_counted(tmp_path):
    async with serving(tmp_path, ONCE) as house:
        batch = await house.structured(("1", 1), ("2", 2), ("1", 1), ("2", 3))
        assert "skybridge-duplicate" not in batch.headers
        assert [each.get("duplicate", False) for each in batch.json()] == [
            False,
            False,
            True,
            False,
        ]
        assert await house.service.stored("once") == 3
        assert sorted(await house.metrics("events_repeated_total{")) == [
            f'skybridge_events_repeated_total{{broker="log",repeat="{repeat}",route="once"}} 1.0'
            for repeat in ("differs", "duplicate")
        ]


async def test_a_service_that_starts_again_still_knows(tmp_path):
    async with serving(tmp_path, ONCE) as house:
        await house.post("1", {"a": 1})
    async with serving(tmp_path, ONCE) as house:
        assert (await house.post("1", {"a": 1})).headers["skybridge-duplicate"] == "true"
        assert await house.service.stored("once") == 1


@pytest.mark.kafka
async def test_on_kafka_the_memory_of_the_gateway_knows(tmp_path, kafka):
    topic = f"once-{uuid4().hex[:12]}"
    route = {**ONCE[0], "to": {"broker": "main", "topic": topic}}
    main = {"kind": "kafka", "bootstrap_servers": kafka, "topics": {"create": True}}
    async with serving(tmp_path, [route], main=main) as house:
        answers = await asyncio.gather(*(house.post("1", 1, headers=RECEIPTS) for _ in range(5)))
        entries = [entry for answer in answers for entry in answer.json()]
        assert sorted(each.pop("duplicate", False) for each in entries) == [False, *[True] * 4]
        assert entries == entries[:1] * 5
        assert await house.service.stored(topic, broker="main") == 1


def shaped(file: Path, on_invalid: Any = "reject") -> list[dict[str, Any]]:
    file.write_text(json.dumps(SCHEMA))
    orders = {
        "name": "orders",
        "filters": [{"exact": {"type": "t"}}],
        "to": {"broker": "log", "topic": "orders"},
        "schema": {"file": str(file), "on_invalid": on_invalid},
    }
    return [orders, {"name": "odd", "to": {"broker": "log", "topic": "odd"}}]


async def test_data_that_does_not_match_is_422_with_every_fault_and_a_batch_is_refused_whole(
    tmp_path,
):
    async with serving(tmp_path, shaped(tmp_path / "order.json")) as house:
        refused = await house.post("1", {"id": 7})
        assert (refused.status_code, refused.headers["content-type"]) == (
            422,
            "application/problem+json",
        )
        assert refused.json()["type"] == "urn:skybridge:problem:invalid-data"
        assert [fault["at"] for fault in refused.json()["faults"]] == ["/data/id"]
        batch = await house.structured(("1", {"id": "x"}), ("2", {}), ("3", []))
        assert batch.status_code == 422
        assert [(f["index"], f["at"]) for f in batch.json()["faults"]] == [
            (1, "/data"),
            (2, "/data"),
        ]
        assert await house.service.stored("orders") == 0
        assert (await house.post("1", {"id": "x"})).status_code == 202
        assert await house.metrics("events_invalid_total{") == [
            'skybridge_events_invalid_total{outcome="rejected",route="orders"} 3.0'
        ]
        shown = await house.client.post(
            f"{house.service.admin_url}/v1/explain",
            headers={"content-type": "application/cloudevents+json"},
            content=json.dumps(
                {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"id": 7}}
            ),
        )
        (journey,) = shown.json()
        assert [fault["at"] for fault in journey["routes"][0]["invalid"]] == ["/data/id"]
        assert journey["refused"]["status"] == 422


async def test_another_route_takes_it_and_a_route_named_in_the_path_checks_as_well(tmp_path):
    routes = shaped(tmp_path / "order.json", {"route": "odd"})
    async with serving(tmp_path, routes) as house:
        for route in ("", "/orders"):
            assert (await house.post("1", {"id": 7}, route)).status_code == 202
        assert (await house.service.stored("orders"), await house.service.stored("odd")) == (0, 2)
