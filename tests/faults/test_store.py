"""The store under kills, races and a database that goes away: what was acknowledged is there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from app.errors import SetupError, StaleOwner, StoreUnavailable
from app.interfaces import Command, Commit
from app.store import open_shared_store
from app.store.owners import fence
from app.store.postgresql import open_engine
from postgres_server import PostgresServer, fresh_database
from store_samples import (
    ALL,
    BROKER,
    NOW,
    ORDERS,
    PATIENT,
    PAYMENTS,
    SUBSCRIPTION,
    a_letter,
    a_row,
    an_offer,
    offsets,
    sqlite_file,
    store_factory,
)
from store_writer import GROUP, open_store_at

pytestmark = [pytest.mark.nightly, pytest.mark.fault]

MINE = (SUBSCRIPTION, BROKER)
SUPPORT = Path(__file__).parent.parent / "support"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request, tmp_path):
    """Of a store that is not there yet: a file or a DSN."""
    if request.param == "sqlite":
        return str(sqlite_file(tmp_path))
    return fresh_database(request.getfixturevalue("postgres"))


@pytest.fixture
async def two(postgres):
    """Two stores on one PostgreSQL, as two processes have them."""
    dsn = fresh_database(postgres)
    async with store_factory(lambda: open_shared_store(dsn, timeout=PATIENT)) as house:
        yield await house.open(), await house.open()


async def test_what_was_acknowledged_survives_a_kill(place):
    """Reliability: killed in the middle of writes, again and again, on the same data."""
    acknowledged: dict[str, set[int]] = {"letter": set(), "parked": set(), "offset": set()}
    for _ in range(2):
        for line in await asyncio.to_thread(written_until_killed, place):
            kind, number = line.split()
            acknowledged[kind].add(int(number))
    store = open_store_at(place)
    await store.start()
    letters, rows = await store.letters.find(ALL, 100_000), await store.parked.find(limit=100_000)
    known = await store.offsets.offsets(BROKER, GROUP, [ORDERS])
    await store.stop()
    assert min(map(len, acknowledged.values())) > 10
    assert acknowledged["letter"] <= set(offsets(letters))
    assert acknowledged["parked"] <= set(offsets(rows))
    assert known[ORDERS].offset >= 10
    assert len(set(offsets(letters))) == len(letters)


def written_until_killed(place: str) -> list[str]:
    """What a writer said before it was killed, a last line that it did not finish left out."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}
    command = [sys.executable, "-m", "store_writer", place]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(60)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    return [line for line in lines if line.endswith("\n")]


@pytest.mark.postgres
async def test_a_database_that_goes_away_loses_nothing_acknowledged_and_heals(
    own_postgres: PostgresServer,
):
    """Writers say StoreUnavailable meanwhile, and try again by themselves."""
    refused: list[StoreUnavailable] = []
    dsn = fresh_database(own_postgres.dsn)
    async with (
        store_factory(lambda: open_shared_store(dsn, timeout=PATIENT)) as house,
        asyncio.timeout(240),
    ):
        store = await house.open()

        async def write_all(numbers: range) -> None:
            for number in numbers:
                while True:
                    try:
                        await store.letters.add(a_letter(number))
                        break
                    except StoreUnavailable as error:
                        refused.append(error)
                        await asyncio.sleep(0.02)

        writers = asyncio.gather(*(write_all(range(n, 900, 3)) for n in range(3)))
        while sum((await store.letters.count(ALL)).values()) < 100:
            await asyncio.sleep(0)
        own_postgres.kill()
        while (await store.health()).healthy:  # what the killed one has begun may end yet
            await asyncio.sleep(0.02)
        await asyncio.to_thread(own_postgres.start)
        await writers
        assert offsets(sorted(await store.letters.find(ALL, 1000), key=by_offset)) == [*range(900)]
        assert refused
        assert "not-to-be-shown" not in "".join(map(str, refused))
        assert (await store.health()).healthy


