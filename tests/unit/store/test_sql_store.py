"""What is SQLite's own about the store: its file. What every store does is in tests/contract/test_store.py."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys

import pytest
from msgspec.structs import replace

from app.errors import SetupError, StoreUnavailable
from app.interfaces import EventName, Halt
from app.store import attempt_log, open_store
from store_samples import ALL, BROKER, ORDERS, a_letter, an_attempt, sqlite_file


@pytest.fixture
def path(tmp_path):
    return sqlite_file(tmp_path)


@pytest.fixture
async def store(path):
    store = open_store(path, timeout=60)
    await store.start()
    yield store
    await store.stop()


async def test_it_outlives_the_process_and_may_be_started_again(path):
    """Rule 7: a 410 outlasts restarts."""
    store = open_store(path, timeout=60)
    for halts in ({}, {"billing": Halt("disabled", "status-410", 5)}):
        await store.start()
        assert await store.halts.all() == halts
        await store.halts.halt("billing", "disabled", "status-410", 5)
        await store.letters.add(a_letter())
        await store.stop()
    again = open_store(path, timeout=60)
    await again.start()
    (letter,) = await again.letters.find(ALL)
    assert replace(letter, id=0) == a_letter()
    await again.stop()


async def test_a_commit_is_as_durable_as_the_log(store):
    """design.md: in SQLite the store is as durable as the log. Read from the connection itself."""
    pragmas = await store._transactions.run(
        lambda connection: tuple(
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous")
        )
    )
    assert pragmas == ("delete", 3)  # 3: EXTRA


def occupy(folder):
    """A file where a folder should be, a folder where the file should be, a file of another kind."""
    (folder / "file").write_bytes(b"not a database, but long enough to be read as one" * 100)
    (folder / "folder").mkdir()
    return [folder / "file" / "store.db", folder / "folder", folder / "file"]


@pytest.mark.parametrize("alone", [False, True])
async def test_a_file_that_cannot_be_used_names_the_setting_and_the_cure(tmp_path, alone):
    """A start that fails says what to change; it is no traceback."""
    for unusable in occupy(tmp_path):
        store = open_store(unusable, alone=alone)
        with pytest.raises(SetupError, match="cannot be used") as error:
            await store.start()
        assert (error.value.setting, bool(error.value.cure)) == ("store.path", True)
        await store.stop()


async def test_a_locked_file_is_unavailable_and_heals(path):
    """A store that cannot be written finishes nothing; the same write is repeated later."""
    store = open_store(path, timeout=0.2)
    await store.start()
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable):
        await store.letters.add(a_letter())
    assert not (await store.health()).healthy
    blocker.execute("ROLLBACK")
    blocker.close()
    async with asyncio.timeout(60):
        while not (await store.health()).healthy:  # the write under way still holds the thread
            await asyncio.sleep(0)
            try:
                await store.letters.add(a_letter())
            except StoreUnavailable:
                continue
    assert len(await store.letters.find(ALL)) == 1
    await store.stop()


async def test_a_store_that_is_not_open_says_so(path):
    with pytest.raises(StoreUnavailable, match="not open"):
        await open_store(path, timeout=60).halts.all()


async def test_a_letter_that_cannot_be_written_at_all_is_an_error_and_no_wait_without_end(store):
    """Whoever buries it must learn of it, and those that came with it are written."""
    async with asyncio.timeout(60):
        fates = await asyncio.gather(
            *(store.letters.add(a_letter(n, cause="\udcff" if n == 1 else "c")) for n in range(3)),
            return_exceptions=True,
        )
    assert [type(fate) for fate in fates] == [type(None), UnicodeEncodeError, type(None)]
    assert len(await store.letters.find(ALL)) == 2


async def test_writes_that_come_together_share_a_commit(store):
    """A target that refuses everything costs a sync a group, not a sync an event."""
    commits = []
    await store._transactions.run(
        lambda connection: connection.connection.driver_connection.set_trace_callback(
            lambda statement: commits.append(statement) if statement == "COMMIT" else None
        )
    )
    await asyncio.gather(*(store.letters.add(a_letter(n)) for n in range(200)))
    assert 1 <= len(commits) <= 4
    assert len(await store.letters.find(ALL, 1000)) == 200


async def test_what_nobody_waits_for_any_more_is_not_begun(store):
    """While a disk stands still, those who try again must not make the queue longer and longer."""
    held, go_on, begun = asyncio.Event(), asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def stand_still(_):
        loop.call_soon_threadsafe(held.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

    standing = asyncio.create_task(store._transactions.run(stand_still))
    await held.wait()
    given_up = asyncio.create_task(store._transactions.run(begun.append))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    go_on.set()
    await standing
    await store.halts.all()
    assert begun == []


HOLDER = """
import asyncio, sys
from pathlib import Path
from app.store import attempt_log, open_store

async def hold():
    store = open_store(Path(sys.argv[1]), alone=True, timeout=60)
    await store.start()
    print("held", flush=True)
    await asyncio.Event().wait()

asyncio.run(hold())
"""


async def test_a_second_process_with_workers_is_refused_and_a_look_is_not(path):
    """SQLite is for one process; the first one's end, however it comes, lets the next one in."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE
    ) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            second = open_store(path, alone=True, timeout=60)
            with pytest.raises(SetupError, match=f"process {holder.pid} ") as refused:
                await second.start()
            assert refused.value.setting == "store.path"
            assert f"kill {holder.pid}" in refused.value.cure
            assert "postgresql" in refused.value.cure
            looking = open_store(path, timeout=60)
            await looking.start()
            await looking.owners.own("billing", BROKER, [ORDERS], 5)
            await looking.stop()
        finally:
            holder.kill()
    await second.start()
    await second.stop()
    third = open_store(path, alone=True, timeout=60)
    await third.start()
    await third.stop()


async def test_a_report_counts_the_attempts_that_were_sent(store, path):
    tried = [an_attempt(1, outcome=each, event=EventName("e")) for each in ("unsent", "retry")]
    await store.attempts.add([*tried, an_attempt(2, outcome="delivered", event=EventName("e"))])
    (found,) = await asyncio.to_thread(attempt_log.of_file(path), 0)
    assert found.attempts == 2
