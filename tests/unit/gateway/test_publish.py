"""One request becomes one answer, exactly as design.md's HTTP says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.bindings.headers import NotACloudEvent
from app.errors import (
    BoundReached,
    BrokerRefused,
    BrokerUnavailable,
    InvalidEvent,
    PublishUnknown,
    SenderError,
)
from app.gateway.answers import ACCEPTED, HttpAnswer
from app.gateway.limits import ListenerLimits
from app.gateway.publish import Publisher, PublishPolicy
from app.gateway.request import EventRequest
from app.model.log_name import LogName
from app.model.receipt import Receipt
from app.model.route import Route
from app.routing.plan import NoRoute, Router, UnknownRoute
from app.telemetry import Counters
from scripted_log import ScriptedLog
from waiting import until

ROUTES = [
    {"name": "shop", "filters": [{"prefix": {"type": "shop."}}], "to": {"broker": "a", "topic": "shop"}},
    {
        "name": "both",
        "filters": [{"exact": {"type": "both"}}],
        "to": [{"broker": "a", "topic": "x"}, {"broker": "b", "topic": "y"}],
    },
    {
        "name": "keyed",
        "filters": [{"exact": {"type": "keyed"}}],
        "to": {"broker": "a", "topic": "keyed"},
        "key": {"mapper": "partitionkey", "missing": "reject"},
    },
]  # fmt: skip
RECEIPTS = ("prefer", "return=representation")


class Bench:
    """A publisher over two scripted logs, and the answers it has given so far."""

    def __init__(self, **settings: Any) -> None:
        self.a, self.b = ScriptedLog("a"), ScriptedLog("b")
        self.counters = Counters()
        routes = [Route.model_validate(route) for route in ROUTES]
        logs: Any = {LogName("a"): self.a, LogName("b"): self.b}
        policy = PublishPolicy(router=Router(routes), **settings)
        self.publisher = Publisher(policy, logs, self.counters)
        self.answers: list[HttpAnswer] = []

    def publish(self, request: EventRequest) -> HttpAnswer | None:
        return self.publisher.publish(request, self.answers.append)

    async def answer(self) -> HttpAnswer:
        await until(lambda: self.answers, turn=0)
        (answer,) = self.answers
        return answer

    def count(self, name: str) -> dict[tuple[str, ...], int]:
        return dict(self.counters.values().get(name, {}))


def single(
    kind: str = "shop.order", *headers: tuple[str, str], body: bytes = b"{}", **more: Any
) -> EventRequest:
    pairs = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": kind}
    fields = [*pairs.items(), ("content-type", "application/json"), *headers]
    encoded = [(name.encode(), value.encode()) for name, value in fields]
    return EventRequest(encoded, dict(encoded), body, **more)


def batch(*kinds: str, headers: tuple[tuple[str, str], ...] = ()) -> EventRequest:
    events = [
        {"specversion": "1.0", "id": str(n), "source": "/s", "type": kind, "data": n}
        for n, kind in enumerate(kinds)
    ]
    fields = [("content-type", "application/cloudevents-batch+json"), *headers]
    encoded = [(name.encode(), value.encode()) for name, value in fields]
    return EventRequest(encoded, dict(encoded), json.dumps(events).encode())


async def test_202_comes_only_after_the_log_has_the_event() -> None:
    """Rule 1."""
    bench = Bench()
    assert bench.publish(single()) is None
    await asyncio.sleep(0.01)
    assert bench.answers == []

    bench.a.settle()

    assert await bench.answer() is ACCEPTED
    assert (bench.publisher.in_flight, bench.count("events_published")) == (0, {("shop", "a"): 1})


async def test_an_answer_known_at_once_needs_no_callback() -> None:
    bench = Bench()
    bench.a.at_once = True
    assert bench.publish(single()) is ACCEPTED
    assert bench.answers == []


async def test_receipts_come_only_on_request() -> None:
    """Spec 2.2: an unasked body makes some senders repeat the event."""
    bench = Bench()
    bench.publish(single("shop.order", RECEIPTS))
    bench.a.settle()
    answer = await bench.answer()
    assert answer.status == 200
    assert (b"preference-applied", b"return=representation") in answer.headers
    assert json.loads(answer.body) == [
        {"index": 0, "route": "shop", "broker": "a", "topic": "shop", "partition": 0, "position": "0"}
    ]  # fmt: skip


async def test_an_event_for_two_places_is_202_after_both() -> None:
    bench = Bench()
    bench.publish(single("both"))
    bench.a.settle()
    await asyncio.sleep(0.01)
    assert bench.answers == []
    bench.b.settle()
    assert await bench.answer() is ACCEPTED


async def test_a_place_that_fails_makes_it_503_with_the_fate_of_each() -> None:
    bench = Bench()
    bench.publish(single("both"))
    bench.a.settle()
    bench.b.settle(0, BrokerUnavailable("away", retry_after=7))
    answer = await bench.answer()
    assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, b"7")
    events = json.loads(answer.body)["events"]
    assert [(each["index"], each["status"]) for each in events] == [(0, 202), (0, 503)]
    assert events[0]["receipt"]["topic"] == "x"
    assert events[1]["cause"] == {
        "code": "broker-unavailable", "detail": "away", "retryable": True,
        "route": "both", "broker": "b", "topic": "y",
    }  # fmt: skip


async def test_a_batch_partly_stored_names_the_fate_of_each_event() -> None:
    """So that the sender repeats only the failed ones (design: HTTP)."""
    bench = Bench()
    bench.publish(batch("shop.a", "shop.b", "shop.c"))
    bench.a.settle(0, None, PublishUnknown("no answer in time"), None)
    answer = await bench.answer()
    problem = json.loads(answer.body)
    assert problem["type"] == "urn:skybridge:problem:partly-stored"
    assert [(each["index"], each["status"]) for each in problem["events"]] == [
        (0, 202), (1, 503), (2, 202),
    ]  # fmt: skip
    assert dict(answer.headers)[b"retry-after"] == b"1"
    assert bench.count("events_unpublished") == {("shop", "a", "publish-unknown"): 1}
    assert bench.count("events_published") == {("shop", "a"): 2}


async def test_a_batch_is_submitted_once_a_place_in_its_order() -> None:
    """Order per key is the order of acceptance (reliability G3)."""
    bench = Bench()
    bench.publish(batch("shop.a", "both", "shop.b", "both", "shop.c"))
    assert [(s.topic, len(s.records)) for s in bench.a.submits] == [("shop", 3), ("x", 2)]
    assert bench.a.bodies == [b"0", b"2", b"4", b"1", b"3"]
    assert bench.b.bodies == [b"1", b"3"]
    bench.b.settle()
    bench.a.settle(1)
    bench.a.settle(0)
    assert await bench.answer() is ACCEPTED


async def test_receipts_of_a_batch_are_in_the_order_of_the_batch() -> None:
    bench = Bench()
    bench.publish(batch("shop.a", "both", headers=(RECEIPTS,)))
    for log in (bench.a, bench.b):
        for n in range(len(log.submits)):
            log.settle(n)
    entries = json.loads((await bench.answer()).body)
    assert [(e["index"], e["broker"], e["topic"]) for e in entries] == [
        (0, "a", "shop"), (1, "a", "x"), (1, "b", "y"),
    ]  # fmt: skip


async def test_an_empty_batch_is_accepted() -> None:
    """H13."""
    assert Bench().publish(batch()) is ACCEPTED
    answer = Bench().publish(batch(headers=(RECEIPTS,)))
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"[]")


async def test_nothing_of_a_batch_is_published_when_one_event_is_bad() -> None:
    """Spec 2.2: validate all first, name the indexes."""
    bench = Bench()
    with pytest.raises(SenderError) as caught:
        bench.publish(batch("shop.a", "unrouted", "shop.b", "unrouted"))
    assert (caught.value.status, caught.value.code) == (422, "no-route")
    assert [fault.index for fault in caught.value.faults] == [1, 3]
    assert bench.a.submits == []


async def test_faults_of_different_kinds_in_a_batch_are_all_told() -> None:
    bench = Bench()
    with pytest.raises(SenderError) as caught:
        bench.publish(batch("unrouted", "keyed", "shop.a"))
    assert (caught.value.status, caught.value.code) == (400, "invalid-batch")
    assert [(f.index, f.code) for f in caught.value.faults] == [(0, "no-route"), (1, "missing-key")]
    assert bench.a.submits == []


async def test_a_batch_of_one_names_its_index_too() -> None:
    with pytest.raises(SenderError) as caught:
        Bench().publish(batch("unrouted"))
    assert [fault.index for fault in caught.value.faults] == [0]


async def test_every_fault_of_an_event_is_told_at_once() -> None:
    request = single("shop.a")
    request.given = [pair for pair in request.headers if pair[0] not in (b"ce-id", b"ce-source")]
    with pytest.raises(InvalidEvent) as caught:
        Bench().publish(request)
    assert len(caught.value.faults) == 2


async def test_what_is_no_cloudevent_is_400() -> None:
    """H7."""
    with pytest.raises(NotACloudEvent):
        Bench().publish(EventRequest([(b"content-type", b"text/plain")], {}, b"hello"))


async def test_an_unknown_route_is_404_and_no_rule_is_422() -> None:
    with pytest.raises(UnknownRoute) as unknown:
        Bench().publish(single(route="nope"))
    with pytest.raises(NoRoute) as none:
        Bench().publish(single("unrouted"))
    assert (unknown.value.status, none.value.status) == (404, 422)


async def test_a_named_route_takes_the_event() -> None:
    bench = Bench()
    bench.publish(single("unrouted", route="shop"))
    assert bench.a.submits[0].topic == "shop"


@pytest.mark.parametrize(
    ("headers", "query", "key"),
    [
        ((), b"", None),
        ((("skybridge-key", "k\u00fc"),), b"", "k\u00fc".encode()),
        ((), b"key=a%20b%00", b"a b\0"),
        ((), b"x=1&key=a+b&monkey=2", b"a+b"),
        ((("skybridge-key", "k"),), b"key=%6B", b"k"),
        ((), b"monkey=1", None),
        ((), b"key=", b""),
    ],
)
async def test_the_record_key_is_the_senders_own(
    headers: tuple[tuple[str, str], ...], query: bytes, key: bytes | None
) -> None:
    """K7: header or query, bytes as they are."""
    bench = Bench()
    bench.publish(single("shop.a", *headers, query=query))
    assert bench.a.submits[0].records[0].key == key


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ((("skybridge-key", "a"),), b"key=b"),
        ((("skybridge-key", "a"), ("skybridge-key", "b")), b""),
        ((), b"key=a&key=b"),
    ],
)
async def test_two_keys_that_differ_are_400(
    headers: tuple[tuple[str, str], ...], query: bytes
) -> None:
    """One of them would be lost, and with it the order the sender asked for."""
    bench = Bench()
    with pytest.raises(SenderError) as caught:
        bench.publish(single("shop.a", *headers, query=query))
    assert (caught.value.status, caught.value.code) == (400, "conflicting-key")
    assert bench.a.submits == []


async def test_a_key_holds_for_each_event_of_a_batch() -> None:
    bench = Bench()
    request = batch("shop.a", "shop.b")
    request.query = b"key=k"
    bench.publish(request)
    assert [record.key for record in bench.a.submits[0].records] == [b"k", b"k"]


@pytest.mark.parametrize(
    ("error", "code", "retry_after"),
    [
        (BrokerUnavailable("away"), "broker-unavailable", b"1"),
        (BrokerUnavailable("away", retry_after=2.1), "broker-unavailable", b"3"),
        (BoundReached("full", retry_after=5), "bound-reached", b"5"),
        (PublishUnknown("no answer"), "publish-unknown", b"1"),
        (BrokerRefused("no such topic", kind="unknown-topic"), "unknown-topic", b"30"),
        (BrokerRefused("no rights", kind="not-authorised"), "not-authorised", b"30"),
        (BrokerRefused("no"), "broker-refused", b"30"),
    ],
)
async def test_what_is_not_stored_is_503_with_retry_after_and_a_cause(
    error: Any, code: str, retry_after: bytes
) -> None:
    """Rules 8 and 9, reliability G4: ours or the broker's fault, so the sender keeps its event."""
    bench = Bench()
    bench.publish(single())
    bench.a.settle(0, error)
    answer = await bench.answer()
    problem = json.loads(answer.body)
    assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, retry_after)
    assert problem["type"] == f"urn:skybridge:problem:{code}"
    assert [each["status"] for each in problem["events"]] == [503]
    assert problem["events"][0]["cause"]["code"] == code


