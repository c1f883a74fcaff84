"""The time of day of a shared store: that of the PostgreSQL server, whatever the clock of a process shows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from app.interfaces.clock import MEASURE_EVERY
from app.store import SqlStore, open_shared_store
from postgres_server import fresh_database
from store_samples import PATIENT
from virtual_clock import VirtualClock

pytestmark = pytest.mark.postgres
HOUR = 3600.0
SECOND = 1.0  # more than a question on loopback takes


class SharedStore:
    """A store whose process has a clock of its own."""

    def __init__(self, dsn: str) -> None:
        self.own = VirtualClock()
        self.store: SqlStore = open_shared_store(dsn, timeout=PATIENT, clock=self.own)
        self.clock = self.store.clock

    async def server_process(self) -> int:
        """Return the id of the server's process for the store's connection."""
        number: int = await self.store._transactions.run(
            lambda connection: connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        )
        return number


@pytest.fixture
def dsn(postgres: str) -> str:
    return fresh_database(postgres)


@pytest.fixture
async def shared(dsn: str) -> AsyncIterator[SharedStore]:
    shared = SharedStore(dsn)
    await shared.store.start()
    yield shared
    await shared.store.stop()


def server_time(dsn: str) -> float:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


async def test_a_started_store_knows_the_time_of_its_server(shared: SharedStore, dsn: str) -> None:
    assert abs(shared.clock.now() - server_time(dsn)) < SECOND


async def test_a_clock_that_runs_apart_is_measured_again(shared: SharedStore, dsn: str) -> None:
    """A suspended machine: its monotonic clock stood still, or it runs too fast."""
    shared.own.suspend(HOUR)
    assert shared.clock.now() - server_time(dsn) > HOUR - SECOND
    await shared.store.halts.all()
    assert abs(shared.clock.now() - server_time(dsn)) < SECOND


async def test_between_two_measurements_the_server_is_not_asked(shared: SharedStore) -> None:
    shared.own.suspend(MEASURE_EVERY / 2)
    before = shared.clock.now()
    await shared.store.halts.all()
    assert shared.clock.now() == before


async def test_each_new_connection_is_asked(shared: SharedStore, dsn: str) -> None:
    """The server may be another one: a standby that was promoted."""
    own = await shared.server_process()
    shared.own.suspend(MEASURE_EVERY / 2)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [own])
    await shared.store.halts.all()
    assert abs(shared.clock.now() - server_time(dsn)) < SECOND
