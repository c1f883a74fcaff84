"""What a reload does to subscriptions of one process: who is disturbed, who is not, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.access.audit_trail import AuditRecorder
from app.config.check.source import ConfigSource
from app.errors import StoreUnavailable
from app.features.brokers.component import BrokersComponent
from app.features.events.routes import RoutesComponent
from app.features.spools import SpoolsComponent
from app.features.storage.component import StorageComponent
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.features.subscriptions.component import SubscriptionsComponent
from app.features.subscriptions.registry import ApiSubscriptionRegistry
from app.interfaces import notify_nothing
from app.interfaces.clock import SystemClock
from app.runtime.compose import compose
from app.runtime.reload.reloader import Reloader
from app.runtime.service import Service
from app.telemetry import Counters
from delivery_fixtures import target
from patience import PATIENT_SERVICE
from webhook_target import Received, WebhookTarget, status

__all__ = ["target"]

Settings = dict[str, Any]
SECRETS = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


def registry_of(service: Service) -> ApiSubscriptionRegistry:
    """As the API makes subscriptions."""
    subscriptions = service.part(SubscriptionsComponent)
    forget = service.part(BrokersComponent).forget
    catalog = service.part(SubscriptionCatalog)
    return ApiSubscriptionRegistry(catalog, forget=forget, look=subscriptions.look)


class House:
    def __init__(self, folder: Path, target: WebhookTarget) -> None:
        self.folder = folder
        self.file = folder / "skybridge.yaml"
        self.target = target
        self.settings: Settings = {
            "version": 1,
            "server": {"events": {"port": 0}, "admin": {"port": 0}},
            "store": {"kind": "sqlite", "path": f"{folder}/store.db"},
            "brokers": {"log": {"kind": "embedded", "path": f"{folder}/log"}},
            "routes": [{"name": "all", "to": {"broker": "log", "topic": "events"}}],
            "subscriptions": [self.subscription("one"), self.subscription("other")],
            "webhooks": {"allow_private": ["127.0.0.0/8"]},
            "timeouts": {**PATIENT_SERVICE, "not_ready": 0, "drain": "2s"},
            "reload": {"watch": 0},
        }

    def subscription(self, name: str, **more: Any) -> Settings:
        return {
            "id": name,
            "source": {"broker": "log", "topics": ["events"]},
            "start": "earliest",
            "sink": f"http://127.0.0.1:{self.target.port}/{name}",
            "handshake": "off",
            **more,
        }

    def write(self) -> None:
        self.file.write_text(json.dumps(self.settings, indent=1))

    @asynccontextmanager
    async def running(
        self, *, meanwhile: Callable[[], object] = lambda: None
    ) -> AsyncIterator[Service]:
        """``meanwhile``: what happens between its configuration and its start."""
        self.write()
        source = ConfigSource(self.file, {})
        loaded, _ = source.judge(source.read())
        meanwhile()
        self.service = compose(loaded, SystemClock(), source=source)
        await self.service.start()
        try:
            yield self.service
        finally:
            await self.service.stop()

    async def reload(self, change: Callable[[Settings], object] = lambda _: None) -> Any:
        change(self.settings)
        self.write()
        return await self.service.reloader.reload("api")

    async def post(self, number: int) -> None:
        headers = {"ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/s", "ce-type": "t"}
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{self.service.events_url}/events", headers=headers)
        assert answer.status_code == 202

    def got(self, name: str) -> list[str]:
        return [each.id for each in self.target.received if each.path == f"/{name}"]

    def runs(self) -> dict[str, object]:
        """The task of each subscription: another one is another run."""
        supervisor = self.service.part(SubscriptionsComponent).supervisor
        assert supervisor is not None
        return {name: run._task for name, run in supervisor._runs.items()}


@pytest.fixture
def house(tmp_path: Path, target: WebhookTarget) -> House:
    return House(tmp_path, target)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_one_that_did_not_change_is_not_disturbed_though_it_is_in_the_middle(
    house: House,
) -> None:
    """Issue 9.4: its attempt stays on the wire, and the event comes once."""
    answered = asyncio.Event()

    async def slowly(request: Received) -> bytes:
        if request.path == "/one":
            await answered.wait()
        return status(204)

    house.target.answer = slowly
    async with house.running():
        await house.post(1)
        await until(lambda: house.got("one") == ["1"] and house.got("other") == ["1"])
        before = house.runs()
        told = await house.reload(lambda s: s["subscriptions"][1].update(timeout="9s"))
        assert (told.outcome, told.restarted) == ("ok", ("other",))
        now = house.runs()
        assert now["one"] is before["one"]
        assert now["other"] is not before["other"]
        answered.set()
        await house.post(2)
        await until(lambda: house.got("one") == ["1", "2"] and house.got("other") == ["1", "2"])


async def test_one_that_leaves_the_file_keeps_its_place(house: House) -> None:
    """A line that was lost in an edit loses no event."""
    async with house.running():
        await house.post(1)
        await until(lambda: house.got("other") == ["1"])
        taken: list[Any] = []
        assert (
            await house.reload(lambda s: taken.append(s["subscriptions"].pop()))
        ).outcome == "ok"
        await house.post(2)
        await until(lambda: house.got("one") == ["1", "2"])
        assert house.got("other") == ["1"]
        assert (await house.reload(lambda s: s["subscriptions"].append(taken[0]))).outcome == "ok"
        await until(lambda: house.got("other") == ["1", "2"])


async def test_one_of_the_api_stays_and_hears_of_what_it_is_built_on(house: House) -> None:
    """It survives reloads; all that post restart where webhooks are bound otherwise."""
    async with house.running() as service:
        await registry_of(service).make(house.subscription("made"))
        await until(lambda: "made" in house.runs())
        before = house.runs()
        assert (await house.reload(lambda s: s.update(log={"level": "warning"}))).outcome == "ok"
        assert house.runs() == before
        await house.reload(lambda s: s["timeouts"].update(webhook_connect="1s"))
        now = house.runs()
        assert all(now[name] is not before[name] for name in ("one", "other", "made"))


async def test_a_secret_in_a_file_that_rotates_disturbs_nobody(house: House) -> None:
    secret = house.folder / "secret"
    secret.write_text(SECRETS[0])
    house.settings["subscriptions"][0]["signing"] = {"secret": f"${{file:{secret}}}"}
    async with house.running():
        before = house.runs()
        secret.write_text(SECRETS[1])
        assert (await house.reload()).outcome == "unchanged"
        assert house.runs() == before


async def test_another_schema_holds_for_replies_too(house: House) -> None:
    """Its file is only named: no setting changes."""
    schema = house.folder / "schema.json"
    schema.write_text('{"type": "object"}')
    house.settings["subscriptions"][0]["reply"] = "checked"
    to = {"broker": "log", "topic": "answers"}
    checked = {"name": "checked", "to": to, "schema": {"file": str(schema)}}
    house.settings["routes"].append(checked)
    async with house.running():
        await until(lambda: len(house.runs()) == 2)
        before = house.runs()
        assert (await house.reload()).outcome == "unchanged"
        assert house.runs() == before
        schema.write_text('{"type": "array"}')
        await house.reload()
        now = house.runs()
        assert now["one"] is not before["one"]
        assert now["other"] is before["other"]


async def test_what_cannot_be_made_is_refused_before_anything_changes(house: House) -> None:
    """A certificate that is none."""
    for name in ("cert.pem", "key.pem"):
        (house.folder / name).write_text("no certificate")
    async with house.running():
        before = house.runs()
        files = {"cert": f"{house.folder}/cert.pem", "key": f"{house.folder}/key.pem"}
        told = await house.reload(lambda s: s["subscriptions"][0].update(tls=files))
        assert told.outcome == "refused"
        assert f"subscriptions[0].tls.cert: {house.folder}/cert.pem" in told.faults[0].detail
        assert house.runs() == before
        assert (
            await house.reload(lambda s: s["subscriptions"][0].pop("tls"))
        ).outcome == "unchanged"


async def test_a_refused_reload_leaves_no_spool_behind(house: House) -> None:
    """Its spools are opened before what may still fail: they stayed, and /status told of routes that nobody has."""
    house.settings["brokers"]["main"] = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:1"}
    wanted = {
        "name": "new",
        "to": {"broker": "main", "topic": "t"},
        "spool": {"broker": "log", "max": "1MiB"},
    }
    bad = house.subscription("bad", tls={"ca": str(house.folder / "no-certificate.pem")})
    (house.folder / "no-certificate.pem").write_text("none")

    def change(settings: Settings) -> None:
        settings["routes"].append(wanted)
        settings["subscriptions"].append(bad)

    async with house.running() as service:
        assert (await house.reload(change)).outcome == "refused"
        spools = service.part(SpoolsComponent)
        await until(lambda: not spools.routes)


async def test_a_subscription_that_is_pulled_can_be_added_and_changed(house: House) -> None:
    pulled = {
        "id": "pulled",
        "source": house.settings["subscriptions"][0]["source"],
        "sink": {"pull": {}},
    }
    async with house.running():
        added = await house.reload(lambda s: s["subscriptions"].append(pulled))
        assert (added.outcome, added.faults) == ("ok", ())
        changed = await house.reload(
            lambda s: s["subscriptions"][-1].update(filters=[{"exact": {"type": "t"}}])
        )
        assert (changed.outcome, changed.restarted) == ("ok", ("pulled",))
        assert "pulled" in house.runs()


async def test_a_bound_that_is_lower_holds_at_once(house: House) -> None:
    async with house.running() as service:
        await house.reload(
            lambda s: s.update(limits={"in_flight_records": 1, "requests_in_flight": 3})
        )
        assert service.part(BrokersComponent).logs["log"].bounds.records == 1
        await house.post(1)
        await until(lambda: house.got("one") == ["1"])


async def test_a_store_that_is_away_refuses_for_now_and_the_file_is_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be said whether an id is in both; whoever looks at the file must not take that for an answer."""
    async with house.running() as service:
        store = service.part(StorageComponent).store.subscriptions

        async def away(since: int) -> None:
            raise StoreUnavailable("the store is away")

        with monkeypatch.context() as patched:
            patched.setattr(store, "changes", away)
            told = await house.reload(lambda s: s["routes"][0].update(name="every"))
        assert (told.outcome, told.refusal) == ("refused", "not-now")
        house.settings["reload"]["watch"] = "50ms"
        assert (await house.reload()).outcome == "ok"
        with monkeypatch.context() as patched:
            patched.setattr(store, "changes", away)
            house.settings["routes"][0]["name"] = "all"
            house.write()
            await until(lambda: service.reloader.last.outcome == "refused")
        await until(lambda: service.reloader.last.outcome == "ok")
        assert service.reloader.last.cause == "file"


