"""Targets that know no CloudEvents: each preset against a receiver that answers as its publisher documents.

Every receiver takes an event, limits the rate once, refuses one event in an answer that looks like a success where its
publisher does so, and refuses one for good. Nothing is lost, and each refusal is one dead letter.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import publisher_apis
from app.delivery.verifying import verify
from app.interfaces.clock import SystemClock
from app.model.secret import HIDDEN
from app.model.signing_key import read_key
from app.store.encryption import new_key
from configuration import configuration, subscription
from service import Service, running
from waiting import until
from webhook_target import Received, WebhookTarget, status

KEY = {"secret": "key-of-the-test"}
SECRET = "whsec_" + "QUJD" * 8
TEXT = "Order {id}: {pointer:/ask} <{pointer:/note}>"
PRESETS: dict[str, dict[str, Any]] = {
    "slack": {"text": TEXT},
    "teams": {"text": TEXT, "title": "Orders"},
    "discord": {"text": TEXT, "username": "Skybridge"},
    "pagerduty": {"key": KEY, "summary": TEXT},
    "jira_service_management": {"key": KEY, "message": TEXT},
    "elasticsearch": {"index": "orders"},
    "splunk_hec": {"key": KEY},
}
RECEIVERS = {
    "jira_service_management": publisher_apis.jira,
    "splunk_hec": publisher_apis.splunk,
}


@pytest.fixture
async def target() -> AsyncIterator[WebhookTarget]:
    """A receiver on a free port, closed at the end."""
    target = WebhookTarget()
    await target.start()
    yield target
    await target.stop()


class Asked:
    """What an event asks of its receiver; a rate limit only the first time."""

    def __init__(self) -> None:
        self._limited = False

    def __call__(self, text: str) -> str:
        for word in (publisher_apis.GONE, publisher_apis.BAD):
            if f"ask-{word}" in text:
                return word
        if f"ask-{publisher_apis.BUSY}" in text and not self._limited:
            self._limited = True
            return publisher_apis.BUSY
        return ""


async def send(service: Service, id_: str, ask: str) -> None:
    data = json.dumps({"ask": f"ask-{ask}", "note": "<!channel> & *you*", "total": 199.90})
    await service.send(id_, data, partitionkey=id_)


def ids(requests: list[Received]) -> set[str]:
    """The ids of events in what a receiver got: they are in every request, whatever its form."""
    known = ("e-plain", "e-busy", "e-bad", "e-gone", "e-last")
    return {each for each in known for request in requests if each.encode() in request.body}


@pytest.mark.parametrize(
    ("preset", "batched"),
    [*((preset, False) for preset in PRESETS), ("elasticsearch", True), ("splunk_hec", True)],
)
async def test_a_preset(target: WebhookTarget, preset: str, batched: bool, tmp_path: Path) -> None:
    """One event of each key: taken, limited and taken, refused, refused, taken."""
    answer = RECEIVERS.get(preset) or getattr(publisher_apis, preset)
    target.answer = answer(Asked())
    more: dict[str, Any] = {"batch": {"max_events": 10, "max_wait": "200ms"}} if batched else {}
    request = {"preset": preset, **PRESETS[preset]}
    one = subscription(
        "room", target.url, request=request, retry={"schedule": ["50ms"] * 5}, **more
    )
    async with running(configuration(tmp_path, subscriptions=[one]), tmp_path) as service:
        for ask in ("plain", "busy", "bad", "gone", "last"):
            await send(service, f"e-{ask}", ask)
        await until(lambda: ids(target.received) >= {"e-plain", "e-busy", "e-last"})

        async def letters() -> bool:
            return sum((await service.letters()).values()) == 2

        await until(letters)
        shown = await service.text("/v1/dead-letters") + await service.text("/v1/attempts")
    assert "key-of-the-test" not in shown
    assert "/hook" not in shown  # the URL of such a webhook is a secret
    sent = {name for request in target.received for name, _ in request.headers}
    assert not any(name.startswith("ce-") for name in sent)


async def test_a_request_of_its_own(target: WebhookTarget, tmp_path: Path) -> None:
    """Method, path, query, headers and body by templates; secrets are sent, and shown nowhere."""
    target.answer = lambda _: status(500)
    request = {
        "method": "PUT",
        "path": "/tickets/{pointer:/order/id}",
        "query": {"origin": "{source}"},
        "headers": {"x-order": "{pointer:/order/id}"},
        "body": {"key": "${env:PAGER_KEY}", "amount": "{pointer:/total}", "details": "{$data}"},
    }
    one = subscription("oncall", target.url, request=request, retry={"schedule": ["1h"]})
    settings = configuration(tmp_path, subscriptions=[one])
    async with running(settings, tmp_path, {"PAGER_KEY": "sesame-of-{id}"}) as service:
        await service.send("e1", '{"order": {"id": "o/1"}, "total": 199.90}')
        await until(lambda: len(target.received) == 1)

        async def attempts() -> bool:
            return bool((await service.get("/v1/attempts"))["attempts"])

        await until(attempts)
        shown = await service.text("/v1/attempts") + await service.text("/v1/subscriptions/oncall")
        shown += await service.text("/v1/config")
    (got,) = target.received
    assert got.method == "PUT"
    assert got.path.startswith("/hook/tickets/o%2F1?origin=")
    assert got.header("x-order") == "o/1"
    assert got.body == (
        b'{"key":"sesame-of-{id}","amount":199.90,"details":{"order": {"id": "o/1"}, "total": 199.90}}'
    )
    assert "sesame" not in shown


async def test_the_signature_covers_the_shaped_body(target: WebhookTarget, tmp_path: Path) -> None:
    """A receiver that verified plain webhooks before needs no change."""
    signing = {"secret": SECRET}
    one = subscription("billing", target.url, signing=signing, request={"body": {"order": "{id}"}})
    async with running(configuration(tmp_path, subscriptions=[one]), tmp_path) as service:
        await service.send("e1", "{}")
        await until(lambda: len(target.received) == 1)
    (got,) = target.received
    assert got.body == b'{"order":"e1"}'
    headers = [(name, value.decode()) for name, value in got.headers]
    assert verify(headers, got.body, [read_key(SECRET)], SystemClock().now()).valid


@pytest.mark.parametrize(
    ("answer", "causes", "tries"),
    [
        (b'{"ok": true}', {}, 2),
        (b'{"ok": false, "error": "channel_not_found"}', {"answer-refused": 1}, 2),
        (b'{"ok": false, "error": "fatal"}', {"schedule-exhausted": 1}, 6),
    ],
)
async def test_success_by_the_answer(
    target: WebhookTarget, answer: bytes, causes: dict[str, int], tries: int, tmp_path: Path
) -> None:
    """A 200 that reports a failure is no success, and no fault of the endpoint: the breaker stays closed."""
    target.answer = lambda _: status(200, "Content-Type: application/json", body=answer)
    success = {
        "body": {"pointer": "/ok", "equals": True},
        "dead_letter_if": {"pointer": "/error", "in": ["channel_not_found"]},
    }
    one = subscription(
        "room",
        target.url,
        request={"body": {"id": "{id}"}, "success": success},
        retry={"schedule": ["10ms", "10ms"]},
    )
    async with running(configuration(tmp_path, subscriptions=[one]), tmp_path) as service:
        await service.send("e1")
        await service.send("e2", type="t2", partitionkey="other")

        await until(lambda: len(target.received) == tries)

        async def settled() -> bool:
            return await service.letters() == {cause: 2 * count for cause, count in causes.items()}

        await until(settled)
        found = await service.letters()
    assert found == {cause: 2 * count for cause, count in causes.items()}
    assert len(target.received) == tries


async def test_explain_shows_the_request(target: WebhookTarget, tmp_path: Path) -> None:
    """With its secrets hidden, and without the path of a secret URL; a value that is missing is said."""
    request = {"preset": "pagerduty", **PRESETS["pagerduty"], "summary": "Order {pointer:/id}"}
    one = subscription("oncall", target.url, request=request)
    event = {
        "specversion": "1.0",
        "id": "e1",
        "source": "/s",
        "type": "t",
        "time": "2026-11-27T00:00:00Z",
    }
    async with (
        running(configuration(tmp_path, subscriptions=[one]), tmp_path) as service,
        httpx.AsyncClient(timeout=120) as client,
    ):

        async def explained(data: dict[str, Any]) -> dict[str, Any]:
            body = {**event, "datacontenttype": "application/json", "data": data}
            headers = {"content-type": "application/cloudevents+json"}
            answer = await client.post(
                f"{service.admin_url}/v1/explain", json=body, headers=headers
            )
            (verdict,) = answer.json()[0]["hops"][0]["subscriptions"]
            return dict(verdict)

        verdict = await explained({"id": "A7"})
        missing = await explained({})
    shown = verdict["request"]
    assert (shown["method"], shown["url"]) == ("POST", f"http://127.0.0.1:{target.port}/{HIDDEN}")
    document = json.loads(shown["body"])
    assert (document["routing_key"], document["payload"]["summary"]) == (HIDDEN, "Order A7")
    assert missing["request"] is None
    assert "{pointer:/id}" in missing["fault"]
    assert target.received == []


async def test_secrets_over_the_api(target: WebhookTarget, tmp_path: Path) -> None:
    """They are stored encrypted, shown hidden, and kept by a change that sends back what was shown."""
    settings = configuration(tmp_path, store={"encryption": {"key": new_key()}})
    request = {"preset": "pagerduty", "key": {"secret": "sesame"}, "summary": "{id}"}
    document = subscription("oncall", target.url, request=request)
    async with running(settings, tmp_path) as service, httpx.AsyncClient(timeout=120) as client:
        path = f"{service.admin_url}/v1/subscriptions"
        made = await client.post(path, json=document)
        assert made.status_code == 201, made.text
        shown = made.json()
        assert shown["sink"] == {"url": HIDDEN, "secret": True}
        assert shown["request"]["key"] == {"secret": HIDDEN}
        match = {"if-match": made.headers["etag"]}
        kept = await client.put(f"{path}/oncall", json={**shown, "concurrency": 7}, headers=match)
        assert kept.status_code == 200, kept.text
        await service.send("e1")
        await until(lambda: len(target.received) == 1)
        elsewhere = {**shown, "sink": "http://127.0.0.2:9/hook"}
        match = {"if-match": kept.headers["etag"]}
        moved = await client.put(f"{path}/oncall", json=elsewhere, headers=match)
    assert json.loads(target.received[0].body)["routing_key"] == "sesame"
    assert moved.status_code == 422, "a kept secret would go to another host"
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("store.db*"))
    assert b"sesame" not in stored
    assert b"/hook" not in stored
