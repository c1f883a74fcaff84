"""Replays of requests whose time is signed: stored once within ``max_age``, at no cost to the publisher's quota."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import publishers
from app.errors import BrokerUnavailable
from intake_bench import EVENT, IntakeBench
from publishers import KEY, SECRET, Sent
from raw_http import RawAnswer
from waiting import until

ORDER = {"kind": "paid", "plant": 7, "order": {"id": "A-1"}}
STRIPE = {"id": "evt_1", "type": "charge.failed", "data": {"object": {"id": "ch_1"}}}
SLACK = {"event_id": "Ev1", "type": "event_callback", "team_id": "T1", "event": {"type": "message"}}
QUOTA = {"quota": {"events": "1/s", "burst": 2}}


def timed_hmac(
    at: float, body: Any = ORDER, *, identity: str = "r-1", secret: str = SECRET
) -> Sent:
    raw = publishers.text(body)
    mark = publishers.hexed(secret, f"{int(at)}.".encode() + raw)
    return Sent((("x-id", identity), ("x-time", str(int(at))), ("x-mark", mark)), raw)


def gitlab(at: float) -> Sent:
    sent = publishers.standard({"object_kind": "push"}, at)
    named = (
        ("X-Gitlab-Instance", "https://gitlab.example.com"),
        ("X-Gitlab-Event", "Push Hook"),
        ("Idempotency-Key", "k-1"),
    )
    return Sent((*sent.headers, *named), sent.body)


# By intake: the request of a time, and a header that the signature does not cover.
TIMED: dict[str, tuple[Callable[[float], Sent], tuple[str, str]]] = {
    "stripe": (lambda at: publishers.stripe(STRIPE, at), ("x-attempt", "2")),
    "slack": (lambda at: publishers.slack(SLACK, at), ("X-Slack-Retry-Num", "1")),
    "standard": (lambda at: publishers.standard({"type": "a"}, at), ("x-attempt", "2")),
    "gitlab": (gitlab, ("Idempotency-Key", "forged")),
    "erp": (timed_hmac, ("x-id", "forged")),
}
INTAKES: list[dict[str, Any]] = [
    {"name": "stripe", "preset": "stripe", "secret": SECRET, "route": "hooks", **QUOTA},
    {"name": "slack", "preset": "slack", "secret": SECRET, "route": "hooks", **QUOTA},
    {"name": "standard", "preset": "standard_webhooks", "secret": KEY, "route": "hooks", **QUOTA},
    {"name": "gitlab", "preset": "gitlab", "secret": KEY, "route": "hooks", **QUOTA},
    {
        "name": "erp", "route": "hooks", "event": EVENT, **QUOTA,
        "verify": {"kind": "hmac_sha256", "header": "x-mark", "timestamp": "x-time", "secret": SECRET},
    },
    {"name": "other", "preset": "stripe", "secret": SECRET, "route": "hooks"},
    {"name": "github", "preset": "github", "secret": SECRET, "route": "hooks", **QUOTA},
]  # fmt: skip


def is_duplicate(answer: RawAnswer) -> bool:
    return answer.status == 202 and answer.headers.get("skybridge-duplicate") == "true"


@pytest.mark.parametrize("name", TIMED)
async def test_a_captured_request_is_stored_once_and_uses_no_quota(name: str) -> None:
    """The issue's attack: 999 replays were stored, and then the genuine requests got 429."""
    make, (header, value) = TIMED[name]
    async with IntakeBench(INTAKES).open() as house:
        sent = make(house.clock.now())
        first = await house.post(name, sent)
        assert (first.status, is_duplicate(first)) == (202, False)
        for number in range(20):
            replay = sent.but(header, value if number % 2 else f"{value}-{number}")
            assert is_duplicate(await house.post(name, replay))
        assert len(house.log.submits) == 1
        assert house.counted() == {(name, "accepted"): 1, (name, "duplicate"): 20}
        await house.clock.advance(1.5)  # another second, another signature; the quota is as before
        genuine = make(house.clock.now())
        assert (await house.post(name, genuine)).status == 202
        assert len(house.log.submits) == 2


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("ahead", [-200.0, 0.0, 299.0])
async def test_no_replay_is_stored_as_long_as_its_time_is_accepted(name: str, ahead: float) -> None:
    """Also a publisher's whose clock is ahead: its requests are valid for longer."""
    make, _ = TIMED[name]
    async with IntakeBench(INTAKES).open() as house:
        sent = make(house.clock.now() + ahead)
        assert (await house.post(name, sent)).status == 202
        for _ in range(20):
            await house.clock.advance(30)
            answer = await house.post(name, sent)
            assert is_duplicate(answer) or answer.status == 401
        assert answer.status == 401
        assert len(house.log.submits) == 1


