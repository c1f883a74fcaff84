"""One contract, three stores: SQLite, PostgreSQL, and the one in memory that other tests use for them."""

from __future__ import annotations

from functools import partial

import pytest

from app.store import open_shared_store, open_store
from memory_store import MemoryStore
from postgres_server import delete_rows, fresh_database
from store_contract import LettersContract, OwnersContract, RedriveContract
from store_contract_messages import ParkedContract, PulledContract
from store_contract_tables import (
    AlertsContract,
    AttemptsContract,
    AuditContract,
    CommandsContract,
    ConsentsContract,
    HaltsContract,
    OffsetsContract,
    ProgressContract,
    RegistryContract,
    ReplaysContract,
)
from store_samples import PATIENT, sqlite_file, store_factory


class StoreContract(
    OwnersContract,
    LettersContract,
    RedriveContract,
    ParkedContract,
    PulledContract,
    AttemptsContract,
    AuditContract,
    RegistryContract,
    HaltsContract,
    CommandsContract,
    ConsentsContract,
    ReplaysContract,
    OffsetsContract,
    ProgressContract,
    AlertsContract,
):
    @pytest.fixture
    async def store(self, house):
        return await house.open()


class TestSqlite(StoreContract):
    @pytest.fixture
    async def house(self, tmp_path):
        async with store_factory(
            partial(open_store, sqlite_file(tmp_path), timeout=PATIENT)
        ) as house:
            yield house


@pytest.fixture(scope="module")
def dsn(postgres):
    return fresh_database(postgres)


@pytest.mark.postgres
class TestPostgresql(StoreContract):
    @pytest.fixture
    async def house(self, dsn):
        async with store_factory(partial(open_shared_store, dsn, timeout=PATIENT)) as house:
            yield house
        delete_rows(dsn)


class TestMemory(StoreContract):
    @pytest.fixture
    async def house(self):
        async with store_factory(MemoryStore) as house:
            yield house
