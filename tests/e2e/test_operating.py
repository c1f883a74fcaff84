"""What an operator asks of a running service, and what subscriptions of other systems' records need: over sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import exits
from child_service import run
from service import Service
from waiting import until
from webhook_target import Received, WebhookTarget, status

Started = Callable[[dict[str, Any]], Awaitable[Service]]
KEY = "the-gateway-key-of-billing"


def settings(target: WebhookTarget, *subscriptions: dict[str, Any]) -> dict[str, Any]:
    usual = {
        "source": {"broker": "log", "topics": ["events"]},
        "start": "earliest",
        "sink": target.url,
        "handshake": "off",
        "retry": {"schedule": ["50ms"] * 5},
    }
    return {
        "subscriptions": [usual | each for each in subscriptions],
        "timeouts": {"drain": "2s"},
    }


async def test_status_names_what_needs_a_person_and_the_command_that_mends_it(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    """The command that is printed is run as it stands: afterwards nothing needs a person."""
    gone = {"id": "gone", "sink": f"{target.url}/gone"}
    target.answer = lambda one: status(410 if one.path.endswith("/gone") else 204)
    service = await started(settings(target, {"id": "well"}, gone))
    await service.send("1")
    await until(lambda: len(target.received) >= 2)
    server = ("--server", service.admin_url)
    found: dict[str, Any] = {"attention": []}
    async with asyncio.timeout(240):
        while not found["attention"]:
            code, said, errors = await run(tmp_path, "status", "--json", *server)
            found = json.loads(said)
    assert (code, errors) == (exits.FAILED, "")
    (route,), subscriptions = found["routes"], {each["id"]: each for each in found["subscriptions"]}
    assert (route["events"], route["per_second"]) == (1, 0.0)
    assert subscriptions["gone"]["answers"] == {"410": 1}
    assert set(found["disks"]) == {str(tmp_path / "log"), str(tmp_path)}
    (first,) = {each["next"] for each in found["attention"]}
    code, said, _ = await run(tmp_path, "status", "--interval", "0", *server)
    assert (code, said.splitlines()[0]) == (exits.FAILED, "NEEDS A PERSON")
    assert f"    next: {first}" in said.splitlines()
    _, listed, _ = await run(tmp_path, "subscriptions", "list", *server)
    assert [line.split()[2] for line in listed.splitlines()] == ["STATE", "running", "disabled"]
    target.answer = lambda _: status(204)
    code, _, errors = await run(tmp_path, *first.split()[1:], *server)
    assert code == exits.OK, errors
    async with asyncio.timeout(240):
        while (await run(tmp_path, "status", "--interval", "0", *server))[0] != exits.OK:
            pass


async def test_tail_explains_each_event_of_a_subscription(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    """Filtered events leave a trace on demand; times and values of the data are compared."""
    filters = [
        {"sql": "TIME(time) >= TIME('2026-01-01T00:00:00Z')"},
        {"sql": "DATA('/status') IN ('paid', 'sent')"},
    ]
    service = await started(settings(target, {"id": "picky", "filters": filters}))
    await service.send("old", '{"status": "paid"}', time="2026-01-01T00:59:59+01:00")
    await service.send("open", '{"status": "open"}', time="2026-01-01T00:00:00Z")
    await service.send("new", '{"status": "sent"}', time="2025-12-31T23:00:00.5-01:00")
    await until(lambda: target.ids == ["new"])
    words = ("tail", "--subscription", "picky", "--explain", "--from", "earliest", "--no-follow")
    server = ("--server", service.admin_url)
    code, said, errors = await run(tmp_path, *words, "--json", *server)
    assert code == exits.OK, errors
    told = {each["event"]["id"]: each for each in map(json.loads, said.splitlines())}
    verdicts = {name: each["verdict"] for name, each in told.items()}
    assert verdicts == {"old": "filtered", "open": "filtered", "new": "wanted"}
    passes = {name: [one["passes"] for one in each["filters"]] for name, each in told.items()}
    assert passes == {"old": [False, True], "open": [True, False], "new": [True, True]}
    code, said, _ = await run(tmp_path, *words, *server)
    assert "DATA('/status') is 'open'" in said
    code, _, errors = await run(tmp_path, "tail", "events", "--explain", *server)
    assert (code, "--explain needs --subscription" in errors) == (exits.SETUP, True)


async def test_headers_of_a_subscription_are_sent_and_never_shown(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    """With the question for consent too; what echoes a secret is masked; a changed file is read again."""
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    target.answer = lambda one: status(415, body=one.header("x-gateway-key").encode())
    headers = {"x-tenant": "eu", "x-gateway-key": f"${{file:{file}}}"}
    one = {"id": "one", "headers": headers, "handshake": "ask", "retry": {"schedule": ["50ms"]}}
    service = await started(settings(target, one))
    await service.send("1", partitionkey="k")
    await until(lambda: len(target.received) == 1)
    for request in (*target.received, *target.asked):
        assert (request.header("x-tenant"), request.header("x-gateway-key")) == ("eu", KEY)
    await until(lambda: service.supervisor.attempts("one", 1))
    for path in ("/v1/subscriptions", "/v1/config", "/status", "/v1/attempts", "/v1/dead-letters"):
        assert KEY not in await service.text(path)
    (shown,) = await service.get("/v1/subscriptions")
    assert shown["document"]["headers"] == headers | {"x-tenant": "**********"}, "as it was written"
    file.write_text("another-key-of-billing")
    for number in range(2, 200):
        await service.send(str(number))
        await until(lambda n=number: len(target.received) >= n)
        if target.received[-1].header("x-gateway-key") == "another-key-of-billing":
            break
        await asyncio.sleep(0.1)  # the file is looked at once a second
    else:
        pytest.fail("the changed file was not read")


async def test_records_without_a_key_keep_the_order_of_a_value_in_their_data(
    started: Started, target: WebhookTarget
) -> None:
    """One in flight for each customer, whatever the partition; records without one do not wait."""
    let_go = asyncio.Event()
    flying: list[str] = []

    async def held(request: Received) -> bytes:
        flying.append(request.id)
        if not let_go.is_set():
            await let_go.wait()
        return status(204)

    target.answer = held
    one = {"id": "one", "order_by": {"pointer": "/customer/id"}}
    service = await started(settings(target, one))
    customers = ['{"id": "a"}', '{"id": "a"}', '{"id": 7}', '{"id": "a"}', "null", '{"id": []}']
    for number, customer in enumerate(customers):
        await service.send(str(number), f'{{"customer": {customer}}}')
    await until(lambda: len(flying) == 4)
    assert sorted(flying) == ["0", "2", "4", "5"]
    let_go.set()
    await until(lambda: len(flying) == 6)
    assert flying[4:] == ["1", "3"]


async def test_explain_knows_a_topic_that_another_system_feeds(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    foreign = {"id": "foreign", "source": {"broker": "log", "topics": ["theirs"]}}
    ordered = {"order_by": {"pointer": "/customer"}, "filters": [{"exact": {"type": "t"}}]}
    service = await started(settings(target, {"id": "own"}, foreign | ordered))
    words = ("explain", "-t", "t", "-d", '{"customer": "c7"}', "--server", service.admin_url)
    code, said, errors = await run(tmp_path, *words)
    assert code == exits.OK, errors
    lines = said.splitlines()
    at = lines.index("outside log/theirs  no route writes there; if another client does:")
    assert "foreign  gets it" in lines[at + 1]
    assert lines[at + 3].split(maxsplit=1) == ["lane", "'c7' at '/customer' in data"]
