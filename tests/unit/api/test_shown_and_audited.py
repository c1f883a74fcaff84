"""What a token is shown, and what is written down about its requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from admin_app import admin_app, client_of
from app.api.access import audit_trail
from app.api.access.callers import AccessToken, AdminAccess
from app.bindings.record import Record
from app.interfaces import Attempt, AuditFilter, EventName
from app.model.message import Partition
from app.model.scopes import SCOPES
from letters_service import FakeLettersService as LettersService
from letters_service import a_letter
from topics_service import EVENT, TOPIC, FakeTopicsService

MAIL = "ana@shop.example"
DATA = b'{"customer": {"email": "ana@shop.example"}, "total": 1.10}'
HEADERS = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"7"),
    ("ce_source", b"/s"),
    ("ce_type", b"t"),
    ("x-trace", MAIL.encode()),
)
ORDER = Record(MAIL.encode(), (*HEADERS, ("content-type", b"application/json")), DATA)
TEXT = Record(MAIL.encode(), (*HEADERS, ("content-type", b"text/plain")), MAIL.encode())
FOREIGN = Record(None, (("mail", MAIL.encode()),), MAIL.encode())
OPAQUE = Record(None, (("ce_type", b"t"), ("content-type", b"application/cloudevents+new")), MAIL.encode())  # fmt: skip
TOKENS = [AccessToken(scope, [f"token-{scope}", f"old-{scope}"], frozenset({scope})) for scope in SCOPES]  # fmt: skip
TOKENS.append(AccessToken("both", ["token-both"], frozenset({"read", "data"})))


@asynccontextmanager
async def asking(
    service: Any, name: str = "", mask: tuple[str, ...] = ()
) -> AsyncIterator[httpx.AsyncClient]:
    allowed = AdminAccess(TOKENS if name else (), mask)
    headers = {"authorization": f"Bearer {name}"} if name else {}
    async with client_of(admin_app(service, allowed), headers=headers) as client:
        yield client


@pytest.fixture
async def service() -> FakeTopicsService:
    service = FakeTopicsService()
    await service.log.create_topic("events", 1)
    service.log.submit("events", [ORDER, TEXT, FOREIGN, OPAQUE])
    return service


async def shown(service: Any, token: str, mask: tuple[str, ...] = ()) -> Any:
    async with asking(service, token, mask) as client:
        answer = await client.get(f"{TOPIC}/records?raw=true")
        assert answer.status_code == 200, answer.text
        tail = await client.get(f"{TOPIC}/tail?from=earliest&follow=false&raw=true")
        if token == "token-read":
            assert MAIL not in answer.text + tail.text
        return answer.json()["messages"]


async def test_without_data_and_without_a_mask_no_data_is_shown(service: FakeTopicsService) -> None:
    """Attributes tell which event it is; keys and headers may hold anything."""
    for message in await shown(service, "token-read"):
        assert message["withheld"] == "data"
        assert message["key"] is None
        assert "record" not in message
    order = (await shown(service, "token-read"))[0]
    assert order["event"] == {
        "specversion": "1.0", "id": "7", "source": "/s", "type": "t",
        "datacontenttype": "application/json",
    }  # fmt: skip


async def test_a_mask_hides_what_it_names_and_all_that_is_not_json(
    service: FakeTopicsService,
) -> None:
    """Where nobody can tell the values apart, none is shown."""
    order, text, foreign, opaque = await shown(service, "token-read", ("/customer/email",))
    assert order["event"]["data"] == {"customer": {"email": "***"}, "total": 1.1}
    assert order["withheld"] == "masked"
    for message in (text, foreign, opaque):
        assert message["withheld"] == "data"


async def test_with_data_everything_is_shown_whatever_the_mask(service: FakeTopicsService) -> None:
    order, text, foreign, opaque = await shown(service, "token-both", ("/customer/email",))
    assert order["event"]["data"]["customer"]["email"] == MAIL
    assert order["key"] == MAIL
    assert order["record"]["body"] == DATA.decode()
    assert "withheld" not in order
    assert text["event"]["data"] == MAIL
    assert foreign["headers"] == [["mail", MAIL]]
    assert opaque["body_base64"]


async def test_answers_of_webhooks_are_shown_with_data_alone(tmp_path: Any) -> None:
    """A target may answer with what it was sent."""
    service = LettersService(tmp_path)
    await service.store.start()
    await service.store.letters.add(a_letter(1, detail=f"400 {MAIL} is no customer"))
    service.remembered.append(
        Attempt(subscription="billing", partition=Partition("orders", 0), position="1",
                event=EventName("1", "/s"), number=1, started_ms=1, duration_ms=1,
                outcome="retry", detail=f"500 {MAIL}")
    )  # fmt: skip
    found = {}
    for token in ("token-read", "token-both"):
        async with asking(service, token) as client:
            paths = ("/v1/dead-letters", "/v1/dead-letters/1", "/v1/attempts")
            found[token] = [(await client.get(path)).text for path in paths]
    assert all(MAIL in text for text in found["token-both"])
    assert not any(MAIL in text for text in found["token-read"])
    assert all("not shown: the token lacks the scope data" in text for text in found["token-read"])
    await service.store.stop()


async def test_the_previous_token_works_too(service: FakeTopicsService) -> None:
    """Callers change over one by one."""
    for token, status in (("old-read", 200), ("older-read", 401), ("token-", 401)):
        async with asking(service, token) as client:
            assert (await client.get("/v1/audit")).status_code == status


async def test_readiness_tells_its_causes_to_readers_alone(service: Any) -> None:
    async def readiness() -> dict[str, Any]:
        return {}

    service.readiness = readiness
    for token, told in (("token-read", True), ("token-metrics", False)):
        async with asking(service, token) as client:
            assert ("roles" in (await client.get("/readyz")).json()) is told


async def entries(service: Any, **choice: Any) -> list[tuple[str, str, str, int | None]]:
    found = await service.store.audit.find(AuditFilter(**choice))
    return [(each.who, each.operation, each.target, each.status) for each in found]


async def test_a_change_that_fails_is_audited_with_its_status(service: FakeTopicsService) -> None:
    """Who tried, too."""
    async with asking(service, "token-operate") as client:
        await client.post("/v1/topics/log/nowhere/records", headers=EVENT)
        await client.post(f"{TOPIC}/records", content=b"{", headers={"content-type": "text/x"})
        assert (await client.post(f"{TOPIC}/records", headers=EVENT)).status_code == 201
    assert await entries(service, kind="change") == [
        ("operate", "produce", "log/events", 201),
        ("operate", "produce", "log/events", 400),
        ("operate", "produce", "log/nowhere", 404),
    ]


async def test_a_change_that_breaks_is_audited_as_a_500(service: FakeTopicsService) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    service.log.metadata = broken  # type: ignore[method-assign]
    async with asking(service, "token-operate") as client:
        with pytest.raises(ZeroDivisionError):
            await client.post(f"{TOPIC}/records", headers=EVENT)
    assert await entries(service) == [("operate", "produce", "log/events", 500)]


async def test_without_a_store_nothing_is_changed_and_no_data_shown(
    service: FakeTopicsService,
) -> None:
    """A change that nobody could account for does not happen; state can still be read."""
    service.store.trouble = "the disk is gone"
    before = await service.log.metadata(["events"])
    async with asking(service) as client:
        refused = await client.post(f"{TOPIC}/records", headers=EVENT)
        assert (refused.status_code, refused.json()["type"]) == (
            503, "urn:skybridge:problem:store-unavailable",
        )  # fmt: skip
        assert (await client.get(f"{TOPIC}/records")).status_code == 503
        assert (await client.get(TOPIC)).status_code == 200
    assert await service.log.metadata(["events"]) == before
    async with asking(service, "token-read") as client:
        assert (await client.get(f"{TOPIC}/records")).status_code == 200
        assert (await client.post(f"{TOPIC}/records", headers=EVENT)).status_code == 403


async def test_only_looks_that_show_data_are_audited(service: FakeTopicsService) -> None:
    await shown(service, "token-read")
    assert await entries(service) == []
    await shown(service, "token-read", ("/customer/email",))
    assert await entries(service, kind="look") == [
        ("read", "tail", "log/events", 200),
        ("read", "peek", "log/events", 200),
    ]


async def test_every_entry_is_told_to_operators(service: FakeTopicsService) -> None:
    """As an operator event, whose subject is the operation."""
    told: list[Any] = []
    service.notify = lambda *event: told.append(event)  # type: ignore[method-assign]
    async with asking(service, "token-data") as client:
        await client.post(f"{TOPIC}/records", headers=EVENT)
    async with asking(service) as client:
        await client.get(f"{TOPIC}/records")
    assert [(kind, subject, each["who"], each["status"]) for kind, subject, each in told] == [
        ("audited-refusal", "produce", "data", 403),
        ("audited-look", "peek", "loopback", 200),
    ]


async def test_a_consumer_is_noted_once_an_hour(
    service: FakeTopicsService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand receives a minute must not fill the audit; the memory of it is bounded."""
    monkeypatch.setattr(audit_trail, "USES", 2)
    async with asking(service, "token-pull") as client:

        async def receive(name: str) -> None:
            await client.post(f"/v1/subscriptions/{name}:acknowledge", json={"tokens": "x"})

        for _ in range(3):
            await receive("a")
        assert len(await entries(service)) == 1
        await service.clock.advance(audit_trail.HOUR)
        await receive("a")
        assert len(await entries(service)) == 2
        for name in ("b", "c", "a"):
            await receive(name)
        assert [target for _, _, target, _ in await entries(service)] == ["a", "c", "b", "a"]


