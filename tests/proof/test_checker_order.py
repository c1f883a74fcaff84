"""The order that the checker finds in many events at once is the one that its definition gives, pair by pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from example_counts import examples
from proof.checker_order import out_of_order
from proof.checker_tables import Tables
from proof.history import Delivery, Left, Record, Request, in_memory
from proof.small_history import BILLING, delivery, kept, request

EVENTS = 6
some = st.lists(st.integers(0, EVENTS - 1), min_size=1, max_size=4, unique=True)
sent = st.builds(
    lambda number, start, status: replace(request(number, start, status), end=start + 1),
    st.integers(0, EVENTS - 1),
    st.integers(0, 9),
    st.sampled_from((202, 202, 202, None)),
)
attempts = st.builds(
    lambda numbers, at, lasts, status: replace(
        delivery(*numbers, at=at, status=status), end=at + lasts
    ),
    some, st.integers(0, 30), st.integers(0, 4), st.sampled_from((204, 204, 500)),
)  # fmt: skip
parked = st.builds(kept, st.integers(0, EVENTS - 1), st.just("parked"))
histories = st.tuples(
    st.lists(sent, min_size=EVENTS, max_size=2 * EVENTS),
    st.lists(attempts, max_size=8),
    st.lists(parked, max_size=2),
).map(lambda parts: [*parts[0], *parts[1], *parts[2]])


def passing(records: Sequence[Record]) -> Iterator[str]:
    """Return the events of which an attempt began before an earlier event of the key was finished, one pair at a time."""
    requests = [each for each in records if isinstance(each, Request)]
    arrived = [each for each in records if isinstance(each, Delivery)]
    held = {each.id for each in records if isinstance(each, Left)}
    first, acked, over = dict[str, float](), dict[str, float](), dict[str, float]()
    for each in requests:
        name = each.events[0].id
        first[name] = min(each.start, first.get(name, each.start))
        if each.status == 202:
            acked[name] = min(each.end, acked.get(name, each.end))
    for each in arrived:
        for event in each.events if each.status == 204 else ():
            over[event.id] = min(each.end, over.get(event.id, each.end))
    for each in arrived:
        names = [event.id for event in each.events]
        for place, later in enumerate(names):
            for earlier in acked.keys() - {*names[:place], later}:
                end = over.get(earlier, 99.0 if earlier in held else 0.0)
                if later in first and acked[earlier] <= first[later] and end > each.start:
                    yield later


@examples(15)
@given(histories)
def test_the_events_that_began_too_early_are_those_of_the_definition(records):
    lines = list(in_memory([*records, BILLING]))
    with closing(Tables(lines)) as tables:
        sent = [lines[witness[1] - 1].record for witness in out_of_order(tables)]
    assert sorted(each.events[0].id for each in sent) == sorted(set(passing(records)))
