"""How far a range that is read again is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.delivery.replay_range import ReplayRange


@given(st.permutations(range(8)), st.integers(0, 8))
def test_where_to_go_on_is_the_first_that_is_not_finished(order, finished):
    """Lost 0: a crash must not pass over one that was open (rule 2)."""
    replay = ReplayRange("10")
    for offset in range(8):
        replay.take(10 + offset, str(10 + offset))
    for offset in order[:finished]:
        replay.finish(10 + offset)
    expected = next((n for n in range(8) if n not in order[:finished]), 8)
    assert replay.next == str(10 + expected)
    assert replay.done == expected


def test_positions_that_are_no_numbers_are_read_again_from_the_last_one():
    """Nobody can say what comes behind 7:3 on Pulsar: one event twice, none lost."""
    replay = ReplayRange("7:0")
    replay.take(1, "7:3")
    replay.finish(1)
    assert (replay.next, replay.done) == ("7:3", 1)


def test_read_again_it_counts_on():
    replay = ReplayRange("0", done=5)
    replay.take(0, "0")
    replay.take(1, "1")
    replay.finish(0)
    replay.restart()
    assert replay.next == "1"
    replay.take(1, "1")
    replay.finish(1)
    replay.finish(1)
    assert (replay.next, replay.done) == ("2", 7)