async def test_a_record_too_large_for_its_log_is_413() -> None:
    """Spec 9: the same bytes will never pass."""
    bench = Bench()
    bench.publish(single())
    bench.a.settle(0, BrokerRefused("2 MB", kind="record-too-large"))
    answer = await bench.answer()
    assert answer.status == 413
    assert json.loads(answer.body)["faults"][0]["code"] == "record-too-large"


async def test_one_record_too_large_in_a_batch_is_told_by_its_index() -> None:
    bench = Bench()
    bench.publish(batch("shop.a", "shop.b"))
    bench.a.settle(0, None, BrokerRefused("2 MB", kind="record-too-large"))
    answer = await bench.answer()
    assert answer.status == 503
    assert [each["status"] for each in json.loads(answer.body)["events"]] == [202, 413]


@pytest.mark.parametrize("kind", ["rejected", "unwritable", "not-capable"])
async def test_a_record_that_its_log_refuses_for_good_is_422(kind: str) -> None:
    """A Kafka topic that is compacted, and an event without a key: no repetition will store it."""
    bench = Bench()
    bench.publish(single())
    bench.a.settle(0, BrokerRefused("topic shop: no key. Cure: a key", kind=kind))
    answer = await bench.answer()
    problem = json.loads(answer.body)
    assert answer.status == 422
    assert b"retry-after" not in dict(answer.headers)
    assert problem["type"] == f"urn:skybridge:problem:{kind}"
    assert problem["detail"] == "topic shop: no key. Cure: a key"
    assert problem["faults"] == [{"code": kind, "detail": "topic shop: no key. Cure: a key"}]


