from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from app.delivery.lanes import Lanes


def take_oldest(lanes):
    lane = lanes.oldest()
    return None if lane is None else lanes.take_lane(lane)


def filled(*keys, concurrency=100):
    """Lanes with one item a key given, numbered from 0."""
    lanes = Lanes(concurrency)
    for number, key in enumerate(keys):
        lanes.add(key, number)
    return lanes


def take_all(lanes):
    taken = []
    while (lane := lanes.take()) is not None:
        taken.append(lane)
    return taken


def test_one_of_a_key_is_in_flight_and_many_keys_at_once():
    """Rule 3."""
    lanes = filled("a", "a", "b", "c", "a")
    assert [lane.head for lane in take_all(lanes)] == [0, 2, 3]
    assert (lanes.sending, lanes.ready, lanes.held) == (3, 0, 5)


def test_the_next_of_a_key_follows_when_its_head_is_finished():
    lanes = filled("a", "a")
    first = lanes.take()
    assert lanes.take() is None
    lanes.finish(first)
    assert lanes.take().head == 1


def test_no_more_than_the_cap_is_in_flight():
    lanes = filled(*range(10), concurrency=3)
    taken = take_all(lanes)
    assert len(taken) == 3
    lanes.finish(taken[0])
    assert len(take_all(lanes)) == 1


def test_a_key_with_many_events_does_not_starve_the_others():
    """Ready lanes take turns."""
    lanes = filled(*["busy"] * 100, "quiet", concurrency=1)
    order = []
    for _ in range(3):
        lane = lanes.take()
        order.append(lane.key)
        lanes.finish(lane)
    assert order == ["busy", "quiet", "busy"]


def test_a_waiting_key_holds_its_own_events_only():
    """Rule 4: quick waits hold the lane."""
    lanes = filled("a", "b", "a", "b")
    a, b = take_all(lanes)
    lanes.hold(a, 10.0)
    lanes.finish(b)
    assert [lane.head for lane in take_all(lanes)] == [3]
    assert (lanes.next_due(), lanes.waiting) == (10.0, 1)
    assert lanes.wake(9.9) == 0
    assert lanes.wake(10.0) == 1
    assert lanes.take().head == 0


def test_waits_end_in_the_order_of_their_moments():
    lanes = filled("a", "b", "c")
    for lane, until in zip(take_all(lanes), (3.0, 1.0, 2.0), strict=True):
        lanes.hold(lane, until)
    lanes.wake(3.0)
    assert [lane.key for lane in take_all(lanes)] == ["b", "c", "a"]


def test_what_is_given_back_is_sent_again_before_its_followers():
    lanes = filled("a", "a")
    lanes.give_back(lanes.take())
    assert lanes.take().head == 0


def test_a_probe_takes_what_was_not_tried_for_longest():
    """Rule 6: so one event that always fails is not the only probe there ever is."""
    lanes = filled("a", "b", "c")
    order = []
    for _ in range(6):
        lane = take_oldest(lanes)
        order.append(lane.key)
        lanes.hold(lane, 1000.0)
    assert order == ["a", "b", "c", "a", "b", "c"]
    assert lanes.waiting == 3


def test_a_probe_ends_the_wait_of_its_lane():
    lanes = filled("a")
    lanes.hold(lanes.take(), 5.0)
    lane = take_oldest(lanes)
    assert (lanes.next_due(), lanes.waiting) == (None, 0)
    lanes.hold(lane, 7.0)
    assert lanes.wake(5.0) == 0
    assert lanes.wake(7.0) == 1


def test_there_is_no_probe_while_all_is_on_the_wire():
    lanes = filled("a")
    lanes.take()
    assert take_oldest(lanes) is None


def test_what_is_dropped_is_never_sent_and_what_flies_lands():
    """Rule 5: a revoked partition's messages are forgotten, those on the wire come down."""
    lanes = filled("a", "a", "b", "c", "c")
    flying = lanes.take()
    lanes.hold(lanes.take(), 5.0)
    dropped = lanes.drop(lambda number: number in {0, 1, 2, 3})
    assert sorted(dropped) == [1, 2, 3]
    assert list(lanes.in_flight()) == [0]
    assert (lanes.held, lanes.waiting, lanes.next_due()) == (2, 0, None)
    lanes.finish(flying)
    assert [lane.head for lane in take_all(lanes)] == [4]


def test_the_wait_of_a_dropped_head_does_not_hold_its_followers():
    lanes = filled("a", "a")
    lanes.hold(lanes.take(), 1000.0)
    lanes.drop(lambda number: number == 0)
    assert lanes.take().head == 1


def test_a_lane_that_parks_leaves_as_a_whole_and_its_key_begins_anew():
    """Rule 4: the head and its followers go to the store together."""
    lanes = filled("a", "a", "b")
    assert lanes.remove(lanes.take()) == [0, 1]
    assert (lanes.held, lanes.sending) == (1, 0)
    lanes.add("a", 9)
    assert [lane.head for lane in take_all(lanes)] == [2, 9]


def test_the_lanes_that_hold_are_known_with_the_ends_of_their_waits():
    lanes = filled("a", "b", "c")
    lanes.hold(lanes.take(), 7.0)
    lanes.take()
    assert [(lane.key, lane.until) for lane in lanes.holding()] == [("a", 7.0)]
    assert [lanes.find(key) is not None for key in "abcd"] == [True, False, True, False]


def test_a_lane_cannot_be_concluded_twice():
    lanes = filled("a", "a")
    lane = lanes.take()
    lanes.finish(lane)
    with pytest.raises(KeyError):
        lanes.finish(lane)