def by_offset(row):
    return row.message.offset


@pytest.mark.postgres
async def test_a_process_that_stands_still_in_a_write_gives_up_its_lock(postgres):
    """Rule 5: a worker stopped beyond its lease must not keep its successor from owning."""
    dsn = fresh_database(postgres)
    async with (
        store_factory(lambda: open_shared_store(dsn, timeout=PATIENT)) as house,
        asyncio.timeout(240),
    ):
        successor = await house.open()
        await successor.owners.own(*MINE, [ORDERS], 5)
        engine, stopped = await asyncio.to_thread(locked, dsn)
        await successor.owners.own(*MINE, [ORDERS], 6)
        with pytest.raises(sa.exc.DBAPIError):
            await asyncio.to_thread(stopped.execute, sa.text("UPDATE owners SET epoch = 4"))
        await asyncio.to_thread(stopped.close)
        await asyncio.to_thread(engine.dispose)


def locked(dsn: str) -> tuple[sa.Engine, sa.Connection]:
    """A process that writes as an owner does and stands still. Its time-out bounds all that it asks, so that
    on a busy machine it may have to begin anew.
    """
    for _ in range(20):
        with (
            contextlib.suppress(SetupError, sa.exc.DBAPIError),
            contextlib.ExitStack() as undoing,
        ):
            engine = open_engine(f"{dsn}&connect_timeout=60", 0.3)
            undoing.callback(engine.dispose)
            stopped = engine.connect()
            undoing.callback(stopped.close)
            stopped.execute(sa.text("SELECT 1 FROM owners FOR UPDATE"))
            undoing.pop_all()
            return engine, stopped
    raise AssertionError("no answer in its time-out, twenty times")


@pytest.mark.postgres
async def test_an_owner_sees_all_that_the_one_before_could_still_write(two):
    """Rule 5: own(), then lanes(): no row appears behind its back, and none is missing."""
    before, after = two
    await before.owners.own(*MINE, [ORDERS], 5)
    acknowledged = []

    async def write() -> None:
        for number in range(10_000):
            await before.parked.park([a_row(number)])
            acknowledged.append(number)

    writing = asyncio.create_task(write())
    while len(acknowledged) < 20:
        await asyncio.sleep(0)
    await after.owners.own(*MINE, [ORDERS], 6)
    lanes = await after.parked.lanes(*MINE, [ORDERS])
    with pytest.raises(StaleOwner):
        await writing
    rows = await after.parked.find(limit=10_000)
    assert offsets(rows) == acknowledged
    assert lanes[ORDERS][b"k"].rows == len(rows)


@pytest.mark.postgres
async def test_nobody_becomes_the_owner_while_a_write_of_the_one_before_is_on_its_way(postgres):
    """Rule 5: between the look at the epoch and the commit nothing may come in between."""
    dsn = fresh_database(postgres)
    looked, go_on = threading.Event(), threading.Event()

    def write(connection):
        fence(connection, *MINE, ORDERS, 5)
        looked.set()
        assert go_on.wait(60)

    async with (
        store_factory(lambda: open_shared_store(dsn, timeout=PATIENT)) as house,
        asyncio.timeout(240),
    ):
        before, after = await house.open(), await house.open()
        await before.owners.own(*MINE, [ORDERS], 5)
        writing = asyncio.create_task(before._transactions.run(write))
        await asyncio.to_thread(looked.wait, 60)
        owning = asyncio.create_task(after.owners.own(*MINE, [ORDERS], 6))
        while not owning.done() and not await asyncio.to_thread(somebody_waits, dsn):
            await asyncio.sleep(0.01)
        assert not owning.done()
        go_on.set()
        await asyncio.gather(writing, owning)


def somebody_waits(dsn: str) -> bool:
    """For a lock on something in this database, or for the end of another's transaction there."""
    with psycopg.connect(dsn) as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return count > 0