async def test_a_key_that_changes_while_the_service_starts_is_taken(house: House) -> None:
    """The file is read long before it is first looked at: a start may wait for brokers."""
    key = house.folder / "key"
    key.write_text("the-first-key-of-the-shop")
    house.settings["reload"]["watch"] = "50ms"
    house.settings["server"]["events"]["access"] = "producers"
    house.settings["producers"] = [{"name": "shop", "keys": [f"${{file:{key}}}"]}]
    async with house.running(
        meanwhile=lambda: key.write_text("another-key-of-the-shop")
    ) as service:
        await until(lambda: service.reloader.last.cause == "file")
        assert service.reloader.last.outcome == "ok"
        assert service.reloader.files == service.reloader.named_files()


async def test_a_token_of_an_operator_that_rotates_is_refused_from_then_on(house: House) -> None:
    """A token that leaked is taken back by another file, as a key of a producer is."""
    file = house.folder / "token"
    file.write_text("the-first-token-of-ana\n\n")
    house.settings["reload"]["watch"] = "50ms"
    tokens = [{"name": "ana", "token": f"${{file:{file}}}", "scopes": ["read"]}]
    house.settings["server"]["admin"]["tokens"] = tokens

    async def status_with(token: str) -> int:
        async with httpx.AsyncClient(timeout=60) as client:
            headers = {"authorization": f"Bearer {token}"}
            answer = await client.get(f"{house.service.admin_url}/v1/config", headers=headers)
            return answer.status_code

    async with house.running() as service:
        assert await status_with("the-first-token-of-ana") == 200
        file.write_text("another-token-of-ana")
        await until(lambda: service.reloader.last.cause == "file")
        assert await status_with("the-first-token-of-ana") == 401
        assert await status_with("another-token-of-ana") == 200


