"""Places from the end, over ledgers that were closed, emptied and are still open."""

from __future__ import annotations

import msgspec
import pytest

from app.brokers.pulsar.admin import PartitionInternals
from app.brokers.pulsar.catalogue import before_end


def held(last: str, *ledgers: tuple[int, int]) -> PartitionInternals:
    """As the administration tells it: number and entries of each ledger; the open one is not counted."""
    return msgspec.convert(
        {
            "lastConfirmedEntry": last,
            "ledgers": [{"ledgerId": number, "entries": entries} for number, entries in ledgers],
        },
        PartitionInternals,
    )


@pytest.mark.parametrize(
    ("count", "place"),
    [
        (0, "9:3"),
        (1, "9:2"),
        (3, "9:0"),
        (4, "7:4"),
        (8, "7:0"),
        (9, "4:1"),
        (10, "4:0"),
        (99, "4:0"),
    ],
)
def test_it_goes_back_through_the_ledgers(count: int, place: str) -> None:
    """Entries count on from ledger to ledger; beyond the first there is nothing."""
    assert before_end(held("9:2", (4, 2), (7, 5), (9, 0)), count).text == place


def test_an_empty_newest_ledger_is_passed_over() -> None:
    """A broker that restarted begins a new one."""
    assert before_end(held("7:4", (7, 5), (9, 0)), 2).text == "7:3"
    assert before_end(held("9:-1", (7, 5), (9, 0)), 2).text == "7:3"


def test_a_partition_that_nothing_was_ever_stored_in_has_one_place() -> None:
    """Its earliest is its latest."""
    assert before_end(held("3:-1", (3, 0)), 5).text == "3:0"