async def test_requests_that_fail_alike_push_no_change_out(service: FakeTopicsService) -> None:
    """With a right for changes, and without: one entry for each, with a count."""
    async with asking(service, "token-operate") as client:
        assert (await client.post(f"{TOPIC}/records", headers=EVENT)).status_code == 201
        for _ in range(7):
            await client.post("/v1/topics/log/nowhere/records", headers=EVENT)
            await client.get("/v1/audit")
        assert (await client.post(f"{TOPIC}/records", headers=EVENT)).status_code == 201
    async with asking(service) as client:
        found = (await client.get("/v1/audit")).json()["entries"]
    shown = [(each["kind"], each["status"], each["count"]) for each in found]
    assert shown == [
        ("change", 201, 1),
        ("refusal", 403, 7),
        ("change", 404, 7),
        ("change", 201, 1),
    ]
    assert found[1]["at_ms"] <= found[1]["last_ms"]
    assert found[0]["last_ms"] is None


async def test_pages_of_the_audit_lead_to_the_first_entry(service: FakeTopicsService) -> None:
    async with asking(service) as client:
        for _ in range(5):
            await client.post(f"{TOPIC}/records", headers=EVENT)
        seen, path = [], "/v1/audit?kind=change&limit=2"
        while path:
            page = (await client.get(path)).json()
            seen += [each["id"] for each in page["entries"]]
            path = page["next"]
        assert seen == [5, 4, 3, 2, 1]
        unknown = await client.get("/v1/audit?whom=ana")
        assert unknown.status_code == 422