async def test_one_record_refused_for_good_in_a_batch_is_told_by_its_index() -> None:
    bench = Bench()
    bench.publish(batch("shop.a", "shop.b", "shop.c"))
    bench.a.settle(0, None, BrokerRefused("no", kind="rejected"), BrokerUnavailable("away"))
    answer = await bench.answer()
    assert answer.status == 503
    assert [each["status"] for each in json.loads(answer.body)["events"]] == [202, 422, 503]


@pytest.mark.parametrize(
    ("other", "status", "entries"),
    [
        (None, 503, [503, 202]),
        (BrokerUnavailable("away"), 503, [503, 503]),
        (BrokerRefused("no", kind="unknown-topic"), 503, [503, 503]),
        (BrokerRefused("2 MB", kind="record-too-large"), 422, None),
        (BrokerRefused("no", kind="rejected"), 422, None),
    ],
)
async def test_an_event_is_422_only_where_each_of_its_targets_refuses_it_for_good(
    other: Any, status: int, entries: list[int] | None
) -> None:
    """A 4xx says that nothing was stored, and that nothing will be."""
    bench = Bench()
    bench.publish(single("both"))
    bench.a.settle(0, BrokerRefused("no", kind="rejected"))
    bench.b.settle(0, *filter(None, [other]))
    answer = await bench.answer()
    problem = json.loads(answer.body)
    assert answer.status == status
    if entries is not None:
        assert [each["status"] for each in problem["events"]] == entries


