"""Planted faults of events that come again, that go back, and that are attempted twice at once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from proof.checker_repeats import allowed_repeats, repeated
from proof.checker_tables import Tables
from proof.history import Fault, Terms, in_memory
from proof.small_history import BILLING, delivery, faults, judged, kept, request

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
