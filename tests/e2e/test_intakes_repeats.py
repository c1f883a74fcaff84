"""A repeat is an event that was stored, with its data: any other event with an equal body is stored too, up to a bound."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from typing import Any

import pytest

import publishers
from app.bindings import kafka
from app.errors import BrokerUnavailable
from intake_bench import IntakeBench
from publishers import SECRET, Sent
from raw_http import RawAnswer, RawConnection, request
from waiting import until

BODY = {"id": 1, "kind": "paid", "plant": 7, "order": {"id": "A-1"}, "ref": "refs/heads/main"}


def erp(identity: str = "r-1") -> Sent:
    body = publishers.text(BODY)
    headers = (("content-type", "application/json"), ("x-id", identity))
    return Sent((*headers, ("x-mark", publishers.hexed(SECRET, body))), body)


def key(identity: str = "r-1") -> Sent:
    return Sent((("x-id", identity), ("x-api-key", SECRET)), publishers.text(BODY))


# By intake: a request, and the headers that another event with an equal body has another value of.
BODY_SIGNED = {
    "github": (publishers.github(BODY), ("X-GitHub-Delivery", "X-GitHub-Event")),
    "shopify": (
        publishers.shopify(BODY),
        ("X-Shopify-Webhook-Id", "X-Shopify-Topic", "X-Shopify-Shop-Domain"),
    ),
    "erp": (erp(), ("x-id",)),
}
UNSIGNED = {
    "gitlab": (publishers.gitlab({"object_kind": "push"}), "Idempotency-Key"),
    "key": (key(), "x-id"),
}
OTHERS = [(name, header) for name, (_, headers) in BODY_SIGNED.items() for header in headers]


def is_duplicate(answer: RawAnswer) -> bool:
    return answer.status == 202 and answer.headers.get("skybridge-duplicate") == "true"


def stored(house: IntakeBench) -> list[tuple[str, str, str]]:
    events = [kafka.decode(record).event for each in house.log.submits for record in each.records]
    return [(event.source, event.type, event.id) for event in events]


async def test_two_topics_of_one_body_are_two_events() -> None:
    """An order that is created as paid: Shopify sends one body to two topics."""
    created = publishers.shopify(BODY, "w-1")
    paid = publishers.shopify(BODY, "w-2").but("X-Shopify-Topic", "orders/paid")
    async with IntakeBench().open() as house:
        answers = [await house.post("shopify", sent) for sent in (created, paid, created, paid)]
        assert [is_duplicate(each) for each in answers] == [False, False, True, True]
        assert [type_ for _, type_, _ in stored(house)] == [
            "com.shopify.orders.create", "com.shopify.orders.paid",
        ]  # fmt: skip
        assert house.counted() == {("shopify", "accepted"): 2, ("shopify", "duplicate"): 2}


@pytest.mark.parametrize(("name", "header"), OTHERS)
async def test_each_part_of_the_identity_makes_another_event(name: str, header: str) -> None:
    """Source, type and id, whichever header they come from."""
    async with IntakeBench().open() as house:
        sent, _ = BODY_SIGNED[name]
        assert (await house.post(name, sent)).status == 202
        other = await house.post(name, sent.but(header, "other"))
        assert (other.status, is_duplicate(other)) == (202, False)
        assert len(set(stored(house))) == 2


@pytest.mark.parametrize(
    ("name", "header"),
    [("github", "X-GitHub-Hook-ID"), ("shopify", "X-Shopify-Triggered-At"), ("erp", "x-attempt"), ("key", "x-attempt")],
)  # fmt: skip
async def test_a_redelivery_with_another_header_is_a_repeat(name: str, header: str) -> None:
    """A publisher counts its attempts in headers that the event is not made of."""
    sent = key() if name == "key" else BODY_SIGNED[name][0]
    async with IntakeBench().open() as house:
        await house.post(name, sent.but(header, "2026-03-29T18:00:27Z"))
        assert is_duplicate(await house.post(name, sent.but(header, "2026-03-29T18:00:28Z")))
        assert len(house.log.submits) == 1


@pytest.mark.parametrize("name", BODY_SIGNED)
async def test_one_body_is_up_to_eight_events_in_the_window_then_429(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Retry-After is the end of the window of the oldest; repeats of the eight are duplicates still."""
    sent, (header, *_) = BODY_SIGNED[name]
    async with IntakeBench().open() as house:
        for number in range(8):
            assert (await house.post(name, sent.but(header, f"i-{number}"))).status == 202
            await house.clock.advance(10)
        with caplog.at_level(logging.WARNING):
            ninth = await house.post(name, sent.but(header, "i-8"))
        document = json.loads(ninth.body)
        assert (ninth.status, document["type"]) == (429, "urn:skybridge:problem:repeated-body")
        assert "max_age: 0s" in document["detail"]
        assert ninth.headers["retry-after"] == "220"
        assert "max_age: 0s" in caplog.text
        assert is_duplicate(await house.post(name, sent.but(header, "i-7")))
        assert len(house.log.submits) == 8
        await house.clock.advance(219)
        assert (await house.post(name, sent.but(header, "i-8"))).status == 429
        await house.clock.advance(1)
        assert (await house.post(name, sent.but(header, "i-8"))).status == 202
        assert (await house.post(name, sent.but(header, "i-9"))).status == 429
        counted = house.counted()
        assert counted[name, "repeated-body"] == 3
        assert house.counted("events_refused")["repeated-body",] == 3