async def test_a_full_process_answers_503_before_it_reads_anything() -> None:
    """Rule 8: a bound of ours."""
    bench = Bench(limits=ListenerLimits(in_flight=1))
    bench.publish(single())
    answer = bench.publish(single())
    assert answer is not None
    assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, b"1")
    bench.a.settle()
    await bench.answer()
    assert bench.publish(single()) is None


@pytest.mark.parametrize("broken", ["cancelled", "raised"])
async def test_a_log_that_breaks_its_word_is_503(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An unknown outcome is never 202, and never a silence."""
    bench = Bench()
    bench.publish(single())
    future = bench.a.submits[0].future
    future.cancel() if broken == "cancelled" else future.set_exception(RuntimeError("bug"))
    assert (await bench.answer()).status == 503
    assert bench.publisher.in_flight == 0


async def test_events_are_counted_by_mode() -> None:
    bench = Bench()
    bench.publish(single())
    bench.publish(batch("shop.a", "shop.b"))
    assert bench.count("events_received") == {("binary",): 1, ("batch",): 2}


DEDUPLICATED = {
    "name": "once",
    "to": [{"broker": "a", "topic": "x"}, {"broker": "b", "topic": "y"}],
    "deduplicate": {"window": "10m"},
}


class OnceBench(Bench):
    def __init__(self) -> None:
        super().__init__()
        routes = [Route.model_validate(DEDUPLICATED)]
        logs: Any = {LogName("a"): self.a, LogName("b"): self.b}
        self.publisher = Publisher(PublishPolicy(router=Router(routes)), logs, self.counters)

    def settle(self, *repeats: str) -> None:
        """The fates at both logs, in their order."""
        for log, repeat in zip((self.a, self.b), repeats, strict=True):
            receipt = Receipt(log.name, "t", 0, "7", repeat)
            log.submits[-1].future.set_result([receipt])


async def test_a_relaxed_route_is_counted_and_told_by_its_broker() -> None:
    """Its log is a producer of its own, of which operators and senders know nothing."""
    bench = Bench()
    route = {"name": "relaxed", "to": {"broker": "a", "topic": "t"}, "durability": "relaxed"}
    logs: Any = {LogName("a", 1): bench.a}
    policy = PublishPolicy(router=Router([Route.model_validate(route)]))
    bench.publisher = Publisher(policy, logs, bench.counters)
    for fate in (None, BrokerUnavailable("away")):
        bench.publish(single("any"))
        bench.a.settle(-1, fate)
        await asyncio.sleep(0)
    assert bench.count("events_published") == {("relaxed", "a"): 1}
    assert bench.count("events_unpublished") == {("relaxed", "a", "broker-unavailable"): 1}
    (event,) = json.loads(bench.answers[-1].body)["events"]
    assert event["cause"]["broker"] == "a"


async def test_the_same_identity_goes_to_each_place():
    bench = OnceBench()
    bench.publish(single("any"))
    (one,), (other,) = (log.submits[0].identities for log in (bench.a, bench.b))
    assert one == other
    assert one.window.milliseconds == 600_000


async def test_what_was_stored_before_is_answered_as_a_duplicate_and_counted():
    bench = OnceBench()
    bench.publish(single("any", RECEIPTS))
    bench.settle("duplicate", "duplicate")
    answer = await bench.answer()
    assert (b"skybridge-duplicate", b"true") in answer.headers
    entries = json.loads(answer.body)
    assert [(each["position"], each["duplicate"]) for each in entries] == [("7", True)] * 2
    assert bench.count("events_repeated") == {
        ("once", "a", "duplicate"): 1,
        ("once", "b", "duplicate"): 1,
    }
    assert bench.count("events_published") == {}


async def test_what_one_place_had_and_the_other_had_not_is_no_duplicate():
    bench = OnceBench()
    bench.publish(single("any"))
    bench.settle("duplicate", "")
    assert await bench.answer() == ACCEPTED
    assert bench.count("events_published") == {("once", "b"): 1}


async def test_other_data_of_one_identity_is_published_and_counted():
    bench = OnceBench()
    bench.publish(single("any"))
    bench.settle("differs", "")
    assert await bench.answer() == ACCEPTED
    assert bench.count("events_repeated") == {("once", "a", "differs"): 1}
