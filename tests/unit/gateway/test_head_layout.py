"""Which heads are compiled, and what a compiled head reads."""

from __future__ import annotations

from typing import Any

import pytest

from app.bindings.headers import FIELD_NAMES
from app.gateway import head_layout
from app.gateway.head_layout import HeadLayout, HeadLayouts, _compiled
from app.gateway.publish import PublishPolicy
from app.model.route import Route
from app.routing.plan import Router
from app.telemetry import Counters
from configuration import route
from listening import HeldPublisher, ImmediatePublisher, connection_of, listening, publishing
from raw_http import RawConnection, event
from scripted_log import ScriptedLog
from waiting import until

LINE = b"POST /events HTTP/1.1"


def learned(data: bytes, layouts: HeadLayouts | None = None) -> HeadLayout | None:
    """Return the layout that a request gets, whose fields are read as the parser reads well-formed ones."""
    lines = data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    pairs = [each.partition(b":")[::2] for each in lines]
    headers = [(FIELD_NAMES[name], value.strip(b" \t")) for name, value in pairs]
    return (layouts or HeadLayouts(often=1)).learn(data, LINE, headers, None)


def test_a_head_is_compiled_when_it_came_often() -> None:
    layouts = HeadLayouts(often=3)
    assert [learned(event(n), layouts) is None for n in range(4)] == [True, True, False, False]
    assert layouts.newest is learned(event(9), layouts)


def test_other_values_make_no_other_head() -> None:
    layouts = HeadLayouts(often=1)
    assert learned(event(1), layouts) is learned(event("x", b"other"), layouts)
    assert learned(event(1, ce_subject="s"), layouts) is not learned(event(1), layouts)


@pytest.mark.parametrize(
    "name",
    ["expect", "prefer", "skybridge-key", "content-encoding", "origin", "transfer-encoding", "upgrade"],
)  # fmt: skip
def test_a_field_that_asks_for_more_is_left_to_the_parser(name: str) -> None:
    assert learned(event(1, **{name: "x"})) is None


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (b"host: x\r\n", b""),
        (b"host: x\r\n", b"host: x\r\nhost: x\r\n"),
        (b"host: x", b"host:x"),
        (b"host: x", b"host:  x"),
        (b"ce-id: 1", b"ce-id: 1 "),
        (b"ce-id: 1", b"ce-id: %31"),
        (b"content-length: 2\r\n", b""),
        (b"content-length: 2", b"content-length: 02"),
        (b"content-length: 2", b"content-length: 1"),
        (b"host: x", b"host: x\r\n" + b"x" * 3000 + b": y"),
    ],
)
def test_a_head_that_is_unusual_is_left_to_the_parser(part: bytes, instead: bytes) -> None:
    whole = event(1)
    assert part in whole
    assert learned(whole.replace(part, instead)) is None


def test_only_a_request_that_came_whole_and_alone_is_read() -> None:
    whole = event(1)
    layout = learned(whole)
    assert layout is not None
    assert layout.read(whole) is not None
    for other in (whole[:-1], whole + b"P", whole + whole, whole[1:], b""):
        assert layout.read(other) is None


def test_a_head_is_compiled_later_if_its_request_was_unusual_when_it_came_often() -> None:
    """A value with a percent sign is no reason to read all requests of the sender by the parser."""
    layouts = HeadLayouts(often=2)
    found = [learned(event(one), layouts) for one in ("1", "a%20b", "3", "4", "5")]
    assert [layout is None for layout in found] == [True, True, True, False, False]


def test_more_heads_than_there_is_room_for_are_not_compiled_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes as long as some 50 requests."""
    monkeypatch.setattr(head_layout, "_LAYOUTS", 4)
    compiled = []
    monkeypatch.setattr(head_layout, "_compiled", lambda *of: compiled.append(of) or _compiled(*of))
    layouts = HeadLayouts(often=10)
    for _ in range(40):
        for agent in range(6):
            learned(event(1, user_agent=f"client/{agent}"), layouts)
    assert len(compiled) <= 40 * 6 / 10


async def test_heads_of_two_forms_take_turns_on_a_connection() -> None:
    """Each request is read as it would be without the other."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        for number in range(6):
            await peer.send(event(number, b"%d" % number, **({"x_own": "y"} if number % 3 else {})))
            assert (await peer.answer()).status == 202
        await peer.send(event("a%20b")[:30])
        await until(lambda: connection_of(server).is_receiving())
        await peer.send(event("a%20b")[30:], event(7), event(8))
        assert [(await peer.answer()).status for _ in range(3)] == [202] * 3
    assert publisher.ids == ["0", "1", "2", "3", "4", "5", "a%20b", "7", "8"]
    assert [request.body for request in publisher.requests[:6]] == [b"%d" % n for n in range(6)]
    assert sum(request.layout is not None for request in publisher.requests) == 2


async def test_answers_to_compiled_heads_leave_in_the_order_of_the_requests() -> None:
    publisher = HeldPublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        for number in range(3):
            await peer.send(event(number))
            await publisher.holds(number + 1)
        publisher.release(2, 1, 0)
        assert [(await peer.answer()).body for _ in range(3)] == [b"0", b"1", b"2"]
    assert [request.layout is not None for request in publisher.requests] == [False, True, True]


async def test_a_compiled_head_may_not_exceed_the_bounds_of_a_later_configuration() -> None:
    """A connection has the limits with which it began."""
    publisher = ImmediatePublisher()
    async with (
        listening(publisher, body=100) as server,
        await RawConnection.open(server.port) as peer,
    ):
        for body, status in ((b"x", 202), (b"x" * 100, 202), (b"x" * 101, 413)):
            await peer.send(event(1, body))
            assert (await peer.answer()).status == status
    assert [len(request.body) for request in publisher.requests] == [1, 100]


async def test_a_new_connection_begins_with_the_newest_layout_if_its_bounds_allow() -> None:
    publisher = ImmediatePublisher()
    async with listening(publisher) as server:
        for _ in range(2):
            async with await RawConnection.open(server.port) as peer:
                await peer.send(event(1))
                assert (await peer.answer()).status == 202
        assert [request.layout is not None for request in publisher.requests] == [False, True]
    async with listening(publisher, header_fields=7) as server:
        server.resource.layouts.newest = publisher.requests[1].layout
        async with await RawConnection.open(server.port) as peer:
            await peer.send(event(1))
            assert (await peer.answer()).status == 202
    async with listening(publisher, header_fields=6) as server:
        server.resource.layouts.newest = publisher.requests[1].layout
        async with await RawConnection.open(server.port) as peer:
            await peer.send(event(1))
            assert (await peer.answer()).status == 431


async def test_the_plan_of_a_layout_ends_with_its_configuration() -> None:
    log: Any = ScriptedLog(at_once=True)
    counters = Counters()
    publisher = publishing([route("before")], log, counters)
    async with (
        listening(publisher, counters=counters) as server,
        await RawConnection.open(server.port) as peer,
    ):
        for topic in ("before", "before", "after"):
            router = Router([Route.model_validate(route(topic))])
            publisher.policy = PublishPolicy(router=router)
            await peer.send(event(1))
            assert (await peer.answer()).status == 202
    assert [submitted.topic for submitted in log.submits] == ["before", "before", "after"]
