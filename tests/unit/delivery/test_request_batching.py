"""Which events leave in one request, and when: order per lane, turns of lanes, bounds, the wait."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.record import ContentMode, Decoded
from app.delivery.lanes import Lanes
from app.delivery.request_batching import (
    FRAME,
    JOINT,
    BatchBuilder,
    BatchLimits,
    DocumentPiece,
    next_request_at,
)
from app.event.value import CloudEvent

DECODED = Decoded(CloudEvent({}), ContentMode.BINARY)
ANY = BatchLimits(events=100, bytes=10_000, wait=0.0)


@dataclass(frozen=True)
class An:
    """An item: ``number`` in the order of arrival."""

    number: int
    size: int = 10
    alone: bool = False
    max_batch: int = 100
    attempts: int = 0


def piece(item: An) -> DocumentPiece | None:
    return None if item.alone else DocumentPiece(DECODED, b"x" * item.size)


def held(*given: tuple[str, An], concurrency: int = 1_000) -> Lanes[An]:
    lanes: Lanes[An] = Lanes(concurrency)
    for key, item in given:
        lanes.add(key, item)
    lanes.stamp(0.0)
    return lanes


def gathered(lanes: Lanes[An], bounds: BatchLimits = ANY) -> BatchBuilder[An]:
    lane = lanes.take()
    assert lane is not None
    gathering = BatchBuilder(lanes, bounds, piece)
    first = piece(lane.head)
    assert first is not None
    gathering.begin(lane, first)
    return gathering


def numbers(gathering: BatchBuilder[An]) -> list[int]:
    return [item.number for item in gathering.items]


def test_heads_go_first_then_more_of_the_same_lanes() -> None:
    """A key with many events takes what is left, not the place of the others."""
    lanes = held(*(("busy", An(n)) for n in range(5)), ("b", An(5)), ("c", An(6)), ("c", An(7)))
    assert numbers(gathered(lanes)) == [0, 5, 6, 1, 7, 2, 3, 4]
    lanes = held(*(("busy", An(n)) for n in range(5)), ("b", An(5)), ("c", An(6)))
    assert numbers(gathered(lanes, BatchLimits(events=3, bytes=10_000, wait=0))) == [0, 5, 6]


def test_bytes_are_bounded_frame_and_joints_included() -> None:
    size = 3 * 10 + 3 * JOINT + FRAME
    lanes = held(*((str(n), An(n)) for n in range(5)))
    assert numbers(gathered(lanes, BatchLimits(events=100, bytes=size, wait=0))) == [0, 1, 2]
    lanes = held(*((str(n), An(n)) for n in range(5)))
    assert numbers(gathered(lanes, BatchLimits(events=100, bytes=size - 1, wait=0))) == [0, 1]


def test_one_that_is_larger_than_a_request_may_be_goes_alone() -> None:
    """It is for the target to refuse it; else it would never leave."""
    lanes = held(("a", An(0, size=1_000)), ("b", An(1)))
    assert numbers(gathered(lanes, BatchLimits(events=100, bytes=100, wait=0))) == [0]


def test_what_goes_alone_is_passed_by_nobody() -> None:
    """The next in turn ends the request rather than be put off again and again."""
    other = An(1, alone=True)
    lanes = held(("a", An(0)), ("b", other), ("c", An(2)))
    assert numbers(gathered(lanes)) == [0]
    ready = lanes.next_ready()
    assert ready is not None
    assert ready.head is other


def test_within_a_lane_it_holds_up_its_own_followers_only() -> None:
    lanes = held(("a", An(0)), ("b", An(1)), ("a", An(2, alone=True)), ("a", An(3)), ("b", An(4)))
    gathering = gathered(lanes)
    assert numbers(gathering) == [0, 1, 4]
    assert [lane.sending for lane in gathering.lanes] == [1, 2]


def test_a_refused_one_bounds_the_request_it_is_in() -> None:
    """So a poison is found by halves; whoever joins it keeps to its bound."""
    lanes = held(("a", An(0)), ("b", An(1, max_batch=3)), ("c", An(2)), ("d", An(3)))
    assert numbers(gathered(lanes)) == [0, 1, 2]
    lanes = held(("a", An(0)), ("b", An(1)), ("c", An(2, max_batch=2)))
    assert numbers(gathered(lanes)) == [0, 1]
    lanes = held(("a", An(0, max_batch=1)), ("b", An(1)))
    assert numbers(gathered(lanes)) == [0]


def test_those_that_keep_their_turn_are_not_forgotten_behind_others() -> None:
    """Given back first, they stand before lanes that were seen ready long ago: a request leaves all the same."""
    bounds = BatchLimits(events=2, bytes=10_000, wait=0)
    lanes = held(*((str(n), An(n)) for n in range(5)))
    lanes.stamp(1.0)
    for lane in reversed(gathered(lanes, bounds).lanes):
        lanes.give_back(lane, first=True)
    probe = lanes.oldest()
    assert probe is not None
    lanes.finish(lanes.take_lane(probe))
    lanes.stamp(2.0)
    assert next_request_at(lanes, bounds) is not None
    ready = lanes.next_ready()
    assert ready is not None
    assert ready.head.number == 1


def test_the_cap_of_lanes_ends_a_request() -> None:
    lanes = held(*((str(n), An(n)) for n in range(5)), concurrency=2)
    assert numbers(gathered(lanes)) == [0, 1]


items = st.builds(
    An,
    number=st.just(0),
    size=st.integers(1, 40),
    alone=st.sampled_from([False, False, False, True]),
    max_batch=st.integers(1, 8),
)


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), items), min_size=1, max_size=40),
    st.integers(1, 8),
    st.integers(50, 200),
)
def test_whatever_is_held_everything_leaves_once_in_order_and_within_bounds(
    given_items: list[tuple[str, An]], events: int, size: int
) -> None:
    """Rule 3 with several of a key in one request; the last to leave is an ordinary one."""
    all_items = [
        (key, An(n, item.size, item.alone, item.max_batch))
        for n, (key, item) in enumerate(given_items)
    ]
    lanes = held(*all_items)
    left: dict[str, list[int]] = defaultdict(list)
    keys = {item.number: key for key, item in all_items}
    while lanes.held:
        first = lanes.next_ready()
        assert first is not None
        if first.head.alone:
            lanes.take()
            left[keys[first.head.number]].append(first.head.number)
            lanes.finish(first)
            continue
        gathering = gathered(lanes, BatchLimits(events=events, bytes=size, wait=0))
        assert not any(item.alone for item in gathering.items)
        assert len(gathering.items) <= min(events, *(item.max_batch for item in gathering.items))
        total = sum(item.size + JOINT for item in gathering.items) + FRAME
        assert total <= size or len(gathering.items) == 1
        assert sorted(lanes.in_flight(), key=lambda item: item.number) == sorted(
            gathering.items, key=lambda item: item.number
        )
        for item in gathering.items:
            left[keys[item.number]].append(item.number)
        for lane in gathering.lanes:
            lanes.finish(lane)
    for key, ordered in left.items():
        assert ordered == [item.number for each, item in all_items if each == key]


def test_without_a_wait_a_request_leaves_at_once() -> None:
    assert next_request_at(held(("a", An(0))), ANY) == 0.0
    assert next_request_at(held(), ANY) is None


def test_a_wait_counts_from_when_the_first_could_be_sent() -> None:
    """max_wait is a promise about an event: later ones do not lengthen it."""
    bounds = BatchLimits(events=3, bytes=10_000, wait=2.0)
    lanes = held(("a", An(0)))
    lanes.add("b", An(1))
    lanes.stamp(1.5)
    assert next_request_at(lanes, bounds) == 2.0
    gathered(lanes, bounds)
    lanes.add("c", An(2))
    lanes.stamp(1.75)
    assert next_request_at(lanes, bounds) == 3.75


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (An(0), [An(1), An(2)]),
        (An(0, size=5_000), [An(1, size=5_000)]),
        (An(0, attempts=1), []),
    ],
    ids=["enough events", "enough bytes", "tried before"],
)
def test_enough_or_tried_before_waits_for_nobody(first: An, more: list[An]) -> None:
    bounds = BatchLimits(events=3, bytes=10_000, wait=2.0)
    lanes = held(("a", first), *((str(item.number), item) for item in more))
    assert next_request_at(lanes, bounds) == 0.0


def test_a_lane_of_many_is_enough_by_itself() -> None:
    lanes = held(*(("a", An(n)) for n in range(3)))
    assert next_request_at(lanes, BatchLimits(events=3, bytes=10_000, wait=2.0)) == 0.0
    assert next_request_at(lanes, BatchLimits(events=4, bytes=10_000, wait=2.0)) == 2.0
