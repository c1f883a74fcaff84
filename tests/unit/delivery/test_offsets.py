from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from app.delivery.offsets import METADATA_BOUND, FinishedRuns, decode_runs, encode_runs


def taken(*offsets, committed=None):
    runs = FinishedRuns(offsets[0] if committed is None else committed)
    assert all(runs.take(offset) for offset in offsets)
    return runs


def test_the_commit_is_the_lowest_unfinished_position():
    """Rule 2: never past an event that is still open."""
    runs = taken(5, 6, 7, 8)
    runs.finish(7)
    runs.finish(6)
    assert (runs.commit, runs.window, runs.metadata()) == (5, 4, "f1:1-2")
    runs.finish(5)
    assert (runs.commit, runs.window, runs.metadata()) == (8, 1, "")
    runs.finish(8)
    assert (runs.commit, runs.window, runs.next) == (9, 0, 9)


def test_gaps_of_a_compacted_log_do_not_hold_the_commit():
    runs = taken(5, 9, 20)
    runs.finish(5)
    runs.finish(20)
    assert (runs.commit, runs.window) == (9, 12)
    runs.finish(9)
    assert runs.commit == 21


def test_nothing_taken_commits_where_it_began():
    runs = FinishedRuns(42)
    assert (runs.commit, runs.next, runs.window, runs.metadata()) == (42, 42, 0, "")


@pytest.mark.parametrize("offset", [0, 4, 9, 100])
def test_finishing_what_was_never_taken_changes_nothing(offset):
    """A settle of an older epoch or of another member must not move the commit, nor stay behind."""
    runs = taken(5, 6, 8)
    runs.finish(offset)
    for open_one in (5, 6, 8):
        runs.finish(open_one)
    assert runs.commit == 9
    assert runs.take(9)
    assert runs.take(100)
    assert (runs.commit, runs.metadata()) == (9, "")


def test_finishing_twice_is_finishing_once():
    runs = taken(5, 6, 7)
    for _ in range(2):
        runs.finish(6)
        runs.finish(5)
    assert (runs.commit, runs.metadata()) == (7, "")


def test_a_restart_repeats_only_what_was_open():
    """Rule 2: the finished ranges above the commit are in its metadata."""
    before = taken(*range(5, 15))
    for offset in (6, 7, 10, 14):
        before.finish(offset)
    after = FinishedRuns.restore(before.commit, before.metadata())
    assert [offset for offset in range(5, 15) if after.take(offset)] == [5, 8, 9, 11, 12, 13]


def test_runs_not_yet_read_again_survive_a_second_restart():
    """A worker that dies before it has read up to its runs must not forget them."""
    before = taken(*range(10))
    for offset in (3, 4, 8):
        before.finish(offset)
    second = FinishedRuns.restore(before.commit, before.metadata())
    second.take(0)
    second.take(1)
    third = FinishedRuns.restore(second.commit, second.metadata())
    assert [offset for offset in range(10) if third.take(offset)] == [0, 1, 2, 5, 6, 7, 9]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "f2:1-2",
        "f1:a",
        "f1:-2",
        "f1:1-",
        "f1:1--2",
        "f1:1,,2",
        "f1:",
        "{}",
        "f1:²",
        "f1:5-3",
    ],
)
def test_metadata_that_is_not_ours_is_no_error_and_loses_nothing(text):
    """Other tools write there too; at worst events are repeated, never skipped."""
    runs = FinishedRuns.restore(5, text)
    delivered = [offset for offset in range(5, 12) if runs.take(offset)]
    assert delivered == list(range(5, 12))


RUNS = st.lists(st.integers(1, 10_000), unique=True, max_size=40).map(
    lambda edges: [
        (low, high) for low, high in zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False)
    ]
)


@given(RUNS, st.integers(0, 10**12))
def test_runs_survive_their_text(runs, committed):
    absolute = [(committed + first, committed + last) for first, last in runs]
    assert decode_runs(committed, encode_runs(committed, absolute)) == absolute


@given(st.integers(0, 2**62), st.integers(1, 3000))
def test_the_text_stays_within_its_bound_and_names_the_lowest_runs(committed, count):
    """Kafka refuses a commit whose metadata is longer; what is left out is only repeated."""
    runs = [(committed + 10 * n, committed + 10 * n + 3) for n in range(1, count + 1)]
    text = encode_runs(committed, runs)
    assert len(text) <= METADATA_BOUND
    kept = decode_runs(committed, text)
    assert kept == runs[: len(kept)]


def test_a_restart_within_a_finished_run_forgets_none_of_it():
    """What was taken ends inside a run that an earlier life finished: its rest is not repeated."""
    runs = FinishedRuns(4, [(5, 6)])
    assert [runs.take(offset) for offset in (4, 5)] == [True, False]
    again = FinishedRuns.restore(runs.commit, runs.metadata())
    assert [again.take(offset) for offset in (4, 5, 6, 7)] == [True, False, False, True]


class OffsetsModel(RuleBasedStateMachine):
    """Against the promise: committed means finished, finished is not repeated after a restart."""

    def __init__(self):
        super().__init__()
        self.runs = FinishedRuns(0)
        self.next = 0
        self.open = set()
        self.finished = set()

    @rule(count=st.integers(1, 5))
    def take(self, count):
        for offset in range(self.next, self.next + count):
            if offset % 7 == 3:  # compacted away: never there, before a restart or after
                continue
            wanted = self.runs.take(offset)
            assert wanted == (offset not in self.finished)
            if wanted:
                self.open.add(offset)
            self.next = offset + 1

    @rule(data=st.data())
    def finish(self, data):
        if self.open:
            offset = data.draw(st.sampled_from(sorted(self.open)))
            self.open.remove(offset)
            self.finished.add(offset)
            self.runs.finish(offset)

    @rule(offset=st.integers(0, 200))
    def finish_again_or_unknown(self, offset):
        if offset not in self.open:
            self.runs.finish(offset)

    @rule()
    def restart(self):
        self.runs = FinishedRuns.restore(self.runs.commit, self.runs.metadata())
        self.next = self.runs.commit
        self.open.clear()

    @invariant()
    def the_commit_is_below_everything_open(self):
        assert self.runs.commit == min(self.open, default=self.next)
        assert self.runs.window == self.next - self.runs.commit
        assert self.runs.next == self.next


OffsetsModel.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestOffsetsModel = OffsetsModel.TestCase


def test_what_was_passed_over_moves_the_commit_only_where_nothing_is_open() -> None:
    """Left out by the log, it is nobody's work; an open message holds all the same (rule 2)."""
    runs = FinishedRuns(0)
    runs.pass_over(5)
    assert (runs.commit, runs.window, runs.open) == (5, 0, False)
    assert runs.take(6)
    runs.pass_over(20)
    assert (runs.commit, runs.window, runs.open) == (6, 14, True)
    runs.finish(6)
    assert (runs.commit, runs.window, runs.metadata()) == (20, 0, "")
    runs.pass_over(3)
    assert runs.commit == 20, "never back"


def test_passing_over_keeps_what_was_finished_further_on() -> None:
    """Finished before a restart, above where the reading is now."""
    runs = FinishedRuns.restore(10, "f1:2-3,10")
    runs.pass_over(15)
    assert runs.metadata() == "f1:5"
    assert not runs.take(20)
    assert runs.commit == 21
