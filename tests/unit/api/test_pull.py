"""``:receive`` and the verbs behind it, as consumers meet them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from app.api.pull import receive as pull_receive
from app.bindings.record import Record
from app.errors import BrokerUnavailable
from app.interfaces import DeadLetterFilter
from app.model.message import Partition
from pull_service import VERBS, FakePullService
from worker_doubles import an_event

ALL = DeadLetterFilter()
OPAQUE = Record(b"k", (("content-type", b"application/cloudevents+cbor"),), b"\xa0")


@pytest.fixture
async def service() -> FakePullService:
    service = FakePullService()
    await service.copies.create_topic("dead", 1)
    return service


async def ask(client: httpx.AsyncClient, verb: str, **body: Any) -> Any:
    answer = await client.post(f"{VERBS}:{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def receive(client: httpx.AsyncClient, most: int = 100, wait: float = 0) -> list[Any]:
    return (await ask(client, "receive", max_events=most, max_wait=wait))["events"]


def ids(received: list[Any]) -> list[int]:
    return [int(each["event"]["id"]) for each in received]


def tokens(received: list[Any]) -> list[str]:
    return [each["broker_properties"]["lock_token"] for each in received]


async def test_an_event_comes_whole_with_its_lock_beside_it(service, client):
    """JSON format; nothing of ours is in the event (I3)."""
    await service.offer(an_event(7, datacontenttype="application/json"))
    answer = await client.post(f"{VERBS}:receive")
    (received,) = answer.json()["events"]
    assert received["event"] == {
        "specversion": "1.0",
        "id": "7",
        "source": "/t",
        "type": "t",
        "datacontenttype": "application/json",
        "data": 7,
    }
    assert set(received["broker_properties"]) == {"lock_token", "delivery_count"}
    assert received["broker_properties"]["delivery_count"] == 1
    assert answer.json()["lock"] == 60.0


async def test_each_token_has_its_fate_once(service, client):
    await service.offer_events(1, 2)
    one, two = tokens(await receive(client))
    fates = await ask(client, "acknowledge", tokens=[one, "nobody's", one])
    assert fates["succeeded"] == [one]
    assert [(each["token"], each["code"]) for each in fates["failed"]] == [
        ("nobody's", "lock-lost")
    ]
    assert (await ask(client, "acknowledge", tokens=[one]))["failed"]
    assert (await ask(client, "release", tokens=[two]))["succeeded"] == [two]
    assert ids(await receive(client)) == [2]
    counted = service.counters.values()["deliveries"]
    assert counted == {("billing", "delivered"): 1}


async def test_a_released_event_waits_for_its_delay(service, client):
    await service.offer_events(1)
    await ask(client, "release", tokens=tokens(await receive(client)), delay=30)
    assert await receive(client) == []
    await service.clock.advance(30)
    assert ids(await receive(client)) == [1]


async def test_a_renewed_lock_begins_anew(service, client):
    await service.offer_events(1)
    held = tokens(await receive(client))
    await service.clock.advance(50)
    assert (await ask(client, "renew", tokens=held))["succeeded"] == held
    await service.clock.advance(50)
    assert await receive(client) == []
    assert (await ask(client, "acknowledge", tokens=held))["succeeded"] == held


async def test_a_rejected_event_is_a_dead_letter_with_a_copy(service, client):
    """Rule 2: the copy is acknowledged before the letter is stored."""
    service.settings = {"dead_letter": {"broker": "copies", "topic": "dead"}}
    await service.offer_events(1, key="k")
    await service.offer_events(2, key="k")
    held = tokens(await receive(client))
    service.copies.refusals.append(BrokerUnavailable("away"))
    (failed,) = (await ask(client, "reject", tokens=held))["failed"]
    assert (failed["code"], "away" in failed["detail"]) == ("dead-letter-topic", True)
    assert await service.store.letters.find(ALL) == []
    assert await receive(client) == []  # its lock holds: it can be rejected again
    fates = await ask(client, "reject", tokens=[*held, "nobody's"], reason="no such customer")
    assert (fates["succeeded"], len(fates["failed"])) == (held, 1)
    (letter,) = await service.store.letters.find(ALL)
    assert (letter.cause, letter.detail, letter.attempts) == ("rejected", "no such customer", 1)
    (copy, _), *more = service.copies.partitions[Partition("dead", 0)]
    assert dict(copy.headers)["skybridge-dead-letter-cause"] == b"rejected"
    assert more == []
    told = [each for each in service.told if not each[0].startswith("audited")]
    assert told == [("dead-lettered", {"cause": "rejected"})]
    assert ids(await receive(client)) == [2]


async def test_nothing_is_handed_out_more_often_than_it_may_be(service, client):
    """Whoever comes first buries it: the worker's sweep may be seconds away."""
    service.pull = {"max_deliveries": 2}
    await service.offer_events(1, key="k")
    await service.offer_events(2, key="k")
    for _ in range(2):
        assert ids(await receive(client)) == [1]
        await service.clock.advance(60)
    assert ids(await receive(client)) == [2]
    (letter,) = await service.store.letters.find(ALL)
    assert (letter.cause, letter.attempts) == ("max-deliveries", 2)


async def test_what_cannot_be_buried_holds_up_nobody_else(service, client):
    service.pull = {"max_deliveries": 1}
    service.settings = {"dead_letter": {"broker": "copies", "topic": "dead"}}
    await service.offer_events(1)
    await receive(client)
    await service.clock.advance(60)
    await service.offer_events(2)
    service.copies.refusals.append(BrokerUnavailable("away"))
    assert ids(await receive(client)) == [2]
    assert await service.store.letters.find(ALL) == []


