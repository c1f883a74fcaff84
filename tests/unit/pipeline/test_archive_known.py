"""What the driver remembers of ``events`` is what ``events`` has, whoever commits to it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.pipeline.archive import known
from app.pipeline.archive.known import IdentityCache
from app.pipeline.decode.buffers import Numbers
from app.pipeline.history import Snapshot


class Table:
    """A table of identities, and how often all of them were read."""

    def __init__(self, *identities: int) -> None:
        self.rows = list(identities)
        self.snapshot = 1
        self.read = 0

    @property
    def newest(self) -> Snapshot:
        told = {"total-records": str(len(self.rows))}
        return Snapshot(self.snapshot, self.snapshot - 1, 0, "append", told)

    def commit(self, *added: int) -> Snapshot:
        self.rows += added
        self.snapshot += 1
        return self.newest

    def all(self) -> Numbers:
        self.read += 1
        return numbers(self.rows)

    def has(self, remembered: IdentityCache, *names: int) -> list[int] | None:
        found = remembered.present(numbers(names), self.newest, self.all)
        return None if found is None else found.tolist()


def numbers(values: list[int] | tuple[int, ...]) -> Numbers:
    return np.array(values, np.int64)


identity = st.integers(-20, 20)
steps = st.lists(st.tuples(st.sampled_from(["ours", "another's"]), st.lists(identity, max_size=9)))


@given(st.lists(identity), steps, st.lists(identity, min_size=1))
def test_it_says_what_the_table_has(first: list[int], done: object, asked: list[int]) -> None:
    table, remembered = Table(*first), IdentityCache()
    for by, added in done:  # type: ignore[attr-defined]
        found = table.has(remembered, *asked)
        assert found is None or sorted(found) == sorted(n for n in asked if n in table.rows)
        if by == "ours":
            remembered.extend(table.commit(*added), [numbers(added)])
        else:
            table.commit(*added)
            table.commit()


def test_the_table_is_read_once_and_again_when_another_has_committed() -> None:
    table, remembered = Table(1, 2, 3), IdentityCache()
    assert table.has(remembered, 3, 4) == [3]
    for name in range(4, 100):
        remembered.extend(table.commit(name), [numbers([name])])
        assert table.has(remembered, name, 200) == [name]
    assert table.read == 1
    assert len(remembered._sorted) < 10, "or each look asks many"
    table.commit(200)
    assert table.has(remembered, 200) == [200]
    assert table.read == 2


def test_a_commit_of_another_before_ours_is_not_taken_for_ours() -> None:
    table, remembered = Table(1), IdentityCache()
    assert table.has(remembered, 1) == [1]
    table.commit(7)
    remembered.extend(table.commit(8), [numbers([8])])
    assert table.has(remembered, 7, 8) == [7, 8]


def test_a_large_table_is_remembered_when_that_pays() -> None:
    table, remembered = Table(*range(100)), IdentityCache()
    looks = [table.has(remembered, *range(95, 105)) for _ in range(4)]
    assert looks == [None, None, [*range(95, 100)], [*range(95, 100)]], "30 * LARGER >= 100"


def test_a_table_that_is_too_large_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST", 10)
    table, remembered = Table(*range(9)), IdentityCache()
    assert table.has(remembered, *range(5)) == [0, 1, 2, 3, 4]
    remembered.extend(table.commit(9, 10), [numbers([9, 10])])
    assert table.has(remembered, 1) is None


def test_what_is_remembered_is_sorted_without_a_further_copy() -> None:
    remembered, more = IdentityCache(), np.arange(400_000)[::-1]
    told = {"total-records": "600000"}
    names = np.arange(200_000)
    remembered.present(names, Snapshot(1, None, 0, "append", told), lambda: np.arange(600_000))
    tracemalloc.start()
    try:
        remembered.extend(Snapshot(2, 1, 0, "append", {}), [more])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    [whole] = remembered._sorted
    assert whole.tolist() == sorted([*range(600_000), *range(400_000)])
    assert peak < 2 * whole.nbytes, "the old ones are there besides"


def test_records_with_earlier_times_are_looked_up_in_more_of_the_table() -> None:
    """With a window of duplicates: a mirror may send records with the times of their first broker."""
    remembered, table = IdentityCache(), {100: 7, 200: 8, 300: 9}

    def has(since: int) -> list[int] | None:
        rows = [name for at, name in table.items() if at >= since]
        newest = Snapshot(1, None, 0, "append", {})
        found = remembered.present(
            numbers([7, 8, 9]), newest, lambda: numbers(rows), lambda: len(rows), since
        )
        return None if found is None else found.tolist()

    assert has(150) == [8, 9]
    assert has(100) == [7, 8, 9]
    assert has(250) == [7, 8, 9], "those that are compared next are of the window"
