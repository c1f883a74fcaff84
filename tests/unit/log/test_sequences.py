"""Sequence numbers of idempotent producers."""

from __future__ import annotations

import pytest

from app.log.sequences import SEQUENCES, Batch, ProducerState, Verdict, judge_batch

KNOWN = ProducerState(epoch=3, sequence=9, offset=109, count=5)


@pytest.mark.parametrize(
    ("known", "batch", "verdict"),
    [
        (None, Batch(1, 0, 0, 2), "append"),
        (None, Batch(1, 4, 77, 2), "append"),
        (KNOWN, Batch(1, 3, 10, 2), "append"),
        (KNOWN, Batch(1, 3, 5, 5), "duplicate"),
        (KNOWN, Batch(1, 3, 6, 4), "out-of-order"),
        (KNOWN, Batch(1, 3, 11, 1), "out-of-order"),
        (KNOWN, Batch(1, 3, 0, 1), "out-of-order"),
        (KNOWN, Batch(1, 2, 10, 1), "fenced"),
        (KNOWN, Batch(1, 4, 0, 1), "append"),
        (KNOWN, Batch(1, 4, 10, 1), "out-of-order"),
    ],
)
def test_a_batch_is_judged_by_what_its_producer_stored_last(
    known: ProducerState | None, batch: Batch, verdict: Verdict
) -> None:
    """Once, in order, and never by an older incarnation."""
    assert judge_batch(known, batch) == verdict


def test_numbers_start_again_after_the_largest() -> None:
    """They have 31 bits."""
    last = ProducerState(epoch=0, sequence=SEQUENCES - 1, offset=5, count=1)
    assert judge_batch(last, Batch(1, 0, 0, 1)) == "append"
    assert Batch(1, 0, SEQUENCES - 1, 2).last == 0
