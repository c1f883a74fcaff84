"""Many dead letters at once: in portions, so that nobody else waits for the store."""

from __future__ import annotations

import pytest

from app.interfaces import DeadLetterFilter
from app.store import dead_letters, open_store
from store_samples import a_letter, sqlite_file


@pytest.fixture
async def store(tmp_path):
    store = open_store(sqlite_file(tmp_path), timeout=60)
    await store.start()
    yield store
    await store.stop()


async def test_all_that_are_chosen_are_discarded_however_many_a_portion_takes(store, monkeypatch):
    """The count is that of all portions; what was not chosen stays."""
    monkeypatch.setattr(dead_letters, "AT_ONCE", 3)
    for n in range(7):
        await store.letters.add(a_letter(n))
    await store.letters.add(a_letter(100, cause="timeout"))
    assert await store.letters.discard(DeadLetterFilter(causes=("status-415",))) == 7
    assert list(await store.letters.count(DeadLetterFilter())) == [("billing", "timeout")]


async def test_counting_since_a_time_reads_no_letters(store):
    """A redrive is followed by this count, twice a second, among perhaps a million letters."""

    def plan(connection):
        query = (
            "SELECT subscription, cause, count(*) FROM dead_letters WHERE at_ms >= 5 GROUP BY 1, 2"
        )
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]

    (how,) = await store._transactions.run(plan)
    assert "COVERING INDEX dead_letters_by_cause" in how