async def test_the_eight_are_of_the_bytes_that_were_signed() -> None:
    """A captured body may be passed off as coded or not: these are two events, and two of the eight."""
    body = gzip.compress(publishers.text(BODY))
    plain = publishers.shopify(body)
    coded = plain.but("Content-Encoding", "gzip")
    async with IntakeBench().open() as house:
        for number in range(4):
            for sent in (plain, coded):
                answer = await house.post(
                    "shopify", sent.but("X-Shopify-Webhook-Id", f"w-{number}")
                )
                assert (answer.status, is_duplicate(answer)) == (202, False)
        ninth = await house.post("shopify", coded.but("X-Shopify-Webhook-Id", "w-9"))
        assert ninth.status == 429


@pytest.mark.parametrize("name", UNSIGNED)
async def test_a_sender_with_the_key_has_no_bound_of_identities(name: str) -> None:
    """The owner of a key that signs nothing can write any body."""
    sent, header = UNSIGNED[name]
    async with IntakeBench().open() as house:
        for number in range(20):
            answer = await house.post(name, sent.but(header, f"i-{number}"))
            assert (answer.status, is_duplicate(answer)) == (202, False)
        assert is_duplicate(await house.post(name, sent.but(header, "i-0")))


async def test_without_a_window_every_request_is_an_event() -> None:
    house = IntakeBench([
        {"name": "shopify", "preset": "shopify", "secret": SECRET, "route": "hooks", "max_age": "0s"}
    ])  # fmt: skip
    async with house.open():
        for number in range(20):
            answer = await house.post("shopify", publishers.shopify({}, f"w-{number % 10}"))
            assert (answer.status, is_duplicate(answer)) == (202, False)


async def test_identities_that_are_on_their_way_count() -> None:
    """Twenty at once on connections of their own: eight are stored, and no more after a failure than eight."""
    house = IntakeBench(at_once=False)
    async with house.open():
        posts = [
            asyncio.create_task(house.post("shopify", publishers.shopify(BODY, f"w-{number}")))
            for number in range(20)
        ]
        await until(lambda: sum(each.done() for each in posts) == 12)
        assert {each.result().status for each in posts if each.done()} == {429}
        assert len(house.log.submits) == 8
        house.log.settle(0, BrokerUnavailable("down"))
        for number in range(1, 8):
            house.log.settle(number)
        statuses = [answer.status for answer in await asyncio.gather(*posts)]
        assert sorted(statuses) == [202] * 7 + [429] * 12 + [503]
        again = asyncio.create_task(house.post("shopify", publishers.shopify(BODY, "w-20")))
        await until(lambda: len(house.log.submits) == 9)
        house.log.settle(8)
        assert (await again).status == 202


async def test_concurrent_events_of_one_body_do_not_wait_for_each_other() -> None:
    """Only a repeat waits; the failure of one event publishes no other again."""
    house = IntakeBench(at_once=False)
    created, paid = (
        request("/in/shopify", sent.body, headers=sent.headers)
        for sent in (publishers.shopify(BODY, "w-1"), publishers.shopify(BODY, "w-2"))
    )
    async with (
        house.open(),
        await RawConnection.open(house.server.port) as one,
        await RawConnection.open(house.server.port) as other,
        await RawConnection.open(house.server.port) as third,
    ):
        await one.send(created)
        await other.send(paid)
        await until(lambda: len(house.log.submits) == 2)
        await third.send(created)
        await until(lambda: house.intakes.demand("shopify").repeats.waiting)
        house.log.settle(1)
        assert (await other.answer()).headers.get("skybridge-duplicate") is None
        house.log.settle(0, BrokerUnavailable("down"))
        assert (await one.answer()).status == 503
        await until(lambda: len(house.log.submits) == 3)
        house.log.settle(2)
        assert (await third.answer()).headers.get("skybridge-duplicate") is None
        assert house.intakes.demand("shopify").repeats.waiting_bytes == 0


async def test_the_first_repeat_of_an_event_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """With what finds the event; the counter has all repeats."""
    async with IntakeBench().open() as house:
        with caplog.at_level(logging.INFO, logger="app.gateway.intakes"):
            for number in (1, 2, 1, 1, 2):
                await house.post("shopify", publishers.shopify(BODY, f"w-{number}"))
        entries: list[Any] = [each for each in caplog.records if "repeat" in each.message]
        assert [(each.event_id, each.type) for each in entries] == [
            ("w-1", "com.shopify.orders.create"), ("w-2", "com.shopify.orders.create"),
        ]  # fmt: skip
        assert house.counted()["shopify", "duplicate"] == 3


async def test_a_reload_with_a_shorter_window_holds_for_what_is_remembered() -> None:
    """Else an event of the new window would be taken for a repeat of an older one."""
    house = IntakeBench()
    shopify = {"name": "shopify", "preset": "shopify", "secret": SECRET, "route": "hooks"}
    sent = publishers.shopify(BODY)
    async with house.open():
        await house.post("shopify", sent)
        await house.clock.advance(5)
        house.reload([{**shopify, "max_age": "10s"}])
        assert is_duplicate(await house.post("shopify", sent))
        await house.clock.advance(6)
        assert not is_duplicate(await house.post("shopify", sent))
        assert len(house.log.submits) == 2