async def test_what_is_too_old_is_handed_out_no_more(service, client):
    """max_age and expirytime hold for whoever pulls, too."""
    service.settings = {"max_age": "1h", "expirytime": "honour"}
    await service.offer_events(1)
    await service.offer(an_event(2, "e", expirytime="2000-01-01T00:00:00Z"))
    await service.clock.advance(3_601)
    await service.offer_events(3)
    assert ids(await receive(client)) == [3]
    (letter,) = await service.store.letters.find(ALL)
    assert (letter.cause, letter.event.id) == ("max-age", "1")
    assert service.counters.values()["deliveries"][("billing", "expired")] == 1
    assert await service.store.pulled.count("billing") == 1


async def test_a_document_that_nobody_reads_is_shown_as_it_is(service, client):
    """It is no event that JSON could show, and may be one all the same (4.7)."""
    await service.offer(OPAQUE)
    (received,) = await receive(client)
    assert received["event"] is None
    assert received["record"]["content_type"] == "application/cloudevents+cbor"
    assert received["record"]["body_base64"] == "oA=="


async def test_an_answer_is_bounded_in_bytes(service, client, monkeypatch):
    """Rule 8: large events come in more answers."""
    monkeypatch.setattr(pull_receive, "MOST_BYTES", 200_000)
    body = b"x" * 10_000
    headers = an_event(1).headers
    await service.offer(*(Record(b"%d" % n, headers, body) for n in range(100)))
    first = await receive(client)
    assert 20 <= len(first) < 40
    more = [len(await receive(client)) for _ in range(4)]
    assert sum(more) + len(first) == 100


async def test_who_waits_is_told_at_once(service, client):
    waiting = asyncio.create_task(receive(client, wait=60))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await service.offer_events(1)
    assert ids(await asyncio.wait_for(waiting, 30)) == [1]


async def test_the_wait_ends_when_it_is_over(client):
    assert await asyncio.wait_for(receive(client, wait=0.1), 30) == []


async def test_the_wait_ends_when_the_service_leaves(client, stopped):
    """Rule 11."""
    waiting = [asyncio.create_task(receive(client, wait=60)) for _ in range(3)]
    await asyncio.sleep(0.05)
    stopped.set()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 30) == [[], [], []]


async def test_those_who_wait_are_served_in_their_order_and_one_looks_for_all(service, client):
    """A hundred that wait must not ask the database a hundred times as often."""
    looks = 0
    real = service.store.pulled.receive

    async def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal looks
        looks += 1
        return await real(*args, **kwargs)

    service.store.pulled.receive = counted
    served: list[int] = []

    async def wait(number: int) -> None:
        await receive(client, most=1, wait=60)
        served.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(50)]
    await asyncio.sleep(1.2)
    assert looks <= 5
    await service.offer_events(*range(50))
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    assert served == list(range(50))
    assert looks <= 110  # one a page, and one that finds no more


async def test_what_frees_the_next_wakes_who_waits(service, client):
    """The lane's next follows an acknowledgement, not the next look."""
    await service.offer_events(1, key="k")
    await service.offer_events(2, key="k")
    held = tokens(await receive(client))
    waiting = asyncio.create_task(receive(client, wait=60))
    await asyncio.sleep(0.05)
    await ask(client, "acknowledge", tokens=held)
    assert ids(await asyncio.wait_for(waiting, 30)) == [2]


async def test_whoever_leaves_leaves_his_turn_to_the_next(service, client):
    gone = asyncio.create_task(receive(client, wait=60))
    await asyncio.sleep(0.05)
    behind = asyncio.create_task(receive(client, wait=60))
    await asyncio.sleep(0.05)
    gone.cancel()
    await asyncio.wait([gone])
    await service.offer_events(1)
    assert ids(await asyncio.wait_for(behind, 30)) == [1]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/subscriptions/nobody:receive", 404, "unknown-subscription"),
        ("/v1/subscriptions/hook:receive", 409, "not-pulled"),
    ],
)
async def test_what_cannot_be_pulled_is_refused(client, path, status, code):
    answer = await client.post(path, json={})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (status, code)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("receive", {"max_events": 0}),
        ("receive", {"max_events": 1001}),
        ("receive", {"max_wait": 61}),
        ("receive", {"max_wait": -1}),
        ("receive", {"most": 1}),
        ("acknowledge", {}),
        ("acknowledge", {"tokens": []}),
        ("acknowledge", {"tokens": [""]}),
        ("release", {"tokens": ["t"], "delay": 3601}),
        ("renew", {"tokens": "t"}),
        ("reject", {"tokens": ["t"], "reason": "x" * 501}),
    ],
)
async def test_a_request_outside_its_bounds_is_refused(client, verb, body):
    answer = await client.post(f"{VERBS}:{verb}", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_body_that_is_no_json_is_refused(client):
    answer = await client.post(
        f"{VERBS}:receive", content=b"{", headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    answer = await client.post(
        f"{VERBS}:receive", content=b"{}", headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 415


async def test_a_paused_one_hands_out_nothing_and_takes_what_is_finished(service, client):
    """Who holds an event may finish it."""
    await service.offer_events(1)
    held = tokens(await receive(client))
    await service.store.halts.halt("billing", "paused", "holiday", 1)
    answer = await client.post(f"{VERBS}:receive")
    assert (answer.status_code, "holiday" in answer.json()["detail"]) == (409, True)
    assert (await ask(client, "acknowledge", tokens=held))["succeeded"] == held
