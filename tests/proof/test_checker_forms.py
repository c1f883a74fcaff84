"""Planted faults in less obvious forms, and histories that look like one of them and are clean."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from proof.checker_repeats import allowed_repeats, repeated
from proof.checker_tables import Tables
from proof.history import Call, Fault, Ownership, Request, Terms, in_memory
from proof.small_history import BILLING, delivery, event, faults, judged, kept, request

TWO = (request(1, 0), request(2, 1))


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


THREE = (*(request(n, n / 2) for n in (1, 2, 3)), *(delivery(n, at=n + 1) for n in (1, 2, 3)))
END = Fault("killed", "worker-1", 4.2, 4.3)


@pytest.mark.parametrize(
    ("again", "worker", "found"),
    [
        ((1, 2, 3), "worker-1", 0),
        ((2, 3), "worker-1", 0),
        ((3,), "worker-1", 0),
        ((3, 2, 1), "worker-1", 2),
        ((2, 1, 3), "worker-1", 1),
        ((3, 2), "worker-2", 1),  # the new owner
        ((1, 2, 3, 2, 3), "worker-1", 0),  # its partition came back to it
    ],
)
def test_a_worker_that_goes_back_goes_forward_again(again, worker, found):
    terms = replace(BILLING, commit=3.0)
    repeats = [delivery(n, at=5 + place, worker=worker) for place, n in enumerate(again)]
    assert faults(*THREE, END, *repeats, terms=terms) == ({"backwards": found} if found else {})
    other = Fault("killed", "kafka1", 4.5, 5.5)  # a broker may lose positions, and begin again
    assert faults(*THREE, END, other, *repeats, terms=terms) == {}


MOVED = Fault("killed", "worker-9", 4.2, 4.3)  # another worker


@pytest.mark.parametrize(
    ("again", "found"),
    [
        ((1, 2, 3), 0),
        ((2, 3), 0),
        ((1, 2, 3, 2, 3), 0),
        ((1, 2, 3, 3), 0),
        ((3, 2, 1), 2),
        ((2, 1, 3), 1),
        ((1, 2, 3, 2, 1), 1),
    ],
)
def test_a_worker_that_went_on_does_not_go_back_further_than_before(again, found):
    """Committed positions do not go back, so each rewind begins where the one before began, or later."""
    terms = replace(BILLING, commit=3.0)
    repeats = [delivery(n, at=5 + place) for place, n in enumerate(again)]
    verdicts = faults(*THREE, MOVED, *repeats, terms=terms)
    assert verdicts == ({"backwards": found} if found else {})


def test_a_copy_in_the_log_is_no_rewind():
    """A spool may store an event twice, and then the worker goes back to the event before it."""
    terms = replace(BILLING, commit=3.0, spool=True)
    repeats = [delivery(n, at=5 + place) for place, n in enumerate((2, 1, 2, 3))]
    assert "backwards" not in faults(*THREE, MOVED, *repeats, terms=terms)


@pytest.mark.parametrize(("moved", "found"), [(32.3, {}), (33.0, {"backwards": 1, "repeated": 2})])
def test_what_a_worker_attempted_just_before_the_end_of_a_window_may_be_repeated(moved, found):
    """The run begins anew in the window of the broker, and the event before it may not be committed yet."""
    cut = Fault("cut from", "kafka1", 1, 9)  # its window ends at 32
    sent = [request(number, 20 + number / 2) for number in range(6)]
    ends = (31.5, 31.95, 32.1, 32.15, 32.2, 32.25)
    done = [replace(delivery(n, at=at), end=at + 0.01) for n, at in enumerate(ends)]
    order = (2, 1) if found else (1, 2)
    again = [delivery(n, at=40 + place) for place, n in enumerate(order)]
    kill = Fault("killed", "worker-9", moved, moved)
    assert faults(*sent, *done, cut, kill, *again) == found


@pytest.mark.parametrize(
    ("status", "lasts", "at", "worker", "found"),
    [
        (204, 3, 3, "worker-1", True),
        (204, 3, 3, "worker-2", True),
        (None, 3, 3, "worker-1", True),
        (204, 3, 5.001, "worker-1", False),
        (
            None,
            30,
            12.1,
            "worker-1",
            False,
        ),  # given up after the time-out, which the target sees late
        (500, 30, 12.1, "worker-1", False),
    ],
)
def test_a_key_has_one_attempt_at_a_time(status, lasts, at, worker, found):
    """Only one attempt of a key is in flight at a time (guarantees, Order per key)."""
    slow = replace(delivery(1, at=2, status=status), end=2 + lasts)
    second = delivery(1, at=at, status=500, worker=worker)
    last = delivery(1, at=40) if status != 204 else kept(9)
    lines = (request(1, 0), request(9, 0.01), slow, second, last)
    verdicts = faults(*lines)
    assert ("two at once" in verdicts) is found
    cut = Fault("cut from", "worker-1", 1, 2.5)
    assert "two at once" not in faults(*lines, cut)


def test_a_repeat_comes_soon_after_its_fault():
    fault = Fault("cut from", "kafka1", 0, 1.05)
    late = BILLING.settle + BILLING.again
    assert faults(*ONCE, fault, delivery(1, at=1 + late)) == {}
    assert faults(*ONCE, fault, delivery(1, at=5000)) == {"repeated": 1}
    failing = [delivery(2, at=at, status=503) for at in range(40, 5000, 40)]
    slow = (*ONCE, fault, request(2, 3), *failing, delivery(1, at=4990), delivery(2, at=5000))
    assert "repeated" not in faults(*slow)  # its key waited


def test_failures_of_a_key_are_read_once_for_all_its_repeats():
    """A key that fails for hours would otherwise take hours to judge, and each history twice."""
    lines = [each for n in range(9) for each in (request(n, n / 9), delivery(n, at=1 + n / 9))]
    failing = [delivery(9, at=at, status=503) for at in range(40, 400, 40)]
    again = [delivery(n, at=360 + n) for n in range(9)]
    cut = Fault("cut from", "kafka1", 0, 2)
    records = (*lines, request(9, 3), *failing, *again, delivery(9, at=400), cut, BILLING)
    with closing(Tables(in_memory(records))) as tables:
        asked: list[str] = []
        tables.database.set_trace_callback(asked.append)
        assert allowed_repeats(tables) == {"fault": 9}
        assert list(repeated(tables)) == []
    assert sum("NOT done" in each for each in asked) == 1
    assert sum("UNION ALL" in each for each in asked) == 1


def test_a_fault_of_a_gateway_repeats_no_delivery():
    """A gateway that fails may let the sender repeat its request, which is a cause of its own."""
    cut = Fault("cut from", "gateway2", 0, 1.2)
    assert faults(*ONCE, cut, delivery(1, at=2)) == {"repeated": 1}
    assert judged(*ONCE, request(1, 0.5, None), cut, delivery(1, at=2)).repeats == {"sender": 1}
    both = replace(KILL, host="service")
    lines = (request(1, 0), *(delivery(1, at=at, worker="service") for at in (1, 2)))
    assert judged(*lines, both).repeats == {"fault": 1}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Fault("cut from", "gateway2", 1.9, 2.1), True),
        (Fault("killed", "worker2", 1.9, 2.1), True),  # before it has delivered anything
        (Fault("cut from", "worker2", 1.9, 2.1), False),  # partitions may move
        (Fault("cut from", "kafka1", 1.9, 2.1), False),
    ],
)
def test_two_attempts_at_once_need_a_fault_that_reaches_their_worker(fault, found):
    """A gateway has no consumers, and the end of another worker breaks no connection of this one."""
    lines = (request(1, 0), delivery(1, at=2, status=500), delivery(1, at=2.05))
    assert faults(*lines, fault) == ({"two at once": 1} if found else {})


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


ONCE = (request(1, 0), delivery(1, at=1))  # finished at 1.1
KILL = Fault("killed", "worker-1", 1.2, 1.2)


@pytest.mark.parametrize(
    ("fault", "allowed"),
    [
        (replace(KILL, start=1.7, end=1.7), True),  # the commit may lack what was finished at 1.1
        (replace(KILL, start=1.701, end=1.701), False),
        (replace(KILL, start=0.5, end=0.6), True),  # partitions may change owners until 1.1
        (replace(KILL, start=0.5, end=0.599), False),
        (replace(KILL, name="answers", host="target", repeats=False), False),
    ],
)
def test_a_fault_allows_repeats_for_its_time(fault, allowed):
    """The time of a commit before it, and of a change of owners after it (guarantees, What may come twice)."""
    terms = replace(BILLING, settle=0.5)
    convicted = faults(*ONCE, fault, delivery(1, at=2), terms=terms)
    assert convicted == ({} if allowed else {"repeated": 1})


@pytest.mark.parametrize("status", [500, None, 204])
def test_an_event_that_is_finished_is_not_attempted_again(status):
    """Also if the target refuses it then. Its retries are one repeated delivery."""
    again = [delivery(1, at=at, status=status) for at in (3, 4)]
    assert faults(*ONCE, *again) == {"repeated": 2 if status == 204 else 1}
    retried = [delivery(1, at=3, status=500), delivery(1, at=90)]
    assert judged(*ONCE, KILL, *retried).repeats == {"fault": 1}


def test_an_attempt_that_was_given_up_repeats_nothing():
    """The target notices seconds later that the connection of an earlier attempt is broken."""
    given_up = replace(delivery(1, at=0.5, status=None), end=30)
    assert faults(*ONCE, given_up, terms=replace(BILLING, timeout=1.3)) == {}


@pytest.mark.parametrize("place", ["parked", "dead-letter"])
def test_an_event_that_is_finished_is_not_kept(place):
    assert faults(*ONCE, kept(1, place)) == {"repeated": 1}
    assert judged(*ONCE, KILL, kept(1, place)).repeats == {"fault": 1}
    assert judged(*ONCE, request(1, 0.5, None), kept(1, place)).repeats == {"sender": 1}


def test_a_worker_reads_an_event_once_for_a_request():
    """Two copies of a sender may come in one request; a fault or a time-out brings no event twice in one."""
    twice = delivery(1, 1, at=1)
    terms = Terms({"billing": "events"}, timeout=0.05)
    assert faults(request(1, 0), twice, KILL, terms=terms) == {"repeated": 1}
    assert judged(request(1, 0), request(1, 0.2, None), twice).repeats == {"sender": 1}


def test_a_sender_explains_no_repeat_before_it_has_sent_again():
    """The sender repeats a request (guarantees, What may come twice)."""
    again = delivery(1, at=3)
    assert judged(*ONCE, again, request(1, 2.9, None)).repeats == {"sender": 1}
    assert faults(*ONCE, again, request(1, 3.1, None)) == {"repeated": 1}
    twice = judged(*ONCE, request(1, 2.9, None), again, delivery(1, at=4))
    assert (twice.repeats, twice.faults) == ({"sender": 1}, {"repeated": 1})


def test_an_attempt_is_given_up_after_its_time_and_not_before():
    slow = replace(delivery(1, at=1), end=7)
    terms = replace(BILLING, timeout=5)
    assert judged(request(1, 0), slow, delivery(1, at=6), terms=terms).repeats == {"timeout": 1}
    for at, found in (
        (5.1, {}),
        (4.9, {"repeated": 1}),
    ):  # the target reads the request up to 1 s late
        assert faults(request(1, 0), slow, delivery(1, at=at), terms=terms).get(
            "repeated"
        ) == found.get("repeated")
