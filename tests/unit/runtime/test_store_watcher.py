"""What one process changes, every other takes up; one without a worker serves the API all the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from app.api.subscriptions import verbs
from app.config.load.loader import load
from app.errors import BrokerUnavailable, StoreUnavailable
from app.features.brokers.component import BrokersComponent
from app.features.component import Role
from app.features.storage.component import StorageComponent
from app.features.subscriptions import store_watcher
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.features.subscriptions.component import SubscriptionsComponent
from app.interfaces.clock import SystemClock
from app.runtime.compose import compose
from app.runtime.service import Service
from app.worker.suspensions import Suspensions

DOCUMENT = {
    "id": "made",
    "source": {"broker": "main", "topics": ["events"]},
    "sink": "http://127.0.0.1:9/",
    "timeout": "100ms",
}


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_watcher, "LOOK", 0.02)
    monkeypatch.setattr(verbs, "TAKEN_WITHIN", 0.2)


@asynccontextmanager
async def served(folder: Path, *roles: Role) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service of these roles; its broker is away, which is no reason not to serve."""
    file = folder / "skybridge.yaml"
    file.write_text(
        f"""
version: 1
server: {{events: {{port: 0}}, admin: {{port: 0}}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers: {{main: {{kind: kafka, bootstrap_servers: "127.0.0.1:1"}}}}
routes: [{{name: everything, to: {{broker: main, topic: events}}}}]
webhooks: {{allow_private: ["127.0.0.0/8"], callback: "https://bridge.example"}}
timeouts: {{not_ready: 0, drain: 1s, store: 1m}}
"""
    )
    loaded = load(file, {})
    service = compose(loaded, SystemClock(), roles)
    await service.start()
    try:
        async with httpx.AsyncClient(base_url=service.admin_url, timeout=60) as client:
            yield service, client
    finally:
        await service.stop()


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_worker_takes_up_what_a_gateway_was_asked(tmp_path: Path) -> None:
    """Subscriptions and halts are rows: whoever polls the revision has them within a second."""
    async with (
        served(tmp_path, "gateway") as (_, client),
        served(tmp_path, "worker") as (worker, _),
    ):
        supervisor = worker.part(SubscriptionsComponent).supervisor
        assert supervisor is not None
        assert (await client.post("/v1/subscriptions", json=DOCUMENT)).status_code == 201
        await until(lambda: [each.id for each in supervisor.status()] == ["made"])
        status = (await client.get("/v1/subscriptions/made/status")).json()
        assert status["health"]["state"] == "elsewhere"
        await client.post("/v1/subscriptions/made:pause")
        assert (await client.get("/v1/subscriptions?state=paused")).json()[0]["id"] == "made"
        await until(lambda: "made" in worker.part(SubscriptionCatalog).halts)
        tested = (await client.post("/v1/subscriptions/made:test")).json()
        assert tested["fault"] == "connect"
        assert (await client.delete("/v1/subscriptions/made")).status_code == 200
        await until(lambda: supervisor.status() == [])


async def test_a_consent_at_any_gateway_reaches_the_worker_that_asked(tmp_path: Path) -> None:
    """Spec 5.3. It is a row: whoever polls the revision has it within a second."""
    said: list[str | None] = []
    async with served(tmp_path, "worker") as (worker, _):
        callbacks = worker.part(SubscriptionsComponent).sinks.callbacks
        assert callbacks is not None
        address = await callbacks.open("made", said.append)
        async with (
            served(tmp_path, "gateway") as (gateway, _),
            httpx.AsyncClient(base_url=gateway.events_url, timeout=60) as webhook,
        ):
            path = address.removeprefix("https://bridge.example")
            assert (await webhook.put(path)).status_code == 404
            rate = {"webhook-allowed-rate": "60"}
            assert (await webhook.post(path, headers=rate)).status_code == 200
            await until(lambda: said == ["60"])
            assert (await webhook.post(path)).status_code == 404


