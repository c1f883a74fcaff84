"""Quotas over a socket: 429 says when and how much, and no producer pays for another."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.access.caller import EventSender
from app.gateway.door import MAX_ADDRESSES, Authenticator
from app.interfaces.clock import SystemClock
from app.model.quota import EventQuota
from example_counts import examples
from producer_listener import (
    KEY,
    OTHER_KEY,
    bearer,
    event_attributes,
    producer_house,
    request_in_mode,
)
from raw_http import event, request


class Still(SystemClock):
    """Its time passes when a test says so."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def monotonic(self) -> float:
        return self.at


QUOTA = {"events": "10/s", "burst": 4}


async def test_beyond_its_quota_a_producer_is_told_when_to_come_again() -> None:
    """``Retry-After``, and the fields of the draft; the connection stays."""
    clock = Still()
    listed = [
        {"name": "shop", "keys": [KEY], "quota": QUOTA},
        {"name": "other", "keys": [OTHER_KEY]},
    ]
    async with producer_house(listed, clock=clock) as house:
        peer = await house.connection()
        single = request_in_mode("binary", event_attributes(), "/events", bearer(KEY))
        batch = request_in_mode("batch", event_attributes(), "/events", bearer(KEY))  # of two
        for raw, status in (
            (batch, 202),
            (single, 202),
            (batch, 429),
            (single, 202),
            (single, 429),
        ):
            await peer.send(raw)
            answer = await peer.answer()
            assert answer.status == status
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["ratelimit-policy"] == '"events";q=4;w=1'
        assert answer.headers["ratelimit"] == '"events";r=0;t=1'
        assert json.loads(answer.body)["type"] == "urn:skybridge:problem:quota-exceeded"
        assert len(house.log.bodies) == 4
        await peer.send(request_in_mode("binary", event_attributes(), "/events", bearer(OTHER_KEY)))
        assert (await peer.answer()).status == 202
        clock.at += 0.1
        await peer.send(single)
        assert (await peer.answer()).status == 202
        counts = house.counters.values()
        assert counts["producer_refusals"] == {("shop", "quota-exceeded"): 2}
        assert counts["producer_events"] == {("shop",): 5, ("other",): 1}
        await peer.close()


@pytest.mark.parametrize("mode", ["binary", "structured", "batch"])
async def test_beyond_its_quota_nothing_of_a_body_is_read(mode: str) -> None:
    """A body that is no gzip would be refused as such by who looks at it, and cost one event."""
    listed = [{"name": "shop", "keys": [KEY], "quota": {"events": "1/h", "burst": 2}}]
    async with producer_house(listed, clock=Still()) as house:
        peer = await house.connection()
        raw = request_in_mode(
            mode, event_attributes(), "/events", [*bearer(KEY), ("content-encoding", "gzip")]
        )
        statuses = []
        for each in (
            raw,
            request_in_mode("binary", event_attributes(), "/events", bearer(KEY)),
            raw,
        ):
            await peer.send(each)
            answer = await peer.answer()
            statuses.append(answer.status)
        assert statuses == [400, 202, 429]
        assert answer.headers["retry-after"] == "3600"
        assert answer.headers["ratelimit"] == '"events";r=0;t=7200'
        await peer.close()


def rubbish() -> dict[str, tuple[bytes, int]]:
    """What a producer may send that is no event, or not to be taken: with its status."""
    structured = ("content-type", "application/cloudevents+json")
    batch = ("content-type", "application/cloudevents-batch+json")
    coded = ("content-encoding", "gzip")
    keys = [("skybridge-key", "a"), ("skybridge-key", "b")]
    own = bearer(KEY)
    return {
        "no attributes": (request("/events", b"{}", headers=own), 400),
        "no JSON": (request("/events", b"{", headers=[structured, *own]), 400),
        "no batch": (request("/events", b"[1, 2, 3]", headers=[batch, *own]), 400),
        "no gzip": (request_in_mode("binary", event_attributes(), "/events", [coded, *own]), 400),
        "unknown coding": (
            request_in_mode("binary", event_attributes(), "/events", [(coded[0], "br"), *own]),
            415,
        ),
        "two keys": (request_in_mode("binary", event_attributes(), "/events", [*keys, *own]), 400),
        "not allowed": (
            request_in_mode("binary", event_attributes(source="/x"), "/events", own),
            403,
        ),
        "no such route": (request_in_mode("binary", event_attributes(), "/events/none", own), 404),
    }


