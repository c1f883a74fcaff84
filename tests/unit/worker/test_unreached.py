"""Rule 6: attempts that end before the first byte of their request use no step of any schedule."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from itertools import pairwise

import pytest

from app.delivery.outcomes import UNSENT
from app.interfaces import SinkAnswer
from app.model.message import Partition
from app.sinks.http_client import HttpClient
from delivery_fixtures import target
from raw_target import PlayedConnection, RawTarget
from waiting import until
from worker_doubles import OK, an_event

__all__ = ["target"]

ORDERS = Partition("orders", 0)
GROUP = "skybridge.test.billing"
DOWN = SinkAnswer(None, "connect", "[Errno 111] Connection refused")
LATE = SinkAnswer(None, "timeout", "no connection within 3 s", unsent=True)
LOOPBACK = ("127.0.0.0/8", "*.test")


class Names:
    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(self, host: str) -> Sequence[str]:
        if not self.addresses:
            raise OSError(f"{host} is unknown")
        return self.addresses


def outcomes(rig):
    return [each.outcome for each in reversed([*rig.attempts.recent(1_000)])]


async def passed(rig, seconds, each=0.25):
    for _ in range(int(seconds / each)):
        await rig.clock.advance(each)


@pytest.mark.parametrize(
    ("answer", "hold"),
    [*((SinkAnswer(None, each), 0) for each in sorted(UNSENT)), (LATE, 0), (LATE, 1)],
)
async def test_one_key_of_a_target_that_cannot_be_reached_makes_no_dead_letter(rig, answer, hold):
    """The schedule has one wait: two attempts that were sent would use it up."""
    rig.sink.default = answer
    await rig.publish(*(an_event(n, "one") for n in range(4)))
    await rig.begin(retry={"schedule": ["1s"], "hold": hold})
    await rig.state("paused")
    assert f"the target cannot be reached: {answer.fault}" in rig.status.cause
    assert len(rig.sink.requests) == 1, "the first failure pauses it"
    await passed(rig, 300, 1.0)
    assert 6 <= len(rig.sink.requests) <= 20, "pauses double from 1 s to 60 s"
    assert (rig.store.letters.rows, rig.status.parked_rows) == ([], 0)
    assert set(outcomes(rig)) == {"unsent"}
    rig.sink.default = OK
    while rig.log.committed(GROUP, ORDERS) < 4:
        await rig.clock.advance(1.0)
    assert [each for each in rig.sink.answered if each != "0"] == ["1", "2", "3"]
    delivered = [each for each in rig.attempts.recent(100) if each.outcome == "delivered"]
    assert {each.number for each in delivered} == {1}, "what was not sent does not count"


async def test_the_same_failure_after_its_first_byte_takes_steps(rig):
    rig.sink.default = SinkAnswer(None, "timeout", "no answer within 15 s")
    await rig.publish(an_event(0))
    await rig.begin(retry={"schedule": ["1s"]})
    await rig.answered(0)
    await rig.clock.advance(1.0)
    await until(lambda: [each.cause for each in rig.store.letters.rows] == ["schedule-exhausted"])
    assert [each.attempts for each in rig.store.letters.rows] == [2]


async def test_while_others_are_answered_only_the_lane_waits(rig):
    """A balancer with a backend that is gone: 1 s, doubled, by the jitter of the tests three quarters of it."""
    await rig.publish(an_event(0, "bad"))
    rig.sink.answer(0, *[DOWN] * 8)
    rig.sink.answer(1, OK)
    await rig.publish(an_event(1, "good"))
    rig.sink.hold(0)
    await rig.begin(retry={"schedule": ["1s"]}, concurrency=2)
    await until(lambda: rig.sink.answered == ["1"])
    rig.sink.release(0)
    await until(lambda: rig.status.waiting == 1)
    assert rig.status.state == "running"
    for number, wait in enumerate((0.75, 1.5, 3.0), start=2):
        await rig.publish(an_event(number, f"good{number}"))
        await until(lambda number=number: str(number) in rig.sink.answered)  # answered just now
        before = rig.sink.ids.count("0")
        await rig.clock.advance(wait - 0.05)
        assert rig.sink.ids.count("0") == before
        await rig.clock.advance(0.06)
        await until(lambda before=before: rig.sink.ids.count("0") == before + 1)
        assert rig.status.state == "running"
    for _ in range(60):
        await rig.clock.advance(0.5)
        if rig.status.state == "paused":  # nothing was answered in the last 10 s
            break
    assert rig.status.state == "paused"
    await passed(rig, 40, 0.5)
    await rig.committed(5)
    assert rig.store.letters.rows == []


async def test_the_waits_of_a_lane_stop_growing_at_a_minute_and_begin_again_once_it_was_sent(rig):
    rig.sink.answer(0, *[DOWN] * 9, SinkAnswer(500), DOWN)
    await rig.publish(an_event(0, "bad"))
    rig.sink.hold(0)
    await rig.begin(retry={"schedule": ["1s"]}, concurrency=2, window=10_000)
    sent = 0
    moments = []
    number = 1
    while len(rig.sink.answered) < 1 or rig.sink.ids.count("0") < 12:
        await rig.publish(an_event(number, f"k{number}"))
        await until(lambda number=number: str(number) in rig.sink.answered)
        if number == 1:
            rig.sink.release(0)
        number += 1
        await rig.clock.advance(0.25 if sent < 4 or sent > 9 else 2.5)
        if rig.sink.ids.count("0") > sent:
            sent = rig.sink.ids.count("0")
            moments.append(rig.clock.monotonic())
    waits = [b - a for a, b in pairwise(moments)]
    assert waits[:3] == [pytest.approx(each, abs=0.51) for each in (0.75, 1.5, 3.0)]
    assert max(waits) == pytest.approx(45.0, abs=2.6)
    assert waits[-1] == pytest.approx(0.75, abs=0.51)
    assert rig.store.letters.rows == []


async def test_a_parked_key_uses_no_step_either(rig):
    rig.log.clock = rig.clock
    rig.sink.answer(0, SinkAnswer(500), *[DOWN] * 3)
    await rig.publish(an_event(0, "bad"), an_event(1, "bad"))
    await rig.begin(retry={"schedule": ["1s", "1s"], "hold": 0})
    await until(lambda: rig.status.parked_rows == 2)
    for number in range(2, 40):
        await rig.publish(an_event(number, f"k{number}"))
        await rig.clock.advance(0.5)
        rows = {row.event.id: row for row in rig.store.parked.rows_by_id.values()}
        assert "0" not in rows or (rows["0"].steps, rows["0"].attempts) == (1, 1)
    await rig.committed(40)
    assert rig.store.letters.rows == []
    assert [each for each in rig.sink.answered if each in "01"] == ["0"] * 5 + ["1"]


async def _begin_at(rig, url, **client):
    """A webhook on a real socket, with one key and a schedule of one wait."""
    rig.client = HttpClient(**{"allow_private": LOOPBACK, **client})
    await rig.publish(*(an_event(n, "one") for n in range(4)))
    await rig.begin(sink=url, retry={"schedule": ["1s"], "hold": 1})


async def _tried(rig, times):
    """Probes of a target that cannot be reached, on the clock of the test."""
    await rig.state("paused")
    while len([*rig.attempts.recent(1_000)]) < times:
        await rig.clock.advance(0.5)
        await until(lambda: rig.status.in_flight == 0)


@pytest.mark.parametrize(
    ("url", "client", "fault"),
    [
        ("http://127.0.0.1:{closed}/", {}, "connect"),
        ("http://gone.test/", {"lookup": Names()}, "dns"),
        (
            "https://gone.test/",
            {"lookup": Names("10.0.0.1"), "allow_private": ()},
            "blocked-address",
        ),
        ("https://10.0.0.1/", {"allow_private": ()}, "blocked-address"),
        ("https://127.0.0.1:{target}/", {}, "tls"),
    ],
)
async def test_no_real_target_that_cannot_be_reached_makes_dead_letters(rig, url, client, fault):
    async def answer_in_plain(played: PlayedConnection) -> None:
        await played.send(b"HTTP/1.1 400 no TLS here\r\n\r\n")

    raw = RawTarget(answer_in_plain)
    await raw.start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        places = {"closed": taken.getsockname()[1], "target": raw.port}
        await _begin_at(rig, url.format(**places), **client)
        await _tried(rig, 5)
    await rig.stop()
    await rig.client.stop()
    await raw.stop()
    assert fault in next(iter(rig.attempts.recent(1))).detail
    assert (rig.store.letters.rows, set(outcomes(rig))) == ([], {"unsent"})


async def test_a_target_that_comes_back_gets_everything_in_order(rig, target):
    await target.stop()
    await _begin_at(rig, target.url)
    await _tried(rig, 6)
    assert rig.store.letters.rows == []
    await target.start()
    while rig.log.committed(GROUP, ORDERS) < 4:
        await rig.clock.advance(0.5)
    assert target.ids == ["0", "1", "2", "3"]
    await rig.stop()
    await rig.client.stop()
