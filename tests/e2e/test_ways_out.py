"""The whole service: several events in one request, answers that are events, records that are none."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from app.bindings.record import Record
from app.delivery.verifying import verify
from app.interfaces.clock import SystemClock
from app.model.signing_key import read_key
from configuration import route
from service import Service
from strict_receiver import StrictReceiver
from waiting import until
from webhook_target import Received, WebhookTarget, status

ORIGIN = "bridge.example.com"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLdMw"
BATCH = "application/cloudevents-batch+json; charset=utf-8"
ROUTES = [
    route("answers", name="answers", filters=[{"prefix": {"type": "answer."}}]),
    route(key={"mapper": "partitionkey"}),
]

Serve = Callable[..., Any]


@pytest.fixture
async def serve(started: Callable[..., Any]) -> Serve:
    """A service with subscriptions given by id: settings, of which ``sink`` is one."""

    async def begin(**subscriptions: dict[str, Any]) -> Service:
        retry = {"schedule": ["50ms"] * 5, "hold": 5}
        return await started(
            {
                "routes": ROUTES,
                "subscriptions": [
                    {
                        "id": name,
                        "source": {"broker": "log", "topics": ["events"]},
                        "start": "earliest",
                        "retry": retry,
                        **settings,
                    }
                    for name, settings in subscriptions.items()
                ],
                "webhooks": {"origin": ORIGIN},
                "timeouts": {"webhook_connect": "60s", "drain": "2s"},
            }
        )

    return begin


@pytest.fixture
async def targets() -> AsyncIterator[Callable[..., Any]]:
    made = []

    async def make(target: WebhookTarget | None = None) -> WebhookTarget:
        made.append(target or WebhookTarget())
        await made[-1].start()
        return made[-1]

    yield make
    for target in made:
        await target.stop()


async def send(service: Service, numbers: range, keys: int = 3) -> None:
    """Each with its number as id; the key is its rest by ``keys``."""
    for number in numbers:
        await service.send(str(number), partitionkey=str(number % keys))


def ids(request: Received) -> list[str]:
    return [each["id"] for each in json.loads(request.body)]


async def test_events_go_in_batches_signed_consented_and_in_order(serve: Serve, targets) -> None:
    """All that a request of one event bears, a request of several bears; no event is lost or doubled."""
    receiver = StrictReceiver(origin=ORIGIN)
    await targets(receiver.target)
    service = await serve(
        s={
            "sink": receiver.target.url,
            "batch": {"max_events": 10, "max_wait": "300ms"},
            "signing": {"secret": SECRET},
        }
    )
    await send(service, range(35))
    received = receiver.target.received
    await until(lambda: sum(len(ids(each)) for each in received) == 35)
    assert receiver.breaches == []
    assert max(len(ids(each)) for each in received) in range(2, 11)
    assert len(received) < 35
    by_key: dict[int, list[int]] = defaultdict(list)
    for request in received:
        assert request.header("content-type") == BATCH
        headers = [(name, value.decode()) for name, value in request.headers]
        assert verify(headers, request.body, [read_key(SECRET)], SystemClock().now()).valid
        for name in map(int, ids(request)):
            by_key[name % 3].append(name)
    assert by_key == {key: list(range(key, 35, 3)) for key in range(3)}


async def test_keys_in_json_that_is_so_by_its_grammar_alone_keep_their_order(
    serve: Serve, targets
) -> None:
    """order_by a pointer: behind an unpaired surrogate, or a text that holds one, the key is still the key."""
    failed: set[str] = set()

    def once(request: Received) -> bytes:
        """The first of each key is answered 503 once."""
        if request.id.endswith("-0") and request.id not in failed:
            failed.add(request.id)
            return status(503)
        return status(204)

    target = await targets(WebhookTarget(once))
    service = await serve(s={"sink": target.url, "order_by": {"pointer": "/k"}})
    data = {
        "beside": rb'{"\ud83d":"\ud83d","k":"v","n":1e400}',
        "token": rb'{"k":"cut \ud83d"}',
        "number": b'{"k":1e400,"n":"\\udead"}',
    }
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        for number in range(4):
            for name, text in data.items():
                document = b'{"specversion":"1.0","id":"%b-%d","source":"/s","type":"t","data":%b}'
                answer = await client.post(
                    f"{service.events_url}/events",
                    headers={"content-type": "application/cloudevents+json"},
                    content=document % (name.encode(), number, text),
                )
                assert answer.status_code == 202, answer.text
    await until(lambda: len(target.received) == 4 * len(data) + len(failed))
    for name, text in data.items():
        mine = [each for each in target.received if each.id.startswith(name)]
        assert [each.id[-1] for each in mine] == ["0", "0", "1", "2", "3"]
        assert {each.body for each in mine} == {text}
    assert await service.letters() == {}


@pytest.mark.parametrize("refusal", [400, 413, 422])
async def test_only_the_poison_becomes_a_dead_letter(serve: Serve, targets, refusal: int) -> None:
    """A target that refuses a whole request for one event of it, and one that is too large for it."""
    target = await targets()
    poison = "17"

    def answer(request: Received) -> bytes:
        return status(refusal if poison in ids(request) else 204)

    target.answer = answer
    service = await serve(s={"sink": target.url, "batch": {"max_events": 50, "max_wait": "1s"}})
    await send(service, range(40))
    good = {str(number) for number in range(40)} - {poison}

    def delivered() -> set[str]:
        return {
            each
            for request in target.received
            if poison not in ids(request)
            for each in ids(request)
        }

    await until(lambda: delivered() == good)
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        while not await service.letters():
            await client.get(f"{service.admin_url}/healthz")
    assert await service.letters() == {f"status-{refusal}": 1}
    taken = [
        each for request in target.received if poison not in ids(request) for each in ids(request)
    ]
    assert len(taken) == len(good)
    assert sum(poison in ids(request) for request in target.received) <= 8


async def test_the_attempts_tell_how_many_went_together(serve: Serve, targets) -> None:
    """One line an event, with the number of its request."""
    target = await targets()
    service = await serve(s={"sink": target.url, "batch": {"max_events": 5, "max_wait": "1s"}})
    await send(service, range(5), keys=5)
    await until(lambda: len(target.received) == 1)
    supervisor = service.supervisor
    await until(lambda: len(supervisor.attempts("s")) == 5)
    assert {each.together for each in supervisor.attempts("s")} == {5}
    assert {each.event.id for each in supervisor.attempts("s")} == set("01234")


async def test_an_answer_that_is_an_event_goes_on_as_one(serve: Serve, targets) -> None:
    """Through the route, to whoever reads its topic, under the key of what it answers."""

    def answer(request: Received) -> bytes:
        return status(
            200,
            "Content-Type: text/plain",
            "ce-specversion: 1.0",
            f"ce-id: to-{request.id}",
            "ce-source: /scoring",
            "ce-type: score",
            body=b"42",
        )

    scoring, reader = await targets(), await targets()
    scoring.answer = answer
    service = await serve(
        scoring={"sink": scoring.url, "reply": "answers"},
        reader={"sink": reader.url, "source": {"broker": "log", "topics": ["answers"]}},
    )
    await send(service, range(6))
    await until(lambda: len(reader.received) == 6)
    assert sorted(reader.ids) == [f"to-{number}" for number in range(6)]
    assert {request.body for request in reader.received} == {b"42"}
    assert {request.header("content-type") for request in reader.received} == {"text/plain"}
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        metrics = (await client.get(f"{service.admin_url}/metrics")).text
    assert 'replies_total{outcome="published",subscription="scoring"} 6.0' in metrics


async def test_a_webhook_that_is_sent_its_own_answers_answers_at_last(
    serve: Serve, targets
) -> None:
    """The count of replies ends what ``check`` had warned of."""
    target = await targets()

    def answer(request: Received) -> bytes:
        event = {"specversion": "1.0", "id": f"{request.id}x", "source": "/s", "type": "t"}
        body = json.dumps(event).encode()
        return status(200, "Content-Type: application/cloudevents+json", body=body)

    target.answer = answer
    service = await serve(s={"sink": target.url, "reply": "all"})
    await send(service, range(1))
    counters = service.counters
    await until(lambda: counters.values().get("replies", {}).get(("s", "looping"), 0) == 1)
    await until(lambda: len(target.received) == 17)
    assert target.ids[-1] == "0" + "x" * 16


async def test_records_that_are_no_events_are_delivered_as_events(serve: Serve, targets) -> None:
    """on_foreign: wrap, beside events as they are; the second subscription only wants the wrapped."""
    target, only = await targets(), await targets()
    service = await serve(
        s={"sink": target.url, "on_foreign": "wrap"},
        only={
            "sink": only.url,
            "on_foreign": "wrap",
            "content_mode": "structured",
            "filters": [{"exact": {"type": "dev.skybridge.record"}}],
        },
    )
    await send(service, range(2))
    record = Record(b"k\xc3\xbc", (("content-type", b"text/csv"), ("x-shard", b"4")), b"a,b")
    await service.logs["log"].submit("events", [record])
    await until(lambda: len(target.received) == 3 and len(only.received) == 1)
    wrapped = next(each for each in target.received if each.header("ce-type") != "t")
    assert wrapped.header("ce-source") == "urn:skybridge:record:log/events"
    assert wrapped.header("ce-partitionkey") == "k%C3%BC"
    assert (wrapped.header("content-type"), wrapped.body) == ("text/csv", b"a,b")
    document = json.loads(only.received[0].body)
    assert document["id"] == wrapped.id
    assert json.loads(document["recordheaders"]) == [["x-shard", "4"]]
    assert await service.letters() == {}