class LanesModel(RuleBasedStateMachine):
    """Against the guarantee itself: order per key, one in flight per key, nothing lost or doubled,
    nobody passed over for ever."""

    flying = Bundle("flying")

    def __init__(self):
        super().__init__()
        self.lanes = Lanes(3)
        self.now = 0.0
        self.number = 0
        self.open = defaultdict(list)  # key: items not finished, in order
        self.in_flight = {}  # key: item
        self.waits = {}  # key: until
        self.passed_over = Counter()

    @rule(key=st.sampled_from("abcd"))
    def add(self, key):
        self.lanes.add(key, (key, self.number))
        self.open[key].append((key, self.number))
        self.number += 1

    @rule(target=flying)
    def take(self):
        ready = {key for key, items in self.open.items() if items}
        ready -= self.in_flight.keys() | self.waits.keys()
        lane = self.lanes.take()
        if lane is None:
            assert len(self.in_flight) == 3 or not ready
            return None
        assert lane.key in ready
        self._took(lane)
        for key in ready - {lane.key}:
            self.passed_over[key] += 1
            assert self.passed_over[key] <= 4, "a ready key was passed over more than a full turn"
        return lane

    @rule(target=flying)
    def take_oldest(self):
        lane = take_oldest(self.lanes)
        if lane is not None:
            self.waits.pop(lane.key, None)
            self._took(lane)
        return lane

    @rule(lane=consumes(flying))
    def finish(self, lane):
        if lane is not None:
            self.open[lane.key].remove(self.in_flight.pop(lane.key))
            self.lanes.finish(lane)

    @rule(lane=consumes(flying))
    def give_back(self, lane):
        if lane is not None:
            del self.in_flight[lane.key]
            self.lanes.give_back(lane)

    @rule(lane=consumes(flying), seconds=st.floats(0, 10))
    def hold(self, lane, seconds):
        if lane is not None:
            del self.in_flight[lane.key]
            self.waits[lane.key] = self.now + seconds
            self.lanes.hold(lane, self.now + seconds)

    @rule(lane=consumes(flying))
    def remove(self, lane):
        if lane is not None:
            del self.in_flight[lane.key]
            assert self.lanes.remove(lane) == self.open.pop(lane.key)

    @rule(seconds=st.floats(0, 10))
    def wake(self, seconds):
        self.now += seconds
        due = [key for key, until in self.waits.items() if until <= self.now]
        assert self.lanes.wake(self.now) == len(due)
        for key in due:
            del self.waits[key]

    @precondition(lambda self: self.number)
    @rule(odd=st.booleans())
    def drop(self, odd):
        def gone(item):
            return bool(item[1] % 2) == odd

        dropped = set(self.lanes.drop(gone))
        expected = set()
        for key, items in self.open.items():
            mine = {item for item in items if gone(item) and item != self.in_flight.get(key)}
            if key in self.waits and items[0] in mine:
                del self.waits[key]
            expected |= mine
            self.open[key] = [item for item in items if item not in mine]
        assert dropped == expected

    def _took(self, lane):
        assert lane.key not in self.in_flight
        assert lane.head == self.open[lane.key][0], "not the oldest of its key"
        self.in_flight[lane.key] = lane.head
        self.passed_over[lane.key] = 0

    @invariant()
    def counts_agree(self):
        assert self.lanes.held == sum(map(len, self.open.values()))
        assert self.lanes.sending == len(self.in_flight) <= 3
        assert self.lanes.waiting == len(self.waits)
        assert self.lanes.next_due() == min(self.waits.values(), default=None)
        assert sorted(self.lanes.in_flight()) == sorted(self.in_flight.values())
        with_work = sum(1 for items in self.open.values() if items)
        assert self.lanes.ready == with_work - len(self.in_flight) - len(self.waits)


LanesModel.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestLanesModel = LanesModel.TestCase


def test_several_of_a_lane_leave_and_land_together():
    """One request of several events: all of them are in flight, none of them is dropped, all end."""
    lanes = filled("a", "a", "a", "b")
    lane = lanes.take()
    assert lanes.take_next_of(lane) == 1
    assert list(lanes.in_flight()) == [0, 1]
    assert lanes.drop(lambda item: item < 3) == [2]
    assert lanes.take_next_of(lane) is None
    lanes.finish(lane)
    assert lanes.held == 1


def test_what_is_left_behind_is_the_next_of_its_key():
    lanes = filled("a", "a")
    lane = lanes.take()
    lanes.take_next_of(lane)
    lanes.undo_take(lane)
    lanes.finish(lane)
    assert lanes.take().head == 1


def test_those_given_back_together_are_tried_again_in_order():
    lanes = filled("a", "a", "a")
    lane = lanes.take()
    lanes.take_next_of(lane)
    lanes.hold(lane, 5.0)
    assert list(lanes.in_flight()) == []
    lanes.wake(5.0)
    assert lanes.take().head == 0


@pytest.mark.parametrize(("odd", "left"), [(0, [1, 3]), (1, [0, 2, 3])])
def test_on_landing_those_that_are_somebody_elses_are_forgotten(odd, left):
    """A lane of ``order_by`` may span partitions, of which one was taken away."""
    lanes = filled("a", "a", "a", "a")
    lane = lanes.take()
    lanes.take_next_of(lane)
    lanes.take_next_of(lane)
    assert lanes.drop_sent(lane, lambda item: item % 2 == odd) == [
        n for n in range(3) if n % 2 == odd
    ]
    lanes.give_back(lane)
    assert [item for item in range(4) if item in left] == list(lanes.take().items)
    assert lanes.held == len(left)
