"""Bodies that never end, at intakes and of strangers: they hold up no other sender."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import publishers
from app.access.who import ProducerDirectory
from app.gateway.door import Authenticator
from app.gateway.limits import KIB, MIB
from app.model.producer import Producer
from app.telemetry import Counters
from intake_bench import INTAKES, IntakeBench
from listening import ImmediatePublisher, listening, resource_of
from producer_listener import KEY, OTHER_KEY, bearer, producers
from raw_http import RawAnswer, RawConnection, request
from virtual_clock import VirtualClock
from waiting import until

BODY = 100 * KIB
UNFINISHED = 40
BOUND = 2 * MIB  # far less than the unfinished bodies together


def unfinished(target: str, *headers: tuple[str, str]) -> bytes:
    """All of a request but the last byte of its body."""
    head = request(target, headers=[*headers, ("content-length", str(BODY))], length=False)
    return head + b"x" * (BODY - 1)


def event(*headers: tuple[str, str]) -> bytes:
    named = [
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "/shop/1"),
        ("ce-type", "com.example.order.paid"),
    ]
    return request("/events", b"x" * BODY, headers=[*named, *headers])  # fmt: skip


@asynccontextmanager
async def flood(
    port: int, raw: bytes, count: int = UNFINISHED
) -> AsyncIterator[list[RawConnection]]:
    async with AsyncExitStack() as stack:
        peers = []
        for _ in range(count):
            peer = await stack.enter_async_context(await RawConnection.open(port))
            peer.writer.write(raw)
            peers.append(peer)
        yield peers


async def ask(port: int, raw: bytes) -> RawAnswer:
    async with await RawConnection.open(port) as peer:
        await peer.send(raw)
        return await peer.answer()


def code(answer: RawAnswer) -> str:
    return str(json.loads(answer.body)["type"]).rpartition(":")[2]


@pytest.mark.parametrize(
    "framing", [("content-length", "999999"), ("transfer-encoding", "chunked")]
)
async def test_an_unknown_intake_is_404_at_the_head(framing: tuple[str, str]) -> None:
    """Before any byte of the body, which a sender need not send."""
    async with IntakeBench().open() as house, await RawConnection.open(house.server.port) as peer:
        await peer.send(request("/in/nobody", headers=[framing], length=False))
        answer = await peer.answer()
        assert (answer.status, code(answer)) == (404, "unknown-intake")
        assert resource_of(house.server).receiving == 0
        assert house.counted("events_refused") == {("unknown-intake",): 1}
        assert house.counted() == {}


async def test_a_sender_that_asks_first_is_answered_404_and_not_100() -> None:
    async with IntakeBench().open() as house, await RawConnection.open(house.server.port) as peer:
        headers = [("content-length", "9"), ("expect", "100-continue")]
        await peer.send(request("/in/nobody", headers=headers, length=False))
        assert (await peer.answer()).status == 404


async def test_unfinished_bodies_of_one_intake_leave_room_for_others_and_for_events() -> None:
    """The issue's attack: 400 at one name made a producer wait."""
    async with IntakeBench().open(receiving=BOUND) as house:
        port = house.server.port
        async with flood(port, unfinished("/in/github")) as peers:
            await until(lambda: house.counted("events_refused").get(("bound-reached",), 0) > 0)
            assert resource_of(house.server).receiving <= BOUND
            sent = publishers.shopify({"text": "x" * 20_000})
            assert (await house.post("shopify", sent)).status == 202
            assert (await ask(port, event())).status == 202
            refused = [each for each in peers if each.reader._buffer]  # type: ignore[attr-defined]
            answer = await refused[0].answer()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        await until(lambda: resource_of(house.server).receiving == 0)


async def test_every_intake_at_once_leaves_the_half_of_the_producers() -> None:
    async with IntakeBench().open(receiving=BOUND) as house, AsyncExitStack() as stack:
        for each in INTAKES:
            raw = unfinished(f"/in/{each['name']}")
            await stack.enter_async_context(flood(house.server.port, raw, 15))
        await until(lambda: house.counted("events_refused").get(("bound-reached",), 0) >= 15)
        answers = [
            await ask(house.server.port, unfinished("/events")[:-BODY] + b"x" * BODY)
            for _ in range(2)
        ]
        assert {each.status for each in answers} == {400}  # read whole: it is no event
        async with flood(house.server.port, unfinished("/events"), 9):
            before = house.counted("events_refused")["bound-reached",]
            await until(lambda: resource_of(house.server).receiving > 9 * BODY)
            assert (await ask(house.server.port, event())).status == 202
            assert house.counted("events_refused")["bound-reached",] == before


def open_door(*, has_producers: bool = True) -> Authenticator:
    """A door that lets strangers in beside a producer with a key."""
    known = [Producer.model_validate(each) for each in producers("https://i.example")[:1]]
    of: Any = lambda _: None  # noqa: E731
    return Authenticator(
        ProducerDirectory(known if has_producers else []), of, VirtualClock(), is_open=True
    )


async def test_strangers_under_open_access_leave_room_for_producers() -> None:
    """And bodies for other paths, which anyone may send, do too."""
    counters = Counters()
    door = open_door()
    async with (
        listening(ImmediatePublisher(), receiving=BOUND, door=door, counters=counters) as server,
        flood(server.port, unfinished("/events")),
        flood(server.port, unfinished("/x"), 5),
    ):
        await until(lambda: counters.values()["events_refused"].get(("bound-reached",), 0) > 0)
        assert resource_of(server).receiving <= BOUND
        for key in (KEY, OTHER_KEY):
            assert (await ask(server.port, event(*bearer(key)))).status == 202


async def test_without_producers_the_senders_of_events_are_no_strangers() -> None:
    """There is nobody to keep room for but intakes."""
    door = open_door(has_producers=False)
    async with (
        listening(ImmediatePublisher(), receiving=BOUND, door=door) as server,
        flood(server.port, unfinished("/events"), 12),
    ):
        await until(lambda: resource_of(server).receiving > 12 * BODY)


async def test_the_rest_of_a_body_that_was_answered_counts_no_more() -> None:
    """An ordinary request is answered by its head; what follows is thrown away as it comes."""
    async with (
        listening(ImmediatePublisher(), receiving=BOUND) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(unfinished("/nothing")[:-50_000])
        assert (await peer.answer()).status == 404
        await peer.send(b"x" * 40_000)
        await until(lambda: resource_of(server).receiving == 0)


async def test_a_reload_divides_anew_and_what_is_held_stays_counted() -> None:
    async with IntakeBench().open(receiving=BOUND) as house:
        async with flood(house.server.port, unfinished("/in/github"), 3) as peers:
            await until(lambda: resource_of(house.server).receiving > 3 * (BODY - 1))
            house.reload(INTAKES[:1])
            for peer in peers:
                await peer.send(b"x")
                assert (await peer.answer()).status == 401
        assert resource_of(house.server).receiving == 0
