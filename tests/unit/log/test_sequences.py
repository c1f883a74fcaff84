"""Sequence numbers of idempotent producers."""

from __future__ import annotations

import pytest

from app.log.sequences import SEQUENCES, Batch, ProducerState, Verdict, begin_state, judge_batch

KNOWN = ProducerState(epoch=3, batches=((3, 2, 103), (5, 5, 105)))


@pytest.mark.parametrize(
    ("known", "batch", "verdict"),
    [
        (None, Batch(1, 0, 0, 2), "append"),
        (None, Batch(1, 4, 77, 2), "append"),
        (KNOWN, Batch(1, 3, 10, 2), "append"),
        (KNOWN, Batch(1, 3, 5, 5), 105),
        (KNOWN, Batch(1, 3, 3, 2), 103),
        (KNOWN, Batch(1, 3, 1, 2), "out-of-order"),
        (KNOWN, Batch(1, 3, 6, 4), "out-of-order"),
        (KNOWN, Batch(1, 3, 11, 1), "out-of-order"),
        (KNOWN, Batch(1, 3, 0, 1), "out-of-order"),
        (KNOWN, Batch(1, 2, 10, 1), "fenced"),
        (KNOWN, Batch(1, 4, 0, 1), "append"),
        (KNOWN, Batch(1, 4, 10, 1), "out-of-order"),
    ],
)
def test_a_batch_is_judged_by_what_its_producer_stored_last(
    known: ProducerState | None, batch: Batch, verdict: Verdict | int
) -> None:
    """Once, in order, and never by an older incarnation."""
    assert judge_batch(known, batch) == verdict


def test_numbers_start_again_after_the_largest() -> None:
    """They have 31 bits."""
    last = ProducerState(epoch=0, batches=((SEQUENCES - 1, 1, 5),))
    assert judge_batch(last, Batch(1, 0, 0, 1)) == "append"
    assert Batch(1, 0, SEQUENCES - 1, 2).last == 0


def test_the_last_five_batches_are_remembered() -> None:
    """As many as a producer has in flight may be sent again after a lost answer."""
    state = begin_state(Batch(1, 0, 0, 2), 100, 1)
    for n in range(1, 7):
        state = state.with_batch(Batch(1, 0, 2 * n, 2), 100 + 2 * n, n)
    verdicts = [judge_batch(state, Batch(1, 0, 2 * n, 2)) for n in range(8)]
    assert verdicts == ["out-of-order", "out-of-order", 104, 106, 108, 110, 112, "append"]
    assert state.with_batch(Batch(1, 1, 0, 1), 114, 9).batches == ((0, 1, 114),)