@pytest.mark.parametrize("case", rubbish())
async def test_a_request_that_is_refused_costs_one_event(case: str) -> None:
    """Or a producer of rubbish would have no bound: reading it costs as much as an event."""
    raw, status = rubbish()[case]
    may = {"sources": ["/shop/*"]}
    quota = {"events": "1/h", "burst": 3}
    listed = [{"name": "shop", "keys": [KEY], "may": may, "quota": quota}]
    async with producer_house(listed, clock=Still()) as house:
        peer = await house.connection()
        statuses = []
        for _ in range(4):
            await peer.send(raw)
            statuses.append((await peer.answer()).status)
        assert statuses == [status] * 3 + [429]
        assert house.log.submits == []
        await peer.close()


async def test_a_batch_beyond_its_quota_uses_nothing_of_it() -> None:
    """A producer that asks too early is not punished for it."""
    listed = [{"name": "shop", "keys": [KEY], "quota": {"events": "1/h", "burst": 3}}]
    async with producer_house(listed, clock=Still()) as house:
        peer = await house.connection()
        batch = request_in_mode("batch", event_attributes(), "/events", bearer(KEY))  # of two
        single = request_in_mode("binary", event_attributes(), "/events", bearer(KEY))
        statuses = []
        for raw in (batch, batch, batch, single, single):
            await peer.send(raw)
            statuses.append((await peer.answer()).status)
        assert statuses == [202, 429, 429, 202, 429]
        await peer.close()


async def test_rubbish_of_strangers_is_of_the_quota_of_their_address() -> None:
    quota = EventQuota.model_validate({"events": "1/h", "burst": 2})
    async with producer_house([], is_open=True, address_quota=quota, clock=Still()) as house:
        raw = request("/events", b"{}")
        assert [(await house.ask(raw)).status for _ in range(3)] == [400, 400, 429]


async def test_who_is_refused_many_times_lets_others_through_meanwhile() -> None:
    """Thousands of requests in one read are answered a few at a time."""
    listed = [
        {"name": "shop", "keys": [KEY], "quota": {"events": "1/h", "burst": 1}},
        {"name": "other", "keys": [OTHER_KEY]},
    ]
    count = 2_000
    async with producer_house(listed, clock=Still()) as house:
        greedy, other = await house.connection(), await house.connection()
        greedy.writer.write(
            request_in_mode("binary", event_attributes(), "/events", bearer(KEY)) * count
        )
        await other.send(
            request_in_mode("binary", event_attributes(), "/events", bearer(OTHER_KEY))
        )
        assert (await other.answer()).status == 202
        assert house.counters.total("events_refused") < count / 2
        statuses = [(await greedy.answer()).status for _ in range(count)]
        assert statuses == [202] + [429] * (count - 1)
        await greedy.close()
        await other.close()


async def test_a_reload_gives_nobody_the_burst_again() -> None:
    listed = [{"name": "shop", "keys": [KEY], "quota": QUOTA}]
    async with producer_house(listed, clock=Still()) as house:
        raw = request_in_mode("batch", event_attributes(), "/events", bearer(KEY))
        assert [(await house.ask(raw)).status for _ in range(2)] == [202, 202]
        slow = {**QUOTA, "events": "1/h"}
        house.apply_producers([{"name": "shop", "keys": [KEY], "quota": slow}])
        assert (await house.ask(raw)).status == 429


async def test_strangers_share_the_quota_of_their_address() -> None:
    """Where access is open; producers have their own."""
    clock = Still()
    quota = EventQuota.model_validate(QUOTA)
    listed = [{"name": "shop", "keys": [KEY]}]
    async with producer_house(listed, is_open=True, address_quota=quota, clock=clock) as house:
        statuses = [(await house.ask(event(n))).status for n in range(6)]
        assert statuses == [202] * 4 + [429] * 2
        assert (
            await house.ask(request_in_mode("binary", event_attributes(), "/events", bearer(KEY)))
        ).status == 202
        assert "producer_refusals" not in house.counters.values()


SHARING = [
    ("192.0.2.1", "192.0.2.2", False),
    ("192.0.2.1", "192.0.2.1", True),
    ("2001:db8::1", "2001:db8::2", True),
    ("2001:db8:1:2::1", "2001:db8:1:2:a:b:c:d", True),
    ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
    ("2001:db8::1:0:0:1", "2001:db8::1", True),
    ("2001:db8:0:1::1", "2001:db8::1", False),
    ("2001::5:1:2:3:4", "2001::6:1:2:3:4", False),
    ("2001::5:1:2:3:4", "2001:0:0:5::1", True),
    ("fe80::1%eth0", "fe80::2%eth0", True),
    ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
]