@pytest.mark.postgres
async def test_a_deadlock_of_two_processes_costs_time_and_nothing_else(two):
    """PostgreSQL ends one of the two transactions: it is begun anew."""
    met = threading.Barrier(2)

    def write(connection, first, second):
        fence(connection, *MINE, first, 5)
        with contextlib.suppress(threading.BrokenBarrierError):
            met.wait(20)
        met.abort()  # whoever begins anew waits for nobody
        fence(connection, *MINE, second, 5)

    for store in two:
        await store.owners.own(*MINE, [ORDERS, PAYMENTS], 5)
    one, other = (store._transactions for store in two)
    async with asyncio.timeout(240):
        await asyncio.gather(
            one.run(write, ORDERS, PAYMENTS), other.together(write, PAYMENTS, ORDERS)
        )


@pytest.mark.postgres
async def test_two_processes_never_take_the_same_command(two):
    one, other = two
    command = Command(subscription=SUBSCRIPTION, kind="test", body=b"", asked_ms=NOW)
    asked = [await one.commands.ask(command) for _ in range(30)]
    taken = []

    async def take(store) -> None:
        while len(taken) < len(asked):
            taken.extend(each.id for each in await store.commands.take([SUBSCRIPTION], NOW))

    async with asyncio.timeout(240):
        await asyncio.gather(take(one), take(other))
    assert sorted(taken) == asked


@pytest.mark.postgres
async def test_of_two_gateways_that_are_called_at_once_one_takes_the_consent(two):
    """An address serves once, wherever it is called."""
    for n in range(30):
        key = b"%032d" % n
        await two[0].consents.open(key, SUBSCRIPTION, until_ms=NOW + 1, now_ms=NOW)
        calls = [store.consents.call(key, str(n), NOW) for store in two]
        assert sorted(await asyncio.gather(*calls)) == [False, True]
        taken = await asyncio.gather(*(store.consents.take([key]) for store in two))
        assert sorted(taken, key=len) == [{}, {key: str(n)}]


@pytest.mark.postgres
async def test_two_processes_never_hand_out_the_same_message_nor_two_of_a_lane(two):
    """Each lane's messages come in their order, whoever hands them out."""
    lanes, each = 8, 12
    await two[0].pulled.offer(
        [an_offer(n, b"%d" % (n % lanes)) for n in range(lanes * each)],
    )
    got: list[int] = []
    wanted = {"most": 3, "most_bytes": 1 << 20, "lock_ms": 60_000, "now_ms": NOW}

    async def pull(store) -> None:
        while await store.pulled.count(SUBSCRIPTION):
            for row in await store.pulled.receive(SUBSCRIPTION, **wanted):
                got.append(row.message.offset)
                await store.pulled.acknowledge(SUBSCRIPTION, [row.token], NOW)

    async with asyncio.timeout(240):
        await asyncio.gather(*map(pull, (*two, *two)))
    for lane in range(lanes):
        assert [n for n in got if n % lanes == lane] == [*range(lane, lanes * each, lanes)]


@pytest.mark.postgres
async def test_places_of_two_owners_never_go_back(two):
    """The last of the newer owner stands, however the older one hurries."""
    one, other = (store.offsets for store in two)
    await one.save_offsets(BROKER, GROUP, 5, {ORDERS: Commit(0)})

    async def save(place, epoch: int) -> None:
        for number in range(40):
            try:
                await place.save_offsets(
                    BROKER, GROUP, epoch, {ORDERS: Commit(100 * epoch + number)}
                )
            except StaleOwner:
                return

    async def take_over() -> None:
        await other.own_offsets(BROKER, GROUP, 6, [ORDERS])
        await save(other, 6)

    await asyncio.gather(save(one, 5), take_over())
    assert await one.offsets(BROKER, GROUP, [ORDERS]) == {ORDERS: Commit(639)}
