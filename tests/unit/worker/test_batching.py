"""Several events in one request, through the dispatcher: when it leaves, and what one answer does to all."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bindings.record import Record
from app.interfaces import SinkAnswer
from app.model.message import Partition
from app.worker.budget import Budget
from scripted_batch_sink import ALONE, ScriptedBatchSink
from waiting import until
from worker_doubles import OK, an_event

BATCH = {"max_events": 10}


def events(*keys: str, first: int = 0, **attributes: str) -> list[Record]:
    """Numbered from ``first``, each with its key."""
    return [an_event(first + n, key, **attributes) for n, key in enumerate(keys)]


@pytest.fixture
def joining(rig):
    rig.sink = ScriptedBatchSink()
    rig.log.clock = rig.clock
    return rig.sink


async def settled(rig, position: int) -> None:
    """Until all before it is finished, with the clock running."""

    def done() -> bool:
        return rig.log.committed("skybridge.test.billing", Partition("orders", 0)) >= position

    for _ in range(400):
        if done():
            return
        await rig.clock.advance(0.1)
    raise AssertionError(f"not settled up to {position}: {rig.status}, sent {rig.sink.sent}")


async def test_heads_of_many_lanes_go_in_one_request_and_are_settled(rig, joining):
    await rig.publish(*events("a", "b", "c", "a", "b"))
    await rig.begin(batch=BATCH)
    await settled(rig, 5)
    assert joining.sent == [["0", "1", "2", "3", "4"]]
    assert rig.delivered == 5


async def test_those_of_one_key_stand_in_their_order_across_requests(rig, joining):
    """Rule 3: one request of a key at a time, and within it its events in order."""
    await rig.publish(*events(*"abcab" * 9))
    await rig.begin(batch={"max_events": 4}, concurrency=3)
    await settled(rig, 45)
    by_key: dict[str, list[int]] = defaultdict(list)
    for number in map(int, joining.delivered):
        by_key["abcab"[number % 5]].append(number)
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert sorted(map(int, joining.delivered)) == list(range(45))
    assert max(map(len, joining.sent)) == 4


async def test_concurrency_counts_requests(rig, joining):
    joining.answer_to = lambda _: None
    await rig.publish(*events(*map(str, range(30))))
    await rig.begin(batch={"max_events": 5}, concurrency=2)
    await until(lambda: joining.open == 2)
    await rig.clock.advance(1.0)
    assert [len(ids) for ids in joining.sent] == [5, 5]
    joining.answer_to = lambda _: OK
    joining.gate.set()
    await settled(rig, 30)
    assert joining.most_open == 2


async def test_a_request_waits_for_others_as_long_as_is_said_and_no_longer(rig, joining):
    """max_wait by the clock, counted from the first of them."""
    await rig.begin(batch={"max_events": 10, "max_wait": "2s"})
    await rig.publish(*events("a"))
    await until(lambda: rig.status.held == 1)
    await rig.clock.advance(1.5)
    await rig.publish(*events("b", first=1))
    await until(lambda: rig.status.held == 2)
    assert joining.sent == []
    await rig.clock.advance(0.6)
    await until(lambda: joining.sent == [["0", "1"]])


async def test_a_full_request_waits_for_nobody(rig, joining):
    await rig.publish(*events("a", "a", "b"))
    await rig.begin(batch={"max_events": 3, "max_wait": "60s"})
    await until(lambda: joining.sent == [["0", "2", "1"]])


async def test_while_one_is_on_the_wire_what_comes_gathers_by_itself(rig, joining):
    """max_wait: 0s asks for no delay at all, and load makes the requests larger."""
    joining.answer_to = lambda ids: None if ids == ["0"] else OK
    await rig.begin(batch=BATCH, concurrency=1)
    await rig.publish(*events("a"))
    await until(lambda: joining.open == 1)
    await rig.publish(*events("b", "c", "a", first=1))
    await until(lambda: rig.status.held == 4)
    joining.gate.set()
    await settled(rig, 4)
    assert joining.sent == [["0"], ["1", "2", "3"]]


async def test_what_cannot_be_in_a_batch_goes_alone_in_its_turn(rig, joining):
    await rig.publish(*events("a"), *events("b", first=1, type=ALONE), *events("c", "b", first=2))
    await rig.begin(batch=BATCH)
    await settled(rig, 4)
    assert ["1"] in joining.sent
    assert sorted(joining.delivered) == ["0", "1", "2", "3"]
    assert joining.delivered.index("1") < joining.delivered.index("3")


async def test_a_record_that_is_no_event_is_buried_from_among_them(rig, joining):
    await rig.publish(an_event(0, "a"), Record(b"b", (), b"?"), an_event(2, "c"))
    await rig.begin(batch=BATCH)
    await settled(rig, 3)
    assert sorted(joining.delivered) == ["0", "2"]
    assert [letter.cause for letter in rig.store.letters.rows] == ["foreign"]


@pytest.mark.parametrize("status", [400, 413, 422, 301])
async def test_only_the_poison_is_buried(rig, joining, status):
    """The others neither wait for its schedule nor are sent twice once they were taken."""
    joining.answer_to = lambda ids: SinkAnswer(status) if "37" in ids else OK
    began = rig.clock.monotonic()
    await rig.publish(*events(*(str(n % 20) for n in range(64))))
    await rig.begin(batch={"max_events": 64})
    await settled(rig, 64)
    letters = rig.store.letters.rows
    assert [(letter.cause, letter.event.id) for letter in letters] == [(f"status-{status}", "37")]
    assert Counter(joining.delivered) == Counter(str(n) for n in range(64) if n != 37)
    assert sum("37" in ids for ids in joining.sent) == 7  # 64, 32, 16, 8, 4, 2, 1
    assert rig.clock.monotonic() - began < 2


async def test_after_the_poison_its_key_goes_on_in_order(rig, joining):
    joining.answer_to = lambda ids: SinkAnswer(400) if "2" in ids else OK
    await rig.publish(*events(*"aaaaaa"))
    await rig.begin(batch=BATCH)
    await settled(rig, 6)
    assert joining.delivered == ["0", "1", "3", "4", "5"]
    assert len(rig.store.letters.rows) == 1


async def test_a_failure_that_may_pass_is_tried_again_in_halves(rig, joining):
    """A poison may show as 500 too; the last attempt of a schedule is made alone, or it would bury the
    whole company."""
    joining.answer_to = lambda ids: SinkAnswer(500) if "5" in ids else OK
    await rig.publish(*events(*(str(n) for n in range(8))))
    await rig.begin(batch=BATCH, retry={"schedule": ["1s", "1s"], "hold": 2})
    await settled(rig, 8)
    assert [(one.cause, one.event.id) for one in rig.store.letters.rows] == [
        ("schedule-exhausted", "5")
    ]
    assert Counter(joining.delivered) == Counter(str(n) for n in range(8) if n != 5)
    assert [ids for ids in joining.sent if "5" in ids][-1] == ["5"]


@pytest.mark.parametrize(
    "answer",
    [
        SinkAnswer(503, retry_after="3"),
        SinkAnswer(429, retry_after="3"),
        SinkAnswer(None, "proxy", hold=3.0),
    ],
    ids=["503", "429", "hold"],
)
async def test_who_asks_to_wait_is_waited_for_and_no_event_takes_a_step(rig, joining, answer):
    """W6, rule 6: the whole request comes again, as large as it was."""
    answers = iter([answer])
    joining.answer_to = lambda _: next(answers, OK)
    await rig.publish(*events("a", "b", "c"))
    await rig.begin(batch=BATCH, retry={"schedule": ["1s"], "hold": 1})
    await rig.state("paused")
    await rig.clock.advance(2.9)
    assert len(joining.sent) == 1
    await settled(rig, 3)
    assert sorted(each for ids in joining.sent[1:] for each in ids) == ["0", "1", "2"]
    assert rig.store.letters.rows == []


DOWN = SinkAnswer(None, "connect", "refused")


async def test_a_request_that_was_not_sent_takes_no_step_of_any_event(rig, joining):
    """Rule 6: it comes again as large as it was, whether all wait or only its lanes."""
    down = [DOWN] * 3
    joining.answer_to = lambda ids: down.pop() if down and "0" in ids else OK
    await rig.publish(*events("a", "b", "a"))
    await rig.begin(batch=BATCH, retry={"schedule": ["1s"], "hold": 1})
    await rig.state("paused")
    await settled(rig, 3)
    assert rig.store.letters.rows == []
    down[:] = [DOWN] * 3
    joining.sent.clear()
    await rig.publish(*events("a", "b", "a"), an_event(9, "c"))
    await settled(rig, 7)
    assert (rig.store.letters.rows, rig.status.state) == ([], "running")
    assert sum("0" in ids for ids in joining.sent) == 4
    assert {each.number for each in rig.attempts.recent(100)} == {1}


async def test_410_disables_and_nothing_is_finished(rig, joining):
    """W5: none of the events of the request."""
    joining.answer_to = lambda _: SinkAnswer(410)
    await rig.publish(*events("a", "b", "b"))
    await rig.begin(batch=BATCH)
    await rig.state("disabled")
    await until(lambda: rig.status.in_flight == 0)
    assert rig.log.committed("skybridge.test.billing", Partition("orders", 0)) == 0
    assert rig.status.held == 3


async def test_every_event_has_a_line_with_the_size_of_its_request(rig, joining):
    await rig.publish(*events("a", "b", "a"))
    await rig.begin(batch=BATCH)
    await settled(rig, 3)
    found = rig.attempts.recent(10)
    assert {(each.event.id, each.together, each.number) for each in found} == {
        ("0", 3, 1),
        ("1", 3, 1),
        ("2", 3, 1),
    }


async def test_a_rate_of_ours_counts_events(rig, joining):
    """100 in a second, five of them at once: a request holds no more than there is room for."""
    await rig.publish(*events(*map(str, range(50))))
    await rig.begin(batch={"max_events": 50}, rate_limit="100/s")
    await until(lambda: joining.sent != [])
    assert max(map(len, joining.sent)) <= 5
    began = rig.clock.monotonic()
    await settled(rig, 50)
    assert rig.clock.monotonic() - began >= 0.4
    assert max(map(len, joining.sent)) <= 5


async def test_what_is_delivered_while_its_partition_is_taken_is_settled(rig, joining):
    """The hand-over waits for the request, as it waits for any attempt."""
    joining.answer_to = lambda _: None
    await rig.publish(*events("a", "b", "c", "a"))
    await rig.begin(batch={"max_events": 3}, concurrency=1)
    await until(lambda: joining.open >= 1)
    rig.log.revoke("skybridge.test.billing", [Partition("orders", 0)])
    await until(lambda: rig.status.held == 3)  # the fourth was not on the wire
    joining.gate.set()
    await settled(rig, 3)


async def test_after_a_kill_nothing_is_lost_and_only_what_was_on_the_wire_comes_again(rig, joining):
    """Rule 2: a request is finished as a whole or not at all."""
    joining.answer_to = lambda ids: None if "7" in ids else OK
    await rig.publish(*events(*"abcabcabcabc"))
    await rig.begin(batch={"max_events": 3}, concurrency=1)
    await until(lambda: joining.open == 1 and "7" in joining.sent[-1])
    before = list(joining.sent)
    for _ in range(5):
        await rig.clock.advance(0.1)
    await rig.kill()
    joining.answer_to = lambda _: OK
    await rig.begin(batch={"max_events": 3}, concurrency=1)
    await settled(rig, 12)
    again = [each for ids in joining.sent[len(before) :] for each in ids]
    taken = [each for ids in before[:-1] for each in ids]
    assert sorted({*taken, *again}, key=int) == [str(n) for n in range(12)]
    assert not set(taken) & set(again)


async def test_a_reply_that_was_not_stored_brings_the_whole_request_again(rig, joining):
    """Nothing is settled before the reply is (rule 2); the endpoint is not held at fault."""
    answers = iter([SinkAnswer(None, "reply", "not stored")])
    joining.answer_to = lambda _: next(answers, OK)
    await rig.publish(*events("a", "b"))
    await rig.begin(batch=BATCH, retry={"schedule": ["1s"] * 3, "hold": 3})
    await until(lambda: len(joining.sent) == 1)
    await rig.clock.advance(0.1)
    assert rig.log.committed("skybridge.test.billing", Partition("orders", 0)) == 0
    assert rig.status.state == "running"
    await settled(rig, 2)
    assert sorted(each for ids in joining.sent[1:] for each in ids) == ["0", "1"]


async def test_what_the_rate_does_not_let_leave_costs_nothing_meanwhile(rig, joining):
    """Ready lanes wait for their moment; the loop is not asked again and again until it has come."""
    await rig.publish(*events(*map(str, range(40))))
    await rig.begin(batch=BATCH, rate_limit="6/min")
    await until(lambda: joining.sent)
    await rig.clock.advance(1)
    asked = looks(rig)
    await rig.clock.advance(9)
    assert len(asked) < 20
    await rig.clock.advance(5)
    assert len(joining.sent) == 2


async def test_what_the_process_has_no_room_for_costs_nothing_meanwhile(rig, joining):
    """Whoever lands wakes who was refused."""
    joining.answer_to = lambda _: None
    await rig.publish(*events(*map(str, range(40))))
    await rig.begin(batch=BATCH, budget=Budget(deliveries=1))
    await until(lambda: joining.open == 1)
    await rig.clock.advance(1)
    asked = looks(rig)
    await rig.clock.advance(9)
    assert len(asked) < 20
    joining.answer_to = lambda _: OK
    joining.gate.set()
    await settled(rig, 40)


async def test_a_subscription_that_ends_begins_nothing_when_room_is_made(rig, joining):
    """Also by its own end: whoever makes room must not meet an error of the one who is told."""
    joining.answer_to = lambda _: None
    await rig.publish(*events(*map(str, range(40))))
    await rig.begin(batch=BATCH, budget=Budget(deliveries=1))
    await until(lambda: joining.open == 1)
    rig.task.cancel()
    await asyncio.wait([rig.task])
    assert rig.task.cancelled()
    assert joining.open == 0


def looks(rig) -> list[float]:
    """How often it was asked what is due; each time costs a turn of the loop."""
    courier, counted = rig.dispatcher._components.scheduler, []
    act = courier.act

    def asked(now: float) -> float | None:
        counted.append(now)
        return act(now)

    courier.act = asked
    return counted


@given(
    keys=st.lists(st.sampled_from("abcde"), min_size=1, max_size=40),
    most=st.integers(1, 12),
    poison=st.sets(st.integers(0, 39), max_size=4),
    failing=st.sets(st.integers(0, 39), max_size=4),
    waits=st.sampled_from(["0s", "1s"]),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_whatever_is_refused_every_event_has_one_end_in_order(
    rig, keys, most, poison, failing, waits
):
    """Delivered once, or one dead letter; per key in order; nothing held up for ever."""
    rig = type(rig)()
    rig.log.clock = rig.clock
    await rig.log.create_topic("orders", 1)
    failures = Counter({str(n): 2 for n in failing - poison})

    def answer(ids: list[str]) -> SinkAnswer:
        if any(int(each) in poison for each in ids):
            return SinkAnswer(400)
        due = [each for each in ids if failures[each] > 0]
        for each in due:
            failures[each] -= 1
        return SinkAnswer(503) if due else OK

    outcomes: list[tuple[list[str], SinkAnswer]] = []

    def told(ids: list[str]) -> SinkAnswer:
        outcomes.append((ids, answer(ids)))
        return outcomes[-1][1]

    rig.sink = ScriptedBatchSink(told)
    await rig.publish(*events(*keys))
    await rig.begin(
        batch={"max_events": most, "max_wait": waits},
        retry={"schedule": ["1s"] * 12, "hold": 12},
    )
    await settled(rig, len(keys))
    good = [each for ids, said in outcomes if said == OK for each in ids]
    buried = [letter.event.id for letter in rig.store.letters.rows]
    assert Counter(good) + Counter(buried) == Counter(str(n) for n in range(len(keys)))
    assert set(buried) <= set(map(str, poison))
    for key in "abcde":
        mine = [int(each) for each in good if keys[int(each)] == key]
        assert mine == sorted(mine)
    await rig.stop()