async def test_a_service_without_a_source_refuses_and_looks_at_nothing(house: House) -> None:
    """It was put together by a program: there is no file to read again."""
    async with house.running() as service:
        bare = Reloader(
            None,
            service.part(SubscriptionCatalog).loaded,
            service.apply_change,
            SystemClock(),
            Counters(),
            AuditRecorder(service.part(StorageComponent).store, SystemClock(), notify_nothing),
        )
        assert bare.every == 0
        told = await bare.reload("api")
        assert (told.outcome, told.refusal) == ("refused", "invalid-configuration")


async def test_an_error_of_ours_refuses_and_ends_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at the file goes on looking."""
    async with house.running() as service:
        routes = service.part(RoutesComponent)

        async def broken(*_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(routes, "prepare", broken)
            told = await house.reload(lambda s: s["routes"][0].update(name="every"))
        assert (told.outcome, told.refusal) == ("refused", "not-now")
        assert (await house.reload()).outcome == "ok"


async def test_one_of_the_api_that_a_reload_breaks_goes_on_where_it_was(house: House) -> None:
    """Its route left the file: it is kept, reported, and loses nothing until the route is back."""
    extra = {"name": "extra", "to": {"broker": "log", "topic": "answers"}}
    house.settings["routes"].append(extra)
    async with house.running() as service:
        await registry_of(service).make(house.subscription("made", reply="extra"))
        await house.post(1)
        await until(lambda: house.got("made") == ["1"])
        assert (await house.reload(lambda s: s["routes"].remove(extra))).outcome == "ok"
        assert [each.id for each in service.part(SubscriptionCatalog).broken()] == ["made"]
        await house.post(2)
        await until(lambda: house.got("one") == ["1", "2"])
        assert (await house.reload(lambda s: s["routes"].append(extra))).outcome == "ok"
        await until(lambda: house.got("made") == ["1", "2"])
