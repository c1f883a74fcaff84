"""A bound of the process, shared fairly (rule 8; and one hanging endpoint must not take it all)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.delivery.fair_share import FairShares


def taken(shares: FairShares, member: str) -> int:
    """As much as ``member`` gets one by one."""
    count = 0
    while shares.may(member):
        shares.take(member)
        count += 1
    return count


def test_one_alone_may_have_all():
    shares = FairShares(10)
    shares.join("a")
    assert taken(shares, "a") == 10


def test_one_that_takes_all_it_can_leaves_the_others_their_own_part():
    """Whatever hangs: half of the bound, divided evenly, is there for who needs it."""
    shares = FairShares(100)
    for member in "abcde":
        shares.join(member)
    assert taken(shares, "a") == 60
    assert [taken(shares, member) for member in "bcde"] == [10] * 4


def test_what_is_given_back_is_lent_again():
    shares = FairShares(8)
    shares.join("a")
    shares.join("b")
    assert taken(shares, "a") == 6
    shares.take("a", -5)
    assert taken(shares, "b") == 6


def test_one_unit_is_granted_to_who_has_none_however_small_the_parts():
    """An event larger than a part must be delivered too."""
    shares = FairShares(2)
    for member in "abc":
        shares.join(member)
    shares.take("a", 1_000)
    assert shares.may("b")
    assert not shares.may("a")


def test_who_left_counts_no_more_and_may_take_nothing():
    shares = FairShares(4)
    shares.join("a")
    shares.take("a", 4)
    shares.leave("a")
    shares.take("a", -4)
    assert (shares.total, shares.may("a")) == (0, False)


class SharesModel(RuleBasedStateMachine):
    """The bound holds at any moment, and the own part of each is always to be had."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = FairShares(40)
        self.taken: dict[str, int] = {}

    @rule(member=st.sampled_from("abcd"))
    def join(self, member):
        if sum(self.taken.values()) == 0 or member in self.taken:  # parts shrink: see below
            self.shares.join(member)
            self.taken.setdefault(member, 0)

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), units=st.integers(1, 9))
    def take(self, data, units):
        member = data.draw(st.sampled_from(sorted(self.taken)))
        if self.shares.may(member, units) and (self.taken[member] or units == 1):
            self.shares.take(member, units)
            self.taken[member] += units

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), share=st.floats(0, 1))
    def give(self, data, share):
        member = data.draw(st.sampled_from(sorted(self.taken)))
        units = int(self.taken[member] * share)
        self.shares.take(member, -units)
        self.taken[member] -= units

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def leave(self, data):
        member = data.draw(st.sampled_from(sorted(self.taken)))
        self.shares.leave(member)
        del self.taken[member]

    @invariant()
    def the_bound_holds(self):
        assert self.shares.total == sum(self.taken.values()) <= 40

    @invariant()
    def the_own_part_is_there(self):
        own = self.shares.own
        for member, taken_ in self.taken.items():
            if 0 < taken_ < own:
                assert self.shares.may(member, own - taken_)


SharesModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSharesModel = SharesModel.TestCase
