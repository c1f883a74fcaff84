"""Where an event is: one event for each fate that the code has, in a service with its real log, store and endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, get_args
from uuid import uuid4

import httpx
import pytest
from typer.testing import CliRunner

from app.api.find.answers import Fate
from app.cli.commands import app
from app.model.secret import HIDDEN
from configuration import route
from service import Service
from webhook_target import Received, WebhookTarget, status

ID = "orders/2026/1"  # ids hold slashes
KEY = "the-key-of-the-shop-0"
TOKEN = "the-token-of-the-endpoint"
SECRET = "ana@shop.example"  # in the data of every event
READER, MASTER = "token-that-may-read-only", "token-that-may-do-everything"
ANSWERS = {
    "retrying": status(503, "Set-Cookie: session=1", body=f"no, {TOKEN}".encode()),
    "parked": status(409),
    "dead-letter": status(415, body=b"not this"),
    "redriven": status(415),
    "unknown": status(415),
    "410": status(410),
}
SCHEDULES = {"retrying": ["1h"], "parked": ["10ms", "1h"]}
PULLED = {"queued", "pulled"}
CASES = ("delivered", "waiting", *ANSWERS, *sorted(PULLED), "acknowledged")
AGED = ("expired", "in-time")
LONG_AGO, FAR_OFF = "2020-01-01T00:00:00Z", "2120-01-01T00:00:00Z"
Start = Callable[[dict[str, Any]], Awaitable[Service]]
Fact = Callable[[dict[str, Any]], bool]


def subscription(case: str, target: WebhookTarget) -> dict[str, Any]:
    """It takes the events of one source."""
    found: dict[str, Any] = {
        "id": f"to-{case}",
        "source": {"broker": "log", "topics": ["orders"]},
        "start": "earliest",
        "filters": [{"exact": {"source": f"/{case}"}}],
    }
    if case in PULLED or case == "acknowledged":
        return found | {"sink": {"pull": {}}}
    return found | {
        "sink": f"{target.url}?of={case}",
        "handshake": "off",
        "paused": case == "waiting",
        "expirytime": "honour",
        "auth": {"kind": "bearer", "token": TOKEN},
        "retry": {"schedule": SCHEDULES.get(case, ["1h"]), "hold": 1},
    }


def settings(target: WebhookTarget) -> dict[str, Any]:
    tokens = [{"name": "reader", "token": READER, "scopes": ["read"]}]
    return {
        "server": {"events": {"access": "producers"}, "admin": {"token": MASTER, "tokens": tokens}},
        "producers": [{"name": "shop", "keys": [KEY]}],
        "routes": [route("orders", name="orders", filters=[{"prefix": {"type": "order."}}],
                         key={"mapper": "partitionkey", "missing": "none"})],
        "subscriptions": [subscription(case, target) for case in (*CASES, *AGED)],
    }  # fmt: skip


def event(case: str, event_id: str = ID, **more: Any) -> dict[str, Any]:
    return more | {
        "specversion": "1.0",
        "id": event_id,
        "source": f"/{case}",
        "type": "order.created",
        "subject": "a subject",
        "partitionkey": case,
        "data": {"mail": SECRET},
    }


def answer_of(request: Received) -> bytes:
    return ANSWERS.get(request.path.rpartition("=")[2], status(204))


def sent_is_stored(found: dict[str, Any]) -> bool:
    attempts = found["attempts"]
    return bool(attempts) and all(each["request"] for each in attempts)


def by_a_row(found: dict[str, Any]) -> bool:
    return not found["computed"]


class House:
    def __init__(self, service: Service, http: httpx.AsyncClient) -> None:
        self.service, self.http = service, http

    async def send(self, *events: dict[str, Any]) -> None:
        headers = {
            "content-type": "application/cloudevents-batch+json",
            "authorization": f"Bearer {KEY}",
            "skybridge-producer": "somebody else",
        }
        url = f"{self.service.events_url}/events"
        answer = await self.http.post(url, content=json.dumps(events), headers=headers)
        assert answer.status_code == 202, answer.text

    async def ask(self, method: str, path: str, token: str = MASTER, **more: Any) -> Any:
        url = f"{self.service.admin_url}{path}"
        headers = {"authorization": f"Bearer {token}"}
        answer = await self.http.request(method, url, headers=headers, **more)
        assert answer.is_success, answer.text
        return answer.json()

    async def find(self, token: str = MASTER, **query: Any) -> dict[str, Any]:
        return await self.ask("GET", "/v1/events", token, params={"id": ID} | query)

    async def fate(self, case: str, **query: Any) -> dict[str, Any]:
        """Of the one event of this case, at its own subscription."""
        (found,) = (await self.find(source=f"/{case}", **query))["events"]
        (fate,) = [each for each in found["subscriptions"] if each["subscription"] == f"to-{case}"]
        return fate

    async def until(self, case: str, fate: str, *facts: Fact) -> dict[str, Any]:
        """Rows of one event are stored one after another: wait until all of them say so."""
        async with asyncio.timeout(120):
            while True:
                found = await self.fate(case)
                if found["fate"] == fate and all(fact(found) for fact in facts):
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture
async def house(started: Start, target: WebhookTarget) -> AsyncIterator[House]:
    target.answer = answer_of
    service = await started(settings(target))
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        yield House(service, http)


async def test_every_fate_is_told(house: House) -> None:
    """Issue: a test walks through every fate that the code has."""
    await house.send(*(event(case) for case in CASES))
    walked = {"filtered"}

    await house.until("delivered", "delivered", by_a_row)
    walked.add("delivered")

    (found,) = (await house.find(source="/delivered"))["events"]
    others = [each for each in found["subscriptions"] if each["subscription"] != "to-delivered"]
    assert {each["fate"] for each in others} == {"filtered"}
    assert all(each["computed"] for each in others)
    assert others[0]["clause"] == "exact source '/waiting'"
    assert others[0]["because"] == "source is '/delivered'"
    assert "would have been filtered by" in others[0]["detail"]
    assert (found["producer"], found["subject"], found["type"]) == (
        "shop",
        "a subject",
        "order.created",
    )
    assert found["route"]["name"] == "orders"
    assert found["route"]["why"] == "prefix type 'order.'"
    (place,) = found["places"]
    assert (place["broker"], place["topic"], place["by"]) == ("log", "orders", "route orders")
    assert place["time_ms"] == found["received_ms"]

    waiting = await house.fate("waiting")
    assert (waiting["fate"], waiting["computed"], waiting["state"]) == ("waiting", True, "paused")
    walked.add("waiting")

    retrying = await house.until("retrying", "retrying", sent_is_stored)
    assert retrying["next_attempt_ms"] > retrying["attempts"][0]["started_ms"]
    walked.add("retrying")

    await house.until("410", "waiting", lambda found: "410" in found["detail"])

    parked = await house.until("parked", "parked", lambda found: len(found["attempts"]) == 2)
    assert parked["next_attempt_ms"]
    walked.add("parked")
    await house.send(event("parked", "orders/2026/2"))
    async with asyncio.timeout(120):
        while not (behind := (await house.fate("parked", id="orders/2026/2"))["behind"]):
            await asyncio.sleep(0.05)
    assert behind["id"] == ID

    letter = await house.until("dead-letter", "dead-letter", sent_is_stored)
    assert letter["dead_letter"]
    walked.add("dead-letter")

    await house.until("redriven", "dead-letter")
    await house.ask("POST", "/v1/subscriptions/to-redriven:pause", json={"cause": "for a test"})
    async with asyncio.timeout(120):
        while (await house.fate("redriven"))["state"] != "paused":
            await asyncio.sleep(0.05)
    await house.ask(
        "POST", "/v1/dead-letters:redrive", json={"subscription": "to-redriven", "dry_run": False}
    )
    assert (await house.fate("redriven"))["fate"] == "redriven"
    walked.add("redriven")

    await house.until("unknown", "dead-letter", sent_is_stored)
    await house.ask(
        "POST", "/v1/dead-letters:discard", json={"subscription": "to-unknown", "dry_run": False}
    )
    gone = await house.fate("unknown")
    assert (gone["fate"], gone["computed"]) == ("unknown", True)
    walked.add("unknown")

    assert (await house.until("queued", "queued"))["consumer"] is None
    walked.add("queued")
    await house.ask("POST", "/v1/subscriptions/to-pulled:receive", json={"max_wait": 60})
    pulled = await house.fate("pulled")
    assert (pulled["fate"], pulled["consumer"], pulled["computed"]) == ("pulled", "token", False)
    assert pulled["locked_until_ms"]
    walked.add("pulled")

    received = await house.ask(
        "POST", "/v1/subscriptions/to-acknowledged:receive", json={"max_wait": 60}
    )
    tokens = [each["broker_properties"]["lock_token"] for each in received["events"]]
    await house.ask(
        "POST", "/v1/subscriptions/to-acknowledged:acknowledge", json={"tokens": tokens}
    )
    assert (await house.until("acknowledged", "pulled"))["computed"]

    walked.add(await finished_by_age(house))

    assert walked == set(get_args(Fate))


async def finished_by_age(house: House) -> str:
    await house.send(event("expired", expirytime=LONG_AGO), event("in-time", expirytime=FAR_OFF))
    expired = await house.until("expired", "expired")
    assert expired["computed"]
    assert (
        expired["detail"]
        == f"its expirytime {LONG_AGO} had passed when it arrived, so it was never tried"
    )
    await house.until("in-time", "delivered")
    return "expired"


async def test_attempts_show_what_was_sent_and_answered_without_secrets(house: House) -> None:
    await house.send(event("retrying"))
    (attempt,) = (await house.until("retrying", "retrying", sent_is_stored))["attempts"]
    sent, answer = attempt["request"], attempt["answer"]
    headers = {each["name"].lower(): each["value"] for each in sent["headers"]}
    assert sent["line"] == "POST /hook?of=retrying HTTP/1.1"
    assert headers["ce-id"] == ID
    assert "skybridge-producer" not in headers
    assert headers["authorization"] == HIDDEN
    assert json.loads(sent["body"]) == {"mail": SECRET}
    assert answer["line"] == "HTTP/1.1 503"
    assert {each["name"]: each["value"] for each in answer["headers"]}["Set-Cookie"] == HIDDEN
    assert answer["body"] == f"no, {HIDDEN}"
    assert attempt["kept_until_ms"] == attempt["started_ms"] + 24 * 3_600_000
    assert TOKEN not in json.dumps(attempt)


async def test_without_the_scope_data_values_and_bodies_are_left_out(house: House) -> None:
    await house.send(event("retrying"))
    await house.until("retrying", "retrying", sent_is_stored)
    found = await house.fate("retrying", token=READER)
    (attempt,) = found["attempts"]
    assert attempt["request"]["withheld"]
    assert {each["name"] for each in attempt["request"]["headers"]} > {"ce-id", "Authorization"}
    assert {each["value"] for each in attempt["request"]["headers"]} == {None}
    assert (attempt["request"]["body"], attempt["answer"]["body"]) == (None, None)
    whole = json.dumps(await house.find(READER))
    assert SECRET not in whole
    assert TOKEN not in whole


async def test_an_answer_says_how_far_it_looked(house: House) -> None:
    await house.send(event("delivered"))
    nothing = await house.find(id="no/such/event")
    assert nothing["events"] == []
    assert {each["where"] for each in nothing["looked"]} == {
        "store attempts", "store dead_letters", "store parked", "store pulled", "log",
    }  # fmt: skip
    assert all(each["complete"] for each in nothing["looked"])
    (found,) = (await house.find())["events"]
    later = found["received_ms"] + 1
    assert (await house.find(since=later))["events"] == []
    assert (await house.find(since=found["received_ms"]))["events"] != []


async def test_the_verb_tells_a_timeline(house: House) -> None:
    await house.send(event("retrying"))
    await house.until("retrying", "retrying", sent_is_stored)
    more = ["--server", house.service.admin_url, "--token", MASTER]
    run = CliRunner().invoke
    told = await asyncio.to_thread(run, app, ["find", ID, "--since", "1h", *more])
    assert told.exit_code == 0, told.output
    lines = [line.strip() for line in told.output.splitlines()]
    assert lines[0] == f"event {ID} of /retrying  order.created"
    assert lines[1].endswith("came from shop")
    assert lines[2] == "route orders: prefix type 'order.'"
    assert any(line.startswith("to-retrying: retrying  attempt 1 failed") for line in lines)
    assert "> POST /hook?of=retrying HTTP/1.1" in lines
    assert "< HTTP/1.1 503" in lines
    assert "to-delivered: filtered*  would have been filtered by exact source '/delivered'" in lines
    whole = await asyncio.to_thread(run, app, ["find", ID, "--json", *more])
    assert json.loads(whole.output)["events"][0]["id"] == ID
    missing = await asyncio.to_thread(run, app, ["find", "nothing", *more])
    assert missing.exit_code == 1
    assert "looked in log from its beginning" in missing.output
    wrong = await asyncio.to_thread(run, app, ["find", ID, "--since", "soon", *more])
    assert wrong.exit_code == 2


def spooling(kind: str, address: str, when: str) -> dict[str, Any]:
    """A route to a broker, with a spool."""
    addresses = {
        "kafka": {"bootstrap_servers": address},
        "rabbitmq": {"addresses": address},
        "pulsar": {"service_url": f"pulsar://{address}", "admin_url": f"http://{address}"},
    }
    topics = {"create": True, "partitions": 1}
    return {
        "server": {"events": {"port": 0}, "admin": {"port": 0}},
        "brokers": {
            "log": {"kind": "embedded", "path": "./log"},
            "main": {"kind": kind, "topics": topics, **addresses[kind]},
        },
        "routes": [
            {
                "name": "orders",
                "filters": [{"prefix": {"type": "order."}}],
                "to": {"broker": "main", "topic": f"orders-{uuid4().hex}"},
                "spool": {"broker": "log", "when": when, "max": "1MiB"},
            }
        ],
        "timeouts": {"not_ready": "0s"},
    }


async def places_of(house: House) -> list[dict[str, Any]]:
    (found,) = (await house.find())["events"]
    assert found["route"]["name"] == "orders"
    return sorted(found["places"], key=lambda each: each["kind"])


@pytest.mark.parametrize("kind", ["kafka", "rabbitmq", "pulsar"])
async def test_an_event_that_waits_in_a_spool_is_found_there(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its record is written for the target, whatever kind of broker that is."""
    monkeypatch.chdir(tmp_path)
    service = await started(spooling(kind, "127.0.0.1:1", "outage"))
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        house = House(service, http)
        await house.send(event("waiting"))
        (place,) = await places_of(house)
        assert (place["kind"], place["topic"], place["by"]) == (
            "spool",
            "__spool.orders",
            "route orders",
        )
        assert place["waits"] is True
        run = CliRunner().invoke
        told = await asyncio.to_thread(run, app, ["find", ID, "--server", service.admin_url])
        assert "by route orders  waits in the spool" in told.output


@pytest.mark.kafka
async def test_an_event_that_left_its_spool_is_found_at_both_places(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: str
) -> None:
    monkeypatch.chdir(tmp_path)
    service = await started(spooling("kafka", kafka, "always"))
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        house = House(service, http)
        await house.send(event("waiting"))
        async with asyncio.timeout(120):
            while [each["waits"] for each in await places_of(house)] != [None, False]:
                await asyncio.sleep(0.05)
        there, spool = await places_of(house)
        assert (there["kind"], there["by"]) == ("kafka", "route orders")
        assert spool["kind"] == "spool"