async def test_a_consent_that_nobody_can_look_up_is_asked_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 404 would tell the webhook that nobody wants its consent."""

    async def away(*_: object) -> bool:
        raise StoreUnavailable("away")

    async with (
        served(tmp_path, "gateway") as (gateway, _),
        httpx.AsyncClient(base_url=gateway.events_url, timeout=60) as webhook,
    ):
        assert (await webhook.get("/handshake/guess")).status_code == 404
        monkeypatch.setattr(gateway.part(StorageComponent).store.consents, "call", away)
        answer = await webhook.get("/handshake/guess")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert answer.json()["type"].endswith(":store-unavailable")


async def test_a_test_event_that_no_worker_takes_is_a_504(tmp_path: Path) -> None:
    async with served(tmp_path, "gateway") as (_, client):
        await client.post("/v1/subscriptions", json=DOCUMENT)
        answer = await client.post("/v1/subscriptions/made:test")
        assert answer.status_code == 504
        assert answer.json()["type"].endswith(":no-worker")


async def test_what_cannot_run_is_named_and_takes_nobody_out_of_service(tmp_path: Path) -> None:
    """Stored, and its broker gone from the file: said by readiness and status, and not fatal."""
    async with served(tmp_path, "worker") as (worker, client):
        document = (
            b'{"id":"lost","source":{"broker":"gone","topics":["t"]},"sink":"https://x.example/"}'
        )
        await worker.part(StorageComponent).store.subscriptions.put(
            "lost", document, expected=0, now_ms=1
        )
        await until(worker.part(SubscriptionCatalog).broken)
        role = (await client.get("/readyz")).json()["roles"]["worker"]
        assert role["ready"]
        assert any("lost is broken" in cause and "gone" in cause for cause in role["causes"])
        listed = (await client.get("/v1/subscriptions?state=broken")).json()
        assert [each["id"] for each in listed] == ["lost"]
        assert (await client.post("/v1/subscriptions/lost:test")).status_code == 409


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", b"{", 400),
        ("POST", "", b"[]", 400),
        ("POST", "", b"[" * 60_000, 400),
        ("POST", "", b"x" * 70_000, 413),
        ("PUT", "/made", b"{}", 428),
        ("PATCH", "/made", b"{}", 415),
        ("PUT", "/none", b"{}", 404),
    ],
)
async def test_bodies_that_are_none_are_refused(
    tmp_path: Path, method: str, path: str, body: bytes, status: int
) -> None:
    async with served(tmp_path, "gateway") as (_, client):
        await client.post("/v1/subscriptions", json=DOCUMENT)
        answer = await client.request(
            method,
            f"/v1/subscriptions{path}",
            content=body,
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


async def test_conditions_are_those_of_http(tmp_path: Path) -> None:
    """412 for what is another, 304 for what is the same, 201 for a PUT where there was none."""
    async with served(tmp_path, "gateway") as (_, client):
        path = "/v1/subscriptions/made"
        made = await client.put(path, json=DOCUMENT, headers={"if-none-match": "*"})
        assert (made.status_code, made.headers["location"]) == (201, path)
        etag = made.headers["etag"]
        again = await client.put(path, json=DOCUMENT, headers={"if-none-match": "*"})
        assert again.status_code == 412
        for same in (
            etag,
            f"W/{etag}",
            f'"other", W/{etag}',
        ):  # by weak comparison (RFC 9110 13.1.2)
            assert (await client.get(path, headers={"if-none-match": same})).status_code == 304
        both = await asyncio.gather(
            *(
                client.put(path, json={**DOCUMENT, "concurrency": n}, headers={"if-match": etag})
                for n in (2, 3)
            )
        )
        assert sorted(each.status_code for each in both) == [200, 412]
        assert (await client.delete(path, headers={"if-match": etag})).status_code == 412
        assert (await client.delete(path)).status_code == 200
        gone = await client.put(path, json=DOCUMENT, headers={"if-match": etag})
        assert gone.status_code == 412


async def test_a_change_that_met_trouble_is_taken_up_by_a_later_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is full for a moment leaves no group behind, nor what comes after it undone."""
    asked, declared = [], []

    async def forget(*_: Any) -> None:
        asked.append(1)
        if len(asked) < 4:
            raise BrokerUnavailable("the log is full", broker="main")

    async def declare(*given: Any) -> None:
        if given[-1] and len(asked) < 1:
            asked.append(1)
            raise BrokerUnavailable("the log is full", broker="main")
        declared.append([each.id for each in given[-1]])

    monkeypatch.setattr(BrokersComponent, "forget", forget)
    monkeypatch.setattr(BrokersComponent, "declare", declare)
    async with served(tmp_path, "worker") as (worker, _):
        stored = worker.part(StorageComponent).store.subscriptions
        await stored.put("made", json.dumps(DOCUMENT).encode(), expected=0, now_ms=1)
        await until(lambda: declared == [["made"]])
        await stored.delete("made", expected=None)
        await until(lambda: declared == [["made"], []])
        assert len(asked) == 4


async def test_no_change_is_taken_up_while_deliveries_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the store by then is for the next start."""
    looking: list[bool] = []
    async with served(tmp_path, "worker") as (worker, _):
        subscriptions = worker.part(SubscriptionsComponent)
        supervisor = subscriptions.supervisor
        assert supervisor is not None
        stop = supervisor.stop

        async def noted(drain: float) -> None:
            names = {task.get_name() for task in asyncio.all_tasks()}
            looking.append("store-changes" in names)
            await stop(drain)

        monkeypatch.setattr(supervisor, "stop", noted)
    assert looking == [False]


class NoBrokers:
    """None has a log that keeps what subscriptions have not read."""

    async def declare(self, _: Any) -> None:
        return


class Draining:
    """A supervisor whose first change takes as long as the test wants."""

    def __init__(self) -> None:
        self.suspensions = Suspensions(SystemClock())
        self.may_end = asyncio.Event()
        self.built_on: set[str] = set()
        self.applied: list[set[str]] = []

    async def apply(self, _: Any) -> None:
        taken, self.built_on = self.built_on, set()
        self.applied.append(taken)
        if len(self.applied) == 1:
            await self.may_end.wait()


async def test_what_is_built_on_other_settings_while_a_change_is_under_way_restarts_too() -> None:
    """A reload reports success: no webhook may go on with the old address guard."""
    config = SimpleNamespace(subscriptions=(), brokers={})
    made = SimpleNamespace(id="made", source=SimpleNamespace(broker="main"))
    catalog: Any = SimpleNamespace(
        loaded=SimpleNamespace(config=config), subscriptions=(made,), incarnations={}
    )
    supervisor = Draining()
    brokers: Any = NoBrokers()
    watcher = store_watcher.StoreWatcher(catalog, supervisor, brokers, SystemClock())  # type: ignore[arg-type]
    first = watcher.renew()
    await until(lambda: supervisor.applied)
    supervisor.built_on = {"made"}
    second = watcher.renew()
    supervisor.may_end.set()
    async with asyncio.timeout(60):
        await asyncio.gather(first, second)
    assert supervisor.applied == [set(), {"made"}]
    assert not watcher._is_unfinished()