@pytest.mark.parametrize("name", TIMED)
async def test_a_replay_waits_for_the_result_of_the_first(name: str) -> None:
    house = IntakeBench(INTAKES, at_once=False)
    async with house.open():
        sent = TIMED[name][0](house.clock.now())
        first = asyncio.create_task(house.post(name, sent))
        await until(lambda: house.log.submits)
        repeats = house.intakes.demand(name).repeats
        others = [asyncio.create_task(house.post(name, sent)) for _ in range(5)]
        await until(lambda: repeats.waiting == 5)
        house.log.settle(0, BrokerUnavailable("down"))
        assert (await first).status == 503
        await until(lambda: len(house.log.submits) == 2)
        house.log.settle(1)
        answers = await asyncio.gather(*others)
        assert [each.status for each in answers] == [202] * 5
        assert sum(map(is_duplicate, answers)) == 4
        assert (repeats.waiting, repeats.waiting_bytes, len(repeats)) == (0, 0, 1)


async def test_what_was_not_stored_is_taken_again() -> None:
    house = IntakeBench(INTAKES, at_once=False)
    async with house.open():
        sent = TIMED["stripe"][0](house.clock.now())
        for number, fate in enumerate([BrokerUnavailable("down"), None]):
            post = asyncio.create_task(house.post("stripe", sent))
            await until(lambda: len(house.log.submits) == number + 1)  # noqa: B023
            house.log.settle(number, fate) if fate else house.log.settle(number)
            answer = await post
            assert (answer.status, is_duplicate(answer)) == (503 if fate else 202, False)


async def test_another_time_another_body_and_another_intake_are_no_replays() -> None:
    async with IntakeBench(INTAKES).open() as house:
        now = house.clock.now()
        sent = publishers.stripe(STRIPE, now)
        other = publishers.stripe({**STRIPE, "id": "evt_2"}, now)
        later = publishers.stripe(STRIPE, now + 1)
        for name, each in (("other", sent), ("other", other), ("other", later), ("stripe", sent)):
            answer = await house.post(name, each)
            assert (answer.status, is_duplicate(answer)) == (202, False)
        assert len(house.log.submits) == 4


@pytest.mark.parametrize(
    "secrets",
    [(SECRET,), ("previous",), (SECRET, "previous"), ("previous", SECRET), (SECRET, SECRET)],
)
async def test_the_signature_of_either_key_is_the_same_request(secrets: tuple[str, ...]) -> None:
    """While a secret is rotated Stripe signs with both: an attacker could leave one of them out."""
    both = {
        "name": "stripe",
        "preset": "stripe",
        "secret": SECRET,
        "previous_secret": "previous",
        "route": "hooks",
    }
    async with IntakeBench([both]).open() as house:
        now = house.clock.now()
        assert (
            await house.post("stripe", publishers.stripe(STRIPE, now, SECRET, "previous"))
        ).status == 202
        sent = publishers.stripe(STRIPE, now, *secrets)
        assert is_duplicate(await house.post("stripe", sent))
        mark = dict(sent.headers)["Stripe-Signature"]
        assert is_duplicate(
            await house.post(
                "stripe",
                sent.but("Stripe-Signature", mark.upper().replace("T=", "t=").replace("V", "v")),
            )
        )
        assert len(house.log.submits) == 1


async def test_a_forged_request_is_refused_before_it_is_looked_up() -> None:
    async with IntakeBench(INTAKES).open() as house:
        now = house.clock.now()
        assert (await house.post("stripe", publishers.stripe(STRIPE, now))).status == 202
        assert (await house.post("stripe", publishers.stripe(STRIPE, now, "x"))).status == 401


async def test_a_challenge_is_answered_each_time() -> None:
    asked = {"token": "t", "challenge": "abc", "type": "url_verification"}
    async with IntakeBench(INTAKES).open() as house:
        sent = publishers.slack(asked, house.clock.now())
        for _ in range(3):
            assert (await house.post("slack", sent)).body == b"abc"


async def test_a_reload_forgets_nothing() -> None:
    async with IntakeBench(INTAKES).open() as house:
        sent = publishers.stripe(STRIPE, house.clock.now())
        assert (await house.post("stripe", sent)).status == 202
        house.reload(INTAKES)
        assert is_duplicate(await house.post("stripe", sent))


async def test_the_first_replay_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with IntakeBench(INTAKES).open() as house:
        sent = publishers.stripe(STRIPE, house.clock.now())
        with caplog.at_level(logging.INFO, logger="app.gateway.intakes"):
            for _ in range(4):
                await house.post("stripe", sent)
        entries: list[Any] = [each for each in caplog.records if "repeat" in each.message]
        assert [each.event_id for each in entries] == ["evt_1"]


async def test_a_captured_request_whose_body_is_signed_uses_no_quota_either() -> None:
    """The same attack on GitHub's: its repeats were duplicates already, and still used up the quota."""
    async with IntakeBench(INTAKES).open() as house:
        sent = publishers.github(ORDER)
        assert (await house.post("github", sent)).status == 202
        for _ in range(20):
            assert is_duplicate(await house.post("github", sent))
        assert (await house.post("github", sent.but("X-GitHub-Delivery", "d-2"))).status == 202
        assert (await house.post("github", sent.but("X-GitHub-Delivery", "d-3"))).status == 429
        assert is_duplicate(await house.post("github", sent))
