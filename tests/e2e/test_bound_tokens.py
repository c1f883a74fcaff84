"""What a bound token reaches: every operation, asked for what another team has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.api.access.operations import RULES
from app.model.scopes import SCOPES
from configuration import route
from sending import STRUCTURED
from service import Service
from waiting import until
from webhook_target import WebhookTarget, status

MASTER = "token-that-may-do-everything"
S, D, T = "/v1/subscriptions", "/subscriptions", "/v1/topics/log"
MERGE = {"content-type": "application/merge-patch+json", "if-match": "*"}
LOCK = {"tokens": ["no-such-lock"]}
BOUND = {
    "both": {"subscriptions": ["team-a.*"], "topics": ["orders"], "event_sources": ["/a/*"]},
    "id": {"subscriptions": ["team-a.*"]},
    "topic": {"topics": ["log/orders"]},
}
Start = Callable[[dict[str, Any]], Awaitable[Service]]
Step = tuple[str, str, dict[str, Any]]


def document(name: str, topic: str = "orders", **more: Any) -> dict[str, Any]:
    source = {"broker": "log", "topics": [topic]}
    return {"id": name, "source": source, "sink": "http://127.0.0.1:9/"} | more


def of(name: str) -> dict[str, Step]:
    """Operations on one subscription."""
    return {
        "subscription": ("GET", f"{S}/{name}", {}),
        "subscription_allow": ("OPTIONS", f"{S}/{name}", {}),
        "subscription_status": ("GET", f"{S}/{name}/status", {}),
        "subscription_history": ("GET", f"{S}/{name}/history", {}),
        "subscription_events": ("GET", f"{S}/{name}/events?start=earliest&follow=false", {}),
        "replace_subscription": ("PUT", f"{S}/{name}", {"json": document(name), "headers": {"if-match": "*"}}),
        "patch_subscription": ("PATCH", f"{S}/{name}", {"content": b'{"timeout": "3s"}', "headers": MERGE}),
        "delete_subscription": ("DELETE", f"{S}/{name}", {}),
        "draft_allow_one": ("OPTIONS", f"{D}/{name}", {}),
        "draft_retrieve": ("GET", f"{D}/{name}", {}),
        "draft_update": ("PUT", f"{D}/{name}", {"json": {}}),
        "draft_delete": ("DELETE", f"{D}/{name}", {}),
        "pause_subscription": ("POST", f"{S}/{name}:pause", {}),
        "resume_subscription": ("POST", f"{S}/{name}:resume", {}),
        "retry_subscription": ("POST", f"{S}/{name}:retry", {"json": {}}),
        "test_subscription": ("POST", f"{S}/{name}:test", {}),
        "replay_subscription": ("POST", f"{S}/{name}:replay", {"json": {"from": "earliest"}}),
        "replays": ("GET", f"{S}/{name}/replays", {}),
        "cancel_replays": ("DELETE", f"{S}/{name}/replays", {}),
        "cancel_replay": ("DELETE", f"{S}/{name}/replays/1", {}),
        "receive": ("POST", f"{S}/{name}:receive", {}),
        **{verb: ("POST", f"{S}/{name}:{verb}", {"json": LOCK})
           for verb in ("acknowledge", "release", "reject", "renew")},
    }  # fmt: skip


EVENT = {"ce-specversion": "1.0", "ce-id": "x", "ce-type": "t"}
OF_TOPICS: dict[str, Step] = {
    "topic": ("GET", f"{T}/payments", {}),
    "offsets": ("GET", f"{T}/payments/offsets", {}),
    "peek": ("GET", f"{T}/payments/records", {}),
    "tail": ("GET", f"{T}/payments/tail?from=earliest&follow=false", {}),
    "produce": ("POST", f"{T}/payments/records", {"headers": EVENT | {"ce-source": "/a/1"}}),
}
OF_ALL: dict[str, Step] = {
    "metrics": ("GET", "/metrics", {}),
    "audit": ("GET", "/v1/audit", {}),
    "alerts": ("GET", "/v1/alerts", {}),
    "test_alert": ("POST", "/v1/alerts/ops:test", {}),
    "configuration": ("GET", "/v1/config", {}),
    "check_configuration": ("POST", "/v1/config:check", {"json": {}}),
    "plan_configuration": ("POST", "/v1/config:plan", {"json": {}}),
    "reload_configuration": ("POST", "/v1/config:reload", {}),
}
NAMED = "subscription=team-b.fail"
LISTS: dict[str, Step] = {
    "dead_letters": ("GET", f"/v1/dead-letters?{NAMED}", {}),
    "count_dead_letters": ("GET", f"/v1/dead-letters/count?{NAMED}", {}),
    "redrive_dead_letters": ("POST", "/v1/dead-letters:redrive", {"json": {"subscription": "team-b.fail", "dry_run": False}}),
    "discard_dead_letters": ("POST", "/v1/dead-letters:discard", {"json": {"subscription": "team-b.fail", "dry_run": False}}),
    "parked": ("GET", f"/v1/parked?{NAMED}", {}),
    "parked_keys": ("GET", f"/v1/parked/keys?{NAMED}", {}),
    "attempts": ("GET", f"/v1/attempts?{NAMED}", {}),
    "create_subscription": ("POST", S, {"json": document("team-b.new", "payments")}),
}  # fmt: skip
ELSEWHERE = {  # looked at by tests of their own below
    "dead_letter", "resend_dead_letter", "count_parked", "find_events", "topics", "subscriptions", "status",
    "explain", "draft_create", "draft_query",
}  # fmt: skip
OF_NOBODY = {  # they hold nothing of a subscription or topic
    "health", "readiness", "session", "log_in", "log_out", "history", "history_live",
    "subscriptions_allow", "draft_allow",
}  # fmt: skip


class House:
    def __init__(self, service: Service, http: httpx.AsyncClient) -> None:
        self.service, self.http = service, http

    async def ask(self, step: Step, token: str = MASTER) -> httpx.Response:
        method, path, how = step
        how = dict(how)
        headers = {"authorization": f"Bearer {token}"} | how.pop("headers", {})
        return await self.http.request(
            method, self.service.admin_url + path, headers=headers, **how
        )

    async def get(self, path: str, token: str = MASTER) -> Any:
        answer = await self.ask(("GET", path, {}), token)
        assert answer.status_code == 200, answer.text
        return answer.json()


def token_of(name: str) -> str:
    return f"token-of-the-bound-{name}"


def settings(target: WebhookTarget) -> dict[str, Any]:
    tokens = [
        {"name": name, "token": token_of(name), "scopes": list(SCOPES), **bound}
        for name, bound in BOUND.items()
    ]
    teams = {"team-a": "orders", "team-b": "payments"}
    failing = {
        "start": "earliest",
        "sink": target.url,
        "handshake": "off",
        "retry": {"schedule": ["10ms", "1h"], "hold": 1},
    }
    return {
        "server": {"admin": {"token": MASTER, "tokens": tokens}},
        "routes": [
            route(topic, name=topic, filters=[{"exact": {"type": topic}}])
            for topic in teams.values()
        ],
        "subscriptions": [
            *(document(f"{team}.fail", topic, **failing) for team, topic in teams.items()),
            *(document(f"{team}.pull", topic, sink={"pull": {}}) for team, topic in teams.items()),
        ],
    }


@pytest.fixture
async def house(started: Start, target: WebhookTarget) -> AsyncIterator[House]:
    target.answer = lambda _: status(415)
    service = await started(settings(target))
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        house = House(service, http)
        for number, topic in enumerate(("orders", "payments")):
            event = {"specversion": "1.0", "id": "same", "source": f"/{topic}", "type": topic}
            content = json.dumps(event | {"data": number})
            url = f"{service.events_url}/events"
            assert (await http.post(url, content=content, headers=STRUCTURED)).status_code == 202

        async def buried() -> bool:
            return len((await house.get("/v1/dead-letters"))["dead_letters"]) == 2

        await until(buried, "two dead letters", turn=0.05)
        yield house


def test_every_operation_is_asked() -> None:
    asked = {*of(""), *OF_TOPICS, *OF_ALL, *LISTS, *ELSEWHERE, *OF_NOBODY}
    assert asked == set(RULES)


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("type", "")


OUTSIDE = (403, "urn:skybridge:problem:outside-binding")


async def test_what_is_named_outside_is_refused(house: House) -> None:
    for name in ("both", "id", "topic"):
        of_topics = {} if name == "id" else OF_TOPICS
        for operation, step in {**of("team-b.fail"), **of_topics, **OF_ALL, **LISTS}.items():
            answer = await house.ask(step, token_of(name))
            assert refused(answer) == OUTSIDE, (name, operation, answer.text)
            bound = "log/orders" if name == "topic" else "team-a.*"
            assert bound in answer.json()["detail"]
    letters = await house.get("/v1/dead-letters")
    assert len(letters["dead_letters"]) == 2
    entries = (await house.get("/v1/audit?kind=refusal&limit=1000"))["entries"]
    assert {"pause_subscription", "audit", "peek"} <= {each["operation"] for each in entries}


async def test_what_is_within_is_answered(house: House) -> None:
    mine = [each for each in of("team-a.fail").values() if each[0] in {"GET", "OPTIONS"}]
    mine += [("GET", f"{T}/orders{more}", {}) for more in ("", "/offsets", "/records")]
    mine += [
        ("POST", f"{S}/team-a.pull:receive", {"json": {"max_wait": 0}}),
        ("POST", f"{S}/team-a.fail:pause", {}),
    ]
    mine += [("POST", f"{S}/team-a.fail:resume", {}), ("GET", "/v1/history", {})]
    for name in BOUND:
        for step in mine:
            answer = await house.ask(step, token_of(name))
            assert answer.status_code < 300, (name, step, answer.text)


async def test_lists_hold_what_is_within_alone(house: House) -> None:
    both = token_of("both")
    for name in BOUND:
        token = token_of(name)
        found = {each["id"] for each in await house.get(S, token)}
        assert found == {"team-a.fail", "team-a.pull"}
        now = await house.get("/status", token)
        assert {each["id"] for each in now["subscriptions"]} == found
        assert "team-b" not in json.dumps(now)
        letters = (await house.get("/v1/dead-letters", token))["dead_letters"]
        assert {each["subscription"] for each in letters} == {"team-a.fail"}
        assert (await house.get("/v1/dead-letters/count", token))["total"] == 1
        attempts = (await house.get("/v1/attempts", token))["attempts"]
        assert {each["subscription"] for each in attempts} == {"team-a.fail"}
        drafts = await house.get(D, token)
        assert {each["id"] for each in drafts} == {"team-a.fail"}
    assert {each["name"] for each in await house.get("/v1/topics", both)} == {"orders"}
    found = (await house.get("/v1/events?id=same", both))["events"]
    assert [each["source"] for each in found] == ["/orders"]
    assert {each["subscription"] for each in found[0]["subscriptions"]} <= {
        "team-a.fail",
        "team-a.pull",
    }
    assert len((await house.get("/v1/events?id=same"))["events"]) == 2
    headers = EVENT | {"ce-source": "/p", "ce-type": "payments"}
    told = (await house.ask(("POST", "/v1/explain", {"headers": headers}), both)).text
    assert "team-b" not in told


async def test_dead_letters_of_others_are_out_of_reach_by_their_ids_too(house: House) -> None:
    letters = (await house.get("/v1/dead-letters"))["dead_letters"]
    (theirs,) = (each["id"] for each in letters if each["subscription"] == "team-b.fail")
    for name in BOUND:
        for method, more in (("GET", ""), ("POST", ":resend")):
            step = (method, f"/v1/dead-letters/{theirs}{more}", {})
            assert refused(await house.ask(step, token_of(name))) == OUTSIDE
        order = {"json": {"ids": [theirs], "dry_run": False}}
        order = {"json": {"dry_run": False}}
        answer = await house.ask(("POST", "/v1/dead-letters:discard", order), token_of(name))
        assert answer.json()["discarded"] == (1 if name == "both" else 0)
    left = (await house.get("/v1/dead-letters"))["dead_letters"]
    assert [each["id"] for each in left] == [theirs]


async def test_parked_events_of_others_are_left_out(house: House, target: WebhookTarget) -> None:
    target.answer = lambda _: status(409)
    for topic in ("orders", "payments"):
        headers = EVENT | {"ce-source": f"/a/{topic}", "skybridge-key": "k"}
        await house.ask(("POST", f"{T}/{topic}/records", {"headers": headers}))
    async with asyncio.timeout(60):
        while len((await house.get("/v1/parked"))["parked"]) < 2:
            await asyncio.sleep(0.05)
    for name in BOUND:
        token = token_of(name)
        rows = (await house.get("/v1/parked", token))["parked"]
        assert {each["subscription"] for each in rows} == {"team-a.fail"}
        assert len((await house.get("/v1/parked/keys", token))["keys"]) == 1
        counts = (await house.get("/v1/parked/count", token))["counts"]
        assert [each["subscription"] for each in counts] == ["team-a.fail"]


@pytest.mark.parametrize(
    ("token", "change"),
    [
        ("id", {"id": "team-b.x"}),
        ("topic", {"source": {"broker": "log", "topics": ["orders", "payments"]}}),
        ("topic", {"sink": {"broker": "log", "topic": "payments"}}),
        ("topic", {"dead_letter": {"broker": "log", "topic": "payments"}}),
        ("topic", {"reply": "payments"}),
    ],
)
async def test_no_subscription_is_made_or_changed_to_reach_further(
    house: House, token: str, change: dict[str, Any]
) -> None:
    bound = token_of(token)
    wanted = document("team-a.x") | change
    assert refused(await house.ask(("POST", S, {"json": wanted}), bound)) == OUTSIDE
    new = ("PUT", f"{S}/{wanted['id']}", {"json": wanted, "headers": {"if-none-match": "*"}})
    assert refused(await house.ask(new, bound)) == OUTSIDE
    made = await house.ask(("POST", S, {"json": document("team-a.x")}), bound)
    assert made.status_code == 201, made.text
    if "id" in change:
        return
    headers = {"if-match": made.headers["etag"]}
    again = ("PUT", f"{S}/team-a.x", {"json": wanted, "headers": headers})
    assert refused(await house.ask(again, bound)) == OUTSIDE
    patch = ("PATCH", f"{S}/team-a.x", {"content": json.dumps(change), "headers": MERGE | headers})
    assert refused(await house.ask(patch, bound)) == OUTSIDE
    assert (await house.ask(("DELETE", f"{S}/team-a.x", {}), bound)).status_code == 200


async def test_the_draft_makes_no_id_that_is_within(house: House) -> None:
    draft = {"sink": "http://127.0.0.1:9/", "source": "log/orders", "protocol": "HTTP"}
    answer = await house.ask(("POST", D, {"json": draft}), token_of("id"))
    assert answer.status_code in {403, 422}


@pytest.mark.parametrize(("source", "status_"), [("/a/1", 201), ("/b/1", 403), ("/a", 403)])
async def test_events_are_published_of_the_sources_within(
    house: House, source: str, status_: int
) -> None:
    headers = EVENT | {"ce-source": source}
    step = ("POST", f"{T}/orders/records", {"headers": headers})
    assert (await house.ask(step, token_of("both"))).status_code == status_
    assert (await house.ask(step, token_of("topic"))).status_code == 201
    event = {"specversion": "1.0", "id": "1", "source": source, "type": "t"}
    how = {"json": event, "headers": STRUCTURED}
    answer = await house.ask(("POST", f"{S}/team-a.fail:test", how), token_of("both"))
    assert answer.status_code == (200 if status_ == 201 else 403), answer.text


async def test_without_data_subscriptions_send_to_configurable_targets_alone(
    started: Start,
) -> None:
    tokens = [
        {"name": "maker", "token": token_of("maker"), "scopes": ["configure", "read"]},
        {"name": "trusted", "token": token_of("trusted"), "scopes": ["configure", "data"]},
    ]
    service = await started(
        {
            "server": {
                "events": {"port": 0},
                "admin": {"port": 0, "token": MASTER, "tokens": tokens},
            },
            "routes": [{"name": "all", "to": {"broker": "log", "topic": "orders"}}],
            "webhooks": {
                "allow_private": ["127.0.0.0/8"],
                "configurable_targets": ["127.0.0.2/32"],
            },
        }
    )
    own = "http://127.0.0.2:9/"
    forbidden: list[dict[str, Any]] = [
        {"sink": "http://127.0.0.1:9/"},
        {"sink": {"broker": "log", "topic": "copy"}},
        {"sink": {"pull": {}}},
        {"sink": own, "dead_letter": {"broker": "log", "topic": "copy"}},
    ]
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        house = House(service, http)
        for number, change in enumerate(forbidden):
            step = ("POST", S, {"json": document(f"s{number}", **change)})
            answer = await house.ask(step, token_of("maker"))
            assert refused(answer) == (403, "urn:skybridge:problem:target-not-configurable")
            assert (await house.ask(step, token_of("trusted"))).status_code == 201
            patch = (
                "PATCH",
                f"{S}/s{number}",
                {"content": b'{"paused": true}', "headers": MERGE},
            )
            assert (await house.ask(patch, token_of("maker"))).status_code == 200
            for wider in (
                {"filters": [{"prefix": {"type": "t"}}]},
                {"source": document("", "other")["source"]},
            ):
                how = {"content": json.dumps(wider), "headers": MERGE}
                answer = await house.ask(("PATCH", f"{S}/s{number}", how), token_of("maker"))
                assert answer.status_code == (200 if "dead_letter" in change else 403)
        made = await house.ask(("POST", S, {"json": document("mine", sink=own)}), token_of("maker"))
        assert made.status_code == 201, made.text
        for change in forbidden:
            how = {"content": json.dumps(change), "headers": MERGE}
            answer = await house.ask(("PATCH", f"{S}/mine", how), token_of("maker"))
            assert answer.status_code == 403
