"""Why an event took its route, as ``find`` shows it: a filter counts only if it was evaluated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from app.cli.commands import app
from configuration import route, subscription
from sending import BATCH, STRUCTURED, event_headers
from service import Service
from waiting import until
from webhook_target import Received, WebhookTarget, status

FREE, LIMITED = "the-key-of-the-free-1", "the-key-of-the-limited"
NAMED = "the request named the route, so its filters were not evaluated"
Start = Callable[[dict[str, Any]], Awaitable[Service]]


def answer(request: Received) -> bytes:
    """Answer each event of type ask with an event of type order, which also matches a filter."""
    if request.header("ce-type") != "ask":
        return status(204)
    event = {"specversion": "1.0", "id": "reply", "source": "/answers", "type": "order"}
    return status(
        200, "Content-Type: application/cloudevents+json", body=json.dumps(event).encode()
    )


def settings(folder: Path, target: WebhookTarget) -> dict[str, Any]:
    """Return routes to one topic, so that the filters of another route also lead there."""
    schema = folder / "order.json"
    schema.write_text(json.dumps({"required": ["total"]}))
    taken_by = {"file": str(schema), "on_invalid": {"route": "other"}}
    event = {"id": "{header:x-id}", "type": "{header:x-type}", "source": "/webhook"}
    hook = {"verify": {"kind": "none"}, "event": event}
    may = {"routes": ["orders", "asked"]}
    return {
        "server": {"events": {"access": "producers"}},
        "producers": [
            {"name": "free", "keys": [FREE]},
            {"name": "limited", "keys": [LIMITED], "may": may},
        ],
        "routes": [
            route("orders", name="orders", filters=[{"exact": {"type": "order"}}]),
            route(
                "orders", name="checked", filters=[{"exact": {"type": "check"}}], schema=taken_by
            ),
            route("orders", name="asked", filters=[{"exact": {"type": "ask"}}]),
            route("orders", name="other"),
        ],
        "intakes": [
            {"name": "fixed", "route": "other", **hook},
            {"name": "ruled", **hook},
        ],
        "subscriptions": [subscription("hook", target.url, "orders", reply="other")],
    }


class Finder:
    def __init__(self, service: Service, http: httpx.AsyncClient) -> None:
        self.service, self.http = service, http

    async def post(self, path: str, key: str = FREE, **more: Any) -> None:
        headers = {"authorization": f"Bearer {key}", **more.pop("headers")}
        url = f"{self.service.events_url}{path}"
        posted = await self.http.post(url, headers=headers, **more)
        assert posted.status_code == 202, posted.text

    async def send(self, event_id: str, type_: str, path: str = "/events", key: str = FREE) -> None:
        forged = {"skybridge-route": "asked", "skybridge-intake": "ruled"}
        headers = {**event_headers(event_id, type=type_), **forged}
        await self.post(path, key, headers=headers)

    async def found(self, event_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"{self.service.admin_url}/v1/events", params={"id": event_id})
        (found,) = answer.json()["events"]
        return dict(found)

    async def route(self, event_id: str) -> tuple[str, bool, str, int]:
        """Return the route, whether it was computed, why it was taken, and its evaluated filters."""
        taken = (await self.found(event_id))["route"]
        return taken["name"], taken["computed"], taken["why"], len(taken["filters"])


@pytest.fixture
async def finder(started: Start, tmp_path: Path, target: WebhookTarget) -> AsyncIterator[Finder]:
    target.answer = answer
    service = await started(settings(tmp_path, target))
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        yield Finder(service, http)


async def test_a_route_that_the_rules_chose_is_explained_by_its_filters(finder: Finder) -> None:
    await finder.send("1", "order")
    await finder.send("2", "nothing")
    assert await finder.route("1") == ("orders", True, "exact type 'order'", 1)
    assert await finder.route("2") == ("other", True, "the route takes every event", 0)


async def test_a_route_that_the_request_named_is_explained_by_no_filter(finder: Finder) -> None:
    """Its filters match, and those of another route to the same topic do too."""
    await finder.send("own", "order", "/events/orders")
    await finder.send("else", "order", "/events/other")
    document = {"specversion": "1.0", "source": "/s", "type": "order"}
    one, two = ({**document, "id": each} for each in ("structured", "batch"))
    await finder.post("/events/other", headers=STRUCTURED, content=json.dumps(one))
    await finder.post("/events/other", headers=BATCH, content=json.dumps([two]))
    assert await finder.route("own") == ("orders", False, NAMED, 0)
    for event_id in ("else", "structured", "batch"):
        assert await finder.route(event_id) == ("other", False, NAMED, 0)
    places = (await finder.found("else"))["places"]
    assert {each["by"] for each in places} == {"route other"}


async def test_the_filters_of_a_named_route_count_for_a_producer_with_limited_rights(
    finder: Finder,
) -> None:
    await finder.send("1", "order", "/events/orders", LIMITED)
    name, computed, why, filters = await finder.route("1")
    assert (name, computed, filters) == ("orders", False, 1)
    assert why == (
        "the request named the route, and the producer has limited rights, so its filters count: "
        "exact type 'order'"
    )


async def test_an_intake_with_a_fixed_route_evaluates_no_filter(finder: Finder) -> None:
    for name in ("fixed", "ruled"):
        await finder.post(f"/in/{name}", headers={"x-id": name, "x-type": "order"})
    why = "intake fixed named the route, so its filters were not evaluated"
    assert await finder.route("fixed") == ("other", False, why, 0)
    assert await finder.route("ruled") == ("orders", True, "exact type 'order'", 1)
    for name in ("fixed", "ruled"):
        found = await finder.found(name)
        assert (found["intake"], found["producer"]) == (name, None)
        assert found["producer_claimed"] is False
    printed = await asyncio.to_thread(
        CliRunner().invoke, app, ["find", "fixed", "--server", finder.service.admin_url]
    )
    assert "came through intake fixed" in printed.stdout
    assert f"route other: {why}" in printed.stdout


async def test_a_subscription_names_the_route_of_replies(finder: Finder) -> None:
    await finder.send("1", "ask")

    async def stored() -> bool:
        answer = await finder.http.get(
            f"{finder.service.admin_url}/v1/events", params={"id": "reply"}
        )
        return bool(answer.json()["events"])

    await until(stored, "the reply in its topic")
    name, computed, why, filters = await finder.route("reply")
    assert (name, computed, filters) == ("other", False, 0)
    named = "a subscription named the route of its replies"
    assert why == f"{named}, so its filters were not evaluated"


async def test_data_that_fails_its_schema_is_explained_by_the_schema(finder: Finder) -> None:
    await finder.send("1", "check")
    name, computed, why, filters = await finder.route("1")
    assert (name, computed, filters) == ("other", True, 0)
    assert why == "the data does not match the schema of route checked"


async def test_the_recorded_route_stays_after_a_reload(
    finder: Finder, tmp_path: Path, target: WebhookTarget
) -> None:
    await finder.send("1", "order", "/events/other")
    whole = json.loads(finder.service.file.read_text())
    whole["routes"][-1]["to"]["topic"] = "elsewhere"
    finder.service.file.write_text(json.dumps(whole))
    assert (await finder.service.reload()).outcome == "ok"
    name, computed, why, _ = await finder.route("1")
    assert (name, computed) == ("other", False)
    assert why == f"{NAMED}; the present configuration leads elsewhere"
