from __future__ import annotations

import asyncio
import sqlite3

import pytest
from msgspec.structs import replace

from app.bindings.record import Record
from app.errors import SetupError, StaleOwner, StoreUnavailable
from app.interfaces import DeadLetter
from app.model.message import Message, Partition
from app.store import open_store
from app.store.tables import SCHEMA_VERSION

ORDERS = Partition("orders", 3)
RECORD = Record(
    b"\x00\xff key",
    (("ce_id", b"1"), ("ce_id", b"again"), ("gone", None), ("empty", b"")),
    b"\x00body\xff",
    "application/x-thing",
)


def a_letter(position=7, *, epoch=5, cause="status-415", record=RECORD, subscription="billing"):
    message = Message(record, ORDERS, str(position), position, 1_700_000_000_000, epoch)
    return DeadLetter(
        subscription=subscription,
        broker="main",
        message=message,
        cause=cause,
        detail="no such format",
        attempts=2,
        status=415,
        at_ms=1_700_000_000_123,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "store.db"


@pytest.fixture
async def store(path):
    store = open_store(path)
    await store.start()
    yield store
    await store.stop()


@pytest.mark.parametrize("key", [None, b"", b"\xff"])
@pytest.mark.parametrize("body", [None, b"", b"{}"])
async def test_a_dead_letter_comes_back_byte_for_byte(store, key, body):
    """A redrive sends what was received: null is not empty, headers repeat and keep their order."""
    letter = a_letter(record=Record(key, RECORD.headers, body, None))
    await store.add_dead_letter(letter)
    assert await store.dead_letters() == [letter]


async def test_the_same_message_is_buried_once(store):
    """Rule 5: after a crash between storing and committing, the message comes again."""
    first = a_letter(cause="status-415")
    await store.add_dead_letter(first)
    await store.add_dead_letter(a_letter(cause="status-400", epoch=6))
    assert await store.dead_letters() == [first]
    assert await store.count_dead_letters() == {("billing", "status-415"): 1}


async def test_letters_are_told_apart_by_subscription_and_counted_by_cause(store):
    await store.add_dead_letter(a_letter(1))
    await store.add_dead_letter(a_letter(1, subscription="audit"))
    await store.add_dead_letter(a_letter(2, cause="foreign"))
    await store.add_dead_letter(a_letter(3, cause="foreign"))
    assert await store.count_dead_letters() == {
        ("billing", "status-415"): 1,
        ("billing", "foreign"): 2,
        ("audit", "status-415"): 1,
    }
    newest = [letter.message.position for letter in await store.dead_letters("billing", limit=2)]
    assert newest == ["3", "2"]


async def test_a_dead_letter_outlives_the_process(path):
    store = open_store(path)
    await store.start()
    await store.add_dead_letter(a_letter())
    await store.stop()
    again = open_store(path)
    await again.start()
    assert await again.dead_letters() == [a_letter()]
    await again.stop()


async def test_a_commit_is_as_durable_as_the_log(store):
    """design.md: in SQLite the store is as durable as the log. Read from the connection itself."""
    pragmas = await store._call(
        lambda connection: tuple(
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous")
        )
    )
    assert pragmas == ("delete", 3)  # 3: EXTRA


async def test_a_write_of_a_stale_owner_is_refused(store):
    """Rule 5: a worker that lost its partition may not write for it any more."""
    await store.add_dead_letter(a_letter(1, epoch=6))
    with pytest.raises(StaleOwner, match="epoch 6"):
        await store.add_dead_letter(a_letter(2, epoch=5))
    assert len(await store.dead_letters()) == 1


async def test_taking_ownership_refuses_the_owner_before(store):
    await store.own("billing", "main", [ORDERS], 9)
    with pytest.raises(StaleOwner):
        await store.add_dead_letter(a_letter(epoch=8))
    await store.add_dead_letter(a_letter(epoch=9))


async def test_ownership_follows_a_log_that_counts_anew(store):
    """A Kafka group that was away for its retention begins again at generation 1."""
    await store.own("billing", "main", [ORDERS], 900)
    await store.own("billing", "main", [ORDERS], 1)
    await store.add_dead_letter(a_letter(epoch=1))
    assert len(await store.dead_letters()) == 1


async def test_one_stale_letter_of_a_group_does_not_refuse_the_others(store):
    """Letters share a transaction; their fates are their own."""
    await store.own("billing", "main", [ORDERS], 5)
    letters = [a_letter(n, epoch=4 if n == 50 else 5) for n in range(100)]
    fates = await asyncio.gather(
        *(store.add_dead_letter(letter) for letter in letters), return_exceptions=True
    )
    refused = [n for n, fate in enumerate(fates) if isinstance(fate, StaleOwner)]
    assert refused == [50]
    assert sum((await store.count_dead_letters()).values()) == 99


async def test_a_disabled_subscription_stays_so_until_enabled(path):
    """Rule 7: a 410 outlasts restarts."""
    store = open_store(path)
    await store.start()
    await store.set_disabled("billing", "status-410")
    await store.set_disabled("billing", "status-410 again")
    await store.stop()
    again = open_store(path)
    await again.start()
    assert await again.disabled() == {"billing": "status-410 again"}
    await again.enable("billing")
    await again.enable("billing")
    assert await again.disabled() == {}
    await again.stop()


async def test_a_file_of_a_newer_release_is_refused_with_a_cure(path):
    """Reliability R15: state files are readable or refused loudly."""
    store = open_store(path)
    await store.start()
    await store.stop()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE skybridge_schema SET version = ?", (SCHEMA_VERSION + 1,))
    connection.close()
    newer = open_store(path)
    with pytest.raises(SetupError, match="newer release") as error:
        await newer.start()
    assert error.value.setting == "store.path"
    assert error.value.cure
    await newer.stop()


def occupy(folder):
    """A file where a folder should be, a folder where the file should be, a file of another kind."""
    (folder / "file").write_bytes(b"not a database, but long enough to be read as one" * 100)
    (folder / "folder").mkdir()
    return [folder / "file" / "store.db", folder / "folder", folder / "file"]


async def test_a_file_that_cannot_be_used_names_the_setting_and_the_cure(tmp_path):
    """A start that fails says what to change; it is no traceback."""
    for unusable in occupy(tmp_path):
        store = open_store(unusable)
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
        await store.add_dead_letter(a_letter())
    assert not (await store.health()).healthy
    blocker.execute("ROLLBACK")
    blocker.close()
    async with asyncio.timeout(10):
        while not (await store.health()).healthy:  # the write under way still holds the thread
            await asyncio.sleep(0)
            try:
                await store.add_dead_letter(a_letter())
            except StoreUnavailable:
                continue
    assert await store.dead_letters() == [a_letter()]
    await store.stop()


async def test_a_store_that_is_not_open_says_so(path):
    with pytest.raises(StoreUnavailable, match="not open"):
        await open_store(path).disabled()


async def test_text_that_is_no_unicode_is_stored_readably(store):
    """What a target says comes from outside: it must not keep its event from being buried."""
    await store.add_dead_letter(replace(a_letter(), detail="it said \udcff"))
    [stored] = await store.dead_letters()
    assert stored.detail == "it said ?"


async def test_a_letter_that_cannot_be_written_at_all_is_an_error_and_no_wait_without_end(store):
    """Whoever buries it must learn of it, and so must those that came with it."""
    async with asyncio.timeout(5):
        with pytest.raises(UnicodeEncodeError):
            await store.add_dead_letter(a_letter(cause="\udcff"))
        await store.add_dead_letter(a_letter(8))
    assert len(await store.dead_letters()) == 1
