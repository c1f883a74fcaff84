"""Counting what would otherwise be told a thousand times."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.delivery.coalescing import Coalescer


def test_the_first_is_told_at_once_and_the_others_when_the_window_is_over():
    """An alarm must not wait ten seconds, and a storm must not be a thousand of them."""
    tally = Coalescer(10.0)
    assert [tally.add("a", now) for now in (0.0, 1.0, 2.0)] == [1, 0, 0]
    assert tally.due(9.9) == {}
    assert tally.due(10.0) == {"a": 2}


def test_a_key_that_was_quiet_for_a_window_is_told_at_once_again():
    """Else the first of the next incident would be late."""
    tally = Coalescer(10.0)
    tally.add("a", 0.0)
    assert tally.due(10.0) == {}
    assert tally.next_due() is None
    assert tally.add("a", 11.0) == 1


def test_a_window_follows_the_window_in_which_something_came():
    """At most one in ten seconds, also in a storm that lasts."""
    tally = Coalescer(10.0)
    tally.add("a", 0.0)
    tally.add("a", 1.0)
    assert tally.due(10.0) == {"a": 1}
    assert tally.add("a", 10.5) == 0
    assert tally.next_due() == 20.0


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 5)), max_size=60))
def test_every_occurrence_is_told_once_and_words_about_a_key_keep_their_distance(steps):
    """Counts that operators add up must add up, whatever the rhythm."""
    tally: Coalescer[str] = Coalescer(10.0)
    now, told, moments = 0.0, Counter(), {"a": [], "b": []}

    def tell(found):
        for key, count in found.items():
            told[key] += count
            moments[key].append(now)

    for key, wait in steps:
        now += wait
        tell(tally.due(now))
        if count := tally.add(key, now):
            tell({key: count})
    for times in moments.values():
        assert all(later - earlier >= 9.999 for earlier, later in pairwise(times))
    tell(tally.rest(now))
    assert told == Counter(key for key, _ in steps)
