"""Planted faults in less obvious forms, and histories that look like one of them and are clean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proof.history import Call, Fault, Ownership, Request, Terms
from proof.small_history import delivery, event, faults, kept, request

TWO = (request(1, 0), request(2, 1))
ONCE = (request(1, 0), delivery(1, at=1))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((delivery(1, at=2, status=500), kept(1, "parked"), delivery(2, at=3)), 1),
        ((kept(1, "parked"), delivery(2, at=3, status=500), kept(2, "parked")), 1),
        ((delivery(1, at=2, status=500), kept(1), delivery(2, at=3)), 0),
        ((kept(1, "parked"), kept(2, "parked")), 0),
        ((delivery(2, at=3), kept(1, "parked"), kept(1)), 0),  # of two copies one is a dead letter
    ],
)
def test_a_parked_event_holds_up_its_key_and_a_dead_letter_does_not(lines, found):
    """No later event of the key overtakes parked ones; a dead letter frees its key (guarantees)."""
    assert faults(*TWO, *lines) == ({"out of order": 1} if found else {})


def test_events_of_a_request_that_was_split_may_wait_for_each_other():
    """If the webhook refuses a request of several events, Skybridge splits it (guarantees)."""
    refused = delivery(1, 2, at=2, status=500)
    assert faults(*TWO, refused, delivery(1, at=3), delivery(2, at=4)) == {}
    assert faults(*TWO, refused, delivery(1, 2, at=3)) == {}
    assert faults(*TWO, refused, delivery(2, at=3), delivery(1, at=4)) == {"out of order": 1}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ((), True),
        (
            (request(1, 0.5, None),),
            False,
        ),  # perhaps two copies, and the first one was a letter at once
        ((Fault("killed", "worker-1", 2.3, 2.3),), False),  # perhaps attempted again after the kill
        ((Fault("answers", "target", 2.3, 2.3, repeats=False),), True),
    ],
)
def test_later_events_wait_for_the_last_attempt_of_a_dead_letter(more, found):
    """After the last retry the event is stored as a dead letter, and its key continues (guarantees)."""
    tries = [delivery(1, at=at, status=500) for at in (2, 3)]
    lines = (*TWO, *more, *tries, kept(1))
    assert faults(*lines, delivery(2, at=4)) == {}
    assert faults(*lines, delivery(2, at=2.5)) == ({"out of order": 1} if found else {})


def test_a_dead_letter_holds_up_its_key_until_its_last_attempt_is_given_up_or_until_it_is_redriven():
    """The target sees the end of a connection late; live events do not wait for redriven letters (guarantees)."""
    given_up = replace(delivery(1, at=2, status=None), end=60)
    assert faults(*TWO, given_up, kept(1), delivery(2, at=12.1)) == {}
    assert faults(*TWO, given_up, kept(1), delivery(2, at=11.9))["out of order"] == 1
    redriven = [delivery(1, at=at, status=500) for at in (2, 50, 51)]
    call = Call("redrive", "billing", 49, 49.1, 202)
    assert faults(*TWO, *redriven, kept(1), call, delivery(2, at=4)) == {}
    early = replace(call, start=1, end=1.1)
    assert faults(*TWO, *redriven, kept(1), early, delivery(2, at=4)) == {}


def test_a_retry_of_a_redriven_dead_letter_is_redriven_too():
    """Live events of a key do not wait for it (guarantees)."""
    failed = [delivery(1, at=at, status=500) for at in (2, 20)]
    slow = replace(delivery(1, at=21), end=24)
    lines = (
        *TWO,
        failed[0],
        delivery(2, at=4),
        failed[1],
        slow,
        request(3, 21),
        delivery(3, at=22),
    )
    assert "two at once" not in faults(*lines)


def test_order_is_judged_by_subscription():
    terms = Terms({"billing": "events", "audit": "events"})
    lines = (*TWO, delivery(1, at=2), delivery(2, at=3))
    late = [replace(delivery(n, at=10 + n), subscription="audit") for n in (1, 2)]
    assert faults(*lines, *late, terms=terms) == {}
    late = [replace(delivery(n, at=20 - n), subscription="audit") for n in (1, 2)]
    assert faults(*lines, *late, terms=terms) == {"out of order": 1}


def test_what_was_acknowledged_is_lost_although_it_was_refused_later():
    assert faults(request(1, 0), request(1, 1, 422)) == {"lost": 1}


def test_what_was_refused_must_not_arrive_before_it_is_accepted():
    """422 promises that no target ever stores the event (guarantees)."""
    both = (request(1, 0, 422), request(1, 5))
    assert faults(*both, delivery(1, at=1)) == {"invented": 1}
    assert faults(*both, delivery(1, at=5.05)) == {}


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ((), True),
        ((request(2, 1, 422),), True),
        ((request(2, 1, topic="other"),), True),
        ((request(2, 1),), False),
        ((request(2, 1, None),), False),
    ],
)
def test_what_is_kept_was_accepted(sent, found):
    lines = (request(1, 0), delivery(1, at=2), *sent, kept(2))
    assert faults(*lines) == ({"invented": 1} if found else {})


def test_one_place_in_a_log_is_of_one_event():
    """A repeated request may have the place of the first one, and another topic the same number."""
    first, second, other = (
        Request("gateway-1", at, at + 0.1, 200, (event(number, receipt=place),))
        for at, number, place in ((0, 1, "main/a/0/7"), (1, 1, "main/a/0/7"), (2, 2, "main/b/0/7"))
    )
    arrived = (delivery(1, at=3), delivery(2, at=4))
    assert faults(first, second, other, *arrived) == {}
    same = replace(other, events=(event(2, receipt="main/a/0/7"),))
    assert faults(first, same, *arrived) == {"one receipt": 1}


@pytest.mark.parametrize(
    ("calls", "at", "found"),
    [
        ((), 13.0, False),  # begun in time, and answered later
        ((), 13.001, True),
        ((Call("resume", "billing", 12, 12.1, 200),), 14, False),
        ((Call("resume", "billing", 12, 12.1, None),), 14, False),  # perhaps resumed
        ((Call("resume", "billing", 12, 12.1, 409),), 14, True),
        ((Call("resume", "billing", 9, 10.5, 200),), 14, False),  # at the time of the pause
        ((Call("resume", "billing", 8, 9, 200),), 14, True),
        ((Call("resume", "audit", 12, 12.1, 200),), 14, True),
        ((Call("resume", "billing", 15, 15.1, 200),), 14, True),
    ],
)
def test_an_attempt_begins_in_a_pause_that_is_not_over(calls, at, found):
    """No attempt begins more than 2 s after ``:pause`` was answered (issue 45)."""
    pause = Call("pause", "billing", 10, 11, 200)
    convicted = faults(request(1, 0), pause, *calls, delivery(1, at=at))
    assert convicted == ({"begun in pause": 1} if found else {})


@pytest.mark.parametrize("change", [{"hash": "other"}, {"key": "other"}])
def test_an_event_is_changed_also_in_an_attempt_that_failed(change):
    failed = delivery(1, at=1, status=500)
    failed = replace(failed, events=(replace(event(1), **change),))
    assert faults(request(1, 0), failed, delivery(1, at=2)) == {"changed": 1}


@pytest.mark.parametrize(("end", "found"), [(10, False), (15, False), (15.001, True), (None, True)])
def test_two_workers_may_own_a_partition_for_the_lease(end, found):
    """Two owners may send at the same time, for at most the lease (guarantees, What may come twice)."""
    owners = (
        Ownership("worker-1", "billing", "0", 0, end),
        Ownership("worker-2", "billing", "0", 10),
    )
    convicted = faults(request(1, 0), delivery(1, at=1), *owners)
    assert convicted == ({"two owners": 1} if found else {})


@pytest.mark.parametrize(
    ("count", "apart", "found"),
    [(10, 2.1, True), (30, 0.5, True), (2, 20.0, False), (10, 0.1, False)],
)
def test_two_workers_do_not_both_deliver_each_event_for_longer_than_the_lease(count, apart, found):
    """Nothing had isolated one of them: both were owners, and did not know of each other (rabbitmq-streams-random)."""
    lines = [Fault("cut from", "rabbit1", 0, 200)]
    for number in range(count):
        at = number * 3 * apart
        lines.append(request(number, at))
        lines.append(replace(delivery(number, at=at + 0.11), end=at + 0.12))
        again = delivery(number, at=at + 0.11 + apart, worker="worker-2")
        lines.append(replace(again, end=again.start + 0.01))
    assert faults(*lines) == ({"two owners": 1} if found else {})


def test_a_partition_that_moves_repeats_what_its_old_owner_had_delivered():
    """All events of a key come twice, and no two owners were there at once."""
    lines = [request(number, number) for number in range(9)]
    lines += [delivery(number, at=number + 0.2) for number in range(9)]
    lines += [delivery(number, at=12 + number, worker="worker-2") for number in range(9)]
    assert faults(*lines, Fault("cut from", "worker-1", 0, 10)) == {}


@pytest.mark.parametrize(
    ("turns", "killed", "found"),
    [
        (("1: 123", "2: 123", "1: 3"), True, False),
        (("1: 123", "2: 123", "1: 3", "2: 3", "1: 3", "2: 3"), True, False),
        (("1: 1", "2: 12", "1: 23", "2: 3"), False, False),  # three moves
        (("1: 1", "2: 1", "1: 2", "2: 2", "1: 3", "2: 3"), False, True),
    ],
)
def test_owners_after_each_other_are_not_two_at_once(turns, killed, found):
    """A partition that moves to and fro has one owner at a time, although both deliver each event of a slow key."""
    lines, at = [request(number, number / 9) for number in (1, 2, 3)], 1.0
    for turn in turns:
        worker, _, events = turn.partition(": ")
        for number in events:
            lines.append(delivery(int(number), at=at, worker=f"worker-{worker}"))
            at += 4
        if killed:
            lines.append(Fault("killed", f"worker-{worker}", at - 3.8, at - 3.7))
    verdicts = faults(*lines, Fault("cut from", "kafka1", 0, 200))
    assert verdicts == ({"two owners": 1} if found else {})


BATCH = Request("gateway-1", 0, 0.1, 202, (event(1), event(2), event(3)))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((delivery(1, at=1), delivery(2, at=2), delivery(3, at=3)), 0),
        ((delivery(1, 2, 3, at=1),), 0),
        ((delivery(3, at=1), delivery(2, at=2), delivery(1, at=3)), 2),
        ((delivery(1, at=1), delivery(3, 2, at=2)), 1),
        ((replace(BATCH, start=0.2, end=0.3, status=None), delivery(2, at=1), delivery(1, at=2), delivery(3, at=3)), 0),
    ],
)  # fmt: skip
def test_a_request_orders_its_events(lines, found):
    """A repeated request may have stored some of them before (guarantees, What may come twice)."""
    assert faults(BATCH, *lines) == ({"out of order": found} if found else {})


def test_a_fault_of_a_gateway_moves_no_partition():
    """Two workers attempt one event at once, and a gateway was cut off."""
    lines = (request(1, 0), delivery(1, at=2, status=500), delivery(1, at=2.05, worker="worker-2"))
    assert faults(*lines, Fault("cut from", "gateway2", 1.9, 2.1)) == {"two at once": 1}
    assert faults(*lines, Fault("cut from", "worker-2", 1.9, 2.1)) == {}


def test_what_an_answer_states_as_not_stored_must_not_arrive():
    """An event that was answered 503 is not sent later (guarantees)."""
    partly = Request("gateway-1", 1, 1.1, 503, (event(2, stored=False),))
    assert faults(*ONCE, partly, delivery(2, at=2)) == {"invented": 1}
    assert faults(*ONCE, partly, request(2, 1.2, None), delivery(2, at=2)) == {}


def test_a_lost_event_counts_once():
    assert faults(
        *TWO, delivery(1, at=2), terms=Terms({"billing": "events", "audit": "events"})
    ) == {"lost": 2}