@pytest.mark.parametrize(("one_address", "other", "shared"), SHARING)
async def test_a_quota_is_of_an_ipv4_address_or_of_an_ipv6_network(
    one_address: str, other: str, shared: bool
) -> None:
    """/64: the least that one sender has, so it cannot take another address for more."""
    async with address_house() as door:
        sender = stranger(door, one_address)
        assert (stranger(door, other) is sender) is shared


async def test_addresses_are_bounded_and_the_longest_silent_is_forgotten() -> None:
    async with address_house() as door:
        first, second = stranger(door, "192.0.2.1"), stranger(door, "192.0.2.2")
        for number in range(MAX_ADDRESSES - 2):
            stranger(door, f"10.0.{number >> 8}.{number & 255}")
        assert stranger(door, "192.0.2.1") is first
        stranger(door, "198.51.100.1")  # one too many
        assert len(door._addresses) == MAX_ADDRESSES  # type: ignore[arg-type]
        assert stranger(door, "192.0.2.1") is first
        assert stranger(door, "192.0.2.2") is not second
        assert len(door._addresses) == MAX_ADDRESSES  # type: ignore[arg-type]


@asynccontextmanager
async def address_house() -> AsyncIterator[Authenticator]:
    quota = EventQuota.model_validate(QUOTA)
    async with producer_house([], is_open=True, address_quota=quota) as house:
        door = house.server.resource.door
        assert door is not None
        yield door


def stranger(door: Authenticator, address: str) -> EventSender:
    found = door.judge([], {}, (), address)
    assert isinstance(found, EventSender)
    return found


@pytest.mark.parametrize("seconds", [60])
async def test_ten_times_the_rate_gets_rate_and_burst(seconds: int) -> None:
    """By a clock of our own, through the whole of a listener."""
    clock = Still()
    quota = {"events": "5/s", "burst": 10}
    async with producer_house(
        [{"name": "shop", "keys": [KEY], "quota": quota}], clock=clock
    ) as house:
        peer = await house.connection()
        raw = request_in_mode("binary", event_attributes(), "/events", bearer(KEY))
        taken = 0
        for _ in range(seconds * 50):
            await peer.send(raw)
            taken += (await peer.answer()).status == 202
            clock.at += 1 / 50
        await peer.close()
        assert taken == pytest.approx(5 * seconds + 10, rel=0.02)


@pytest.mark.nightly
async def test_more_than_the_rate_gets_rate_and_burst_in_a_real_minute() -> None:
    """Sent as fast as it goes, by the clock of the system. A token bucket beside it says how many are due, so a
    machine that stalls for longer than the burst lasts changes nothing."""
    rate, burst = 20, 100
    quota = {"events": f"{rate}/s", "burst": burst}
    async with producer_house([{"name": "shop", "keys": [KEY], "quota": quota}]) as house:
        peer = await house.connection()
        raw = request_in_mode("binary", event_attributes(), "/events", bearer(KEY))
        begun = last = time.monotonic()
        level, sent, taken, due = float(burst), 0, 0, 0
        while last - begun < 60:
            await peer.send(raw)
            taken += (await peer.answer()).status == 202
            sent += 1
            now = time.monotonic()
            level, last = min(burst, level + (now - last) * rate), now
            if level >= 1:
                level, due = level - 1, due + 1
        await peer.close()
    assert sent > taken, "the quota has refused some"
    assert taken == pytest.approx(due, rel=0.02)


VALUES = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=200).map(lambda raw: b"Bearer " + raw),
    st.lists(st.binary(max_size=40), min_size=3, max_size=3).map(
        lambda p: b"Bearer " + b".".join(p)
    ),
)
_KEPT = bytes(set(range(256)) - set(b"\r\n\0"))


@given(values=st.lists(VALUES, min_size=1, max_size=30))
@examples(60)
async def test_no_authorization_is_a_fault_of_ours_or_lets_anybody_in(values: list[bytes]) -> None:
    """Whatever stands there: 401, or 400 for what is no HTTP."""
    jwt = {"issuer": "http://127.0.0.1:1", "audience": "a", "match": {"azp": "a"}}
    listed = [{"name": "shop", "keys": [KEY]}, {"name": "w", "jwt": jwt}]
    async with producer_house(listed) as house:
        for value in values:
            kept = bytes(byte for byte in value if byte in _KEPT)
            head = (
                b"POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nauthorization: " + kept
            )
            answer = await house.ask(head + b"\r\n\r\n")
            assert answer.status in {400, 401}
        assert house.log.submits == []
