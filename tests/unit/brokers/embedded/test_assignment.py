"""Kafka's range strategy and its wire form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.log.groups.assignment import (
    assign_ranges,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from app.model.message import Partition

topics = st.sampled_from(["a", "b", "ü"])


def test_ranges_are_runs_and_the_first_members_get_one_more() -> None:
    """As Kafka's RangeAssignor does it."""
    given_out = assign_ranges({"m2": ["t"], "m1": ["t"]}, {"t": 5})
    assert given_out == {
        "m1": [Partition("t", n) for n in (0, 1, 2)],
        "m2": [Partition("t", n) for n in (3, 4)],
    }


def test_the_wire_form_is_kafkas() -> None:
    """Version 0 of the consumer protocol, byte for byte, so that Kafka clients can join."""
    assert write_subscription(["t"]) == bytes.fromhex("0000 00000001 0001 74 ffffffff")
    assert write_assignment([Partition("t", 2)]) == bytes.fromhex(
        "0000 00000001 0001 74 00000001 00000002 ffffffff"
    )
    assert read_assignment(b"") == []


@given(
    st.dictionaries(st.sampled_from("wxyz"), st.sets(topics, min_size=1).map(sorted), min_size=1),
    st.dictionaries(topics, st.integers(0, 9)),
)
def test_each_partition_has_exactly_one_owner_who_wants_it(
    wanted: dict[str, list[str]], partitions: dict[str, int]
) -> None:
    """One owner a partition (design), and nobody gets what it did not ask for."""
    given_out = assign_ranges(wanted, partitions)
    owned = [place for places in given_out.values() for place in places]
    expected = {
        Partition(topic, number)
        for topic, count in partitions.items()
        if any(topic in names for names in wanted.values())
        for number in range(count)
    }
    assert len(owned) == len(set(owned))
    assert set(owned) == expected
    assert all(p.topic in wanted[member] for member, places in given_out.items() for p in places)
    for places in given_out.values():
        assert sorted(map(str, read_assignment(write_assignment(places)))) == sorted(
            map(str, places)
        )
    for names in wanted.values():
        assert read_subscription(write_subscription(names)) == names
