"""From every schema that was ever released to the one of today, on both databases, with the rows in it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from msgspec.structs import replace

from app.bindings.record import Record
from app.delivery.lane_id import lane_id
from app.errors import SetupError
from app.interfaces import AuditFilter, Commit, Halt
from app.model.message import Partition
from app.store import open_shared_store, open_store, schema
from app.store.rows import message_row_values
from app.store.tables import metadata, parked
from postgres_server import fresh_database
from store_samples import (
    ALL,
    BROKER,
    NOW,
    ORDERS,
    PATIENT,
    RECORD,
    SUBSCRIPTION,
    a_letter,
    a_row,
    offsets,
    sqlite_file,
)

OLD = Path(__file__).parent.parent / "unit" / "store" / "before_alembic.sql"
"""Written by the last release before Alembic, its file as text."""

KEPT = f"store.db.before-{schema.HEAD}"


def old_file(path: Path, *, version: int = 2) -> None:
    path.parent.mkdir(exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(OLD.read_text())
    if version == 1:
        connection.execute("DROP TABLE stream_offsets")
    connection.execute("UPDATE skybridge_schema SET version = ?", (version,))
    connection.commit()
    connection.close()


def old_database(dsn: str, folder: Path) -> None:
    """There was none on PostgreSQL before Alembic: its first revision, with the rows of the file."""
    old_file(folder / "old.db")
    source = sa.create_engine(f"sqlite:///{folder}/old.db")
    target = sa.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    with source.connect() as reading, target.begin() as writing:
        schema.migrate(writing, "0001")
        tables = sa.MetaData()
        tables.reflect(writing)
        for name, table in tables.tables.items():
            if name != "alembic_version":
                rows = reading.execute(sa.text(f"SELECT * FROM {name}")).mappings()
                writing.execute(sa.insert(table), [dict(row) for row in rows])
    source.dispose()
    target.dispose()


class Database:
    """``opened`` gives a store on it, ``url`` is SQLAlchemy's."""

    def __init__(self, opened, url, make_old):
        self.opened, self.url, self.make_old = opened, url, make_old


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request, tmp_path):
    if request.param == "sqlite":
        path = sqlite_file(tmp_path)
        path.parent.mkdir()
        return Database(
            lambda: open_store(path, timeout=PATIENT), f"sqlite:///{path}", lambda: old_file(path)
        )
    dsn = fresh_database(request.getfixturevalue("postgres"))
    url = dsn.replace("postgresql://", "postgresql+psycopg://")
    return Database(
        lambda: open_shared_store(dsn, timeout=PATIENT), url, lambda: old_database(dsn, tmp_path)
    )


async def started(database):
    store = database.opened()
    await store.start()
    return store


async def test_an_older_store_is_brought_up_with_everything_in_it(database):
    """Reliability R15: an upgrade keeps what is there."""
    await asyncio.to_thread(database.make_old)
    store = await started(database)
    newest = await store.letters.find(ALL)
    assert [(each.subscription, each.message.offset) for each in newest] == [
        ("audit", 9),
        (SUBSCRIPTION, 8),
        (SUBSCRIPTION, 7),
    ]
    odd, bare, whole = (each.message.record for each in newest)
    assert whole == RECORD
    assert bare == Record(None, RECORD.headers, None, None)
    assert odd == Record(b"", (("\udcff\udcfeb", b"odd"),), b"\x00body\xff", None)
    assert [each.lane for each in newest] == [
        lane_id(b"", None, ORDERS, "9"),
        lane_id(None, None, ORDERS, "8"),
        lane_id(RECORD.key, None, ORDERS, "7"),
    ]
    assert (newest[1].status, newest[2].status, newest[2].detail) == (None, 415, "no such format é")
    since = 1_795_249_811_000  # 2026-11-21 08:30:11
    assert await store.halts.all() == {SUBSCRIPTION: Halt("disabled", "status-410", since)}
    place = await store.offsets.offsets("rabbit", "skybridge.shop.billing", [ORDERS])
    assert place == {ORDERS: Commit(7, "f1:2-4")}
    await store.owners.own(SUBSCRIPTION, "main", [ORDERS], 6)
    await store.stop()


async def test_what_was_brought_up_takes_new_rows_behind_the_old(database):
    """The numbers go on where they were."""
    await asyncio.to_thread(database.make_old)
    store = await started(database)
    await store.owners.own(SUBSCRIPTION, "main", [ORDERS], 6)
    await store.letters.add(a_letter(30, epoch=6))
    assert offsets(await store.letters.find(ALL)) == [30, 9, 8, 7]
    assert await store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=9) == 4
    await store.stop()


async def test_numbers_go_on_above_those_that_a_clock_gave(database):
    """Revision 0002 numbered parked rows by the wall clock of whoever parked them."""
    ahead = 2_000_000_000 * 10**9  # nanoseconds: years from now
    await asyncio.to_thread(database.make_old)
    await asyncio.to_thread(park_before, database.url, ahead)
    store = await started(database)
    await store.owners.own(SUBSCRIPTION, BROKER, [ORDERS], 6)
    await store.parked.park([a_row(30, epoch=6)], numbered=True)
    found = await store.parked.rows(SUBSCRIPTION, BROKER, ORDERS, b"k", after=-1, limit=9)
    assert [row.message.position for row in found] == ["first", "30"]
    assert offsets(found) == [ahead, ahead + 1]
    await store.stop()


def park_before(url: str, number: int) -> None:
    """A row of revision 0002, whose partition has an owner."""
    row = {
        **message_row_values(a_row(), parked),
        "position": "first",
        "offset": number,
        "at_ms": NOW,
    }
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        schema.migrate(connection, "0002")
        table = sa.Table("parked", sa.MetaData(), autoload_with=connection)
        connection.execute(sa.insert(table), [row])
    engine.dispose()


async def test_logins_of_an_older_store_become_a_kind_of_their_own(database):
    await asyncio.to_thread(database.make_old)
    await asyncio.to_thread(audit_before, database.url)
    store = await started(database)
    found = await store.audit.find(AuditFilter())
    assert [(each.kind, each.operation, each.count, each.last_ms) for each in found] == [
        ("look", "peek", 1, None),
        ("change", "pause_subscription", 1, None),
        ("login", "log_out", 1, None),
        ("login", "log_in", 1, None),
    ]
    repeated = replace(found[3], at_ms=NOW + 1)
    for n in range(2):
        await store.audit.add(replace(repeated, at_ms=NOW + n))
    assert [each.count for each in await store.audit.find(AuditFilter(), 2)] == [2, 1]
    await store.stop()


def audit_before(url: str) -> None:
    """Entries of revision 0008, when logins were changes."""
    who = {"who": "ana", "address": "::1", "target": "", "status": 200, "detail": ""}
    operations = (
        ("change", "log_in"),
        ("change", "log_out"),
        ("change", "pause_subscription"),
        ("look", "peek"),
    )
    rows = [{**who, "kind": kind, "operation": name, "at_ms": NOW} for kind, name in operations]
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        schema.migrate(connection, "0008")
        table = sa.Table("audit", sa.MetaData(), autoload_with=connection)
        connection.execute(sa.insert(table), rows)
    engine.dispose()


async def test_a_new_store_is_what_the_revisions_make_and_what_the_code_says(database):
    """Drift shows here, and not when an operator upgrades."""
    await asyncio.to_thread(database.make_old)
    store = await started(database)
    await store.stop()
    assert await asyncio.to_thread(differences, database.url) == []


def differences(url: str) -> list[object]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": "not-looked-for"}
        )
        found = compare_metadata(context, metadata)
    engine.dispose()
    return found


def test_a_new_file_and_one_brought_up_have_the_same_text(tmp_path):
    """On SQLite down to the last word, but for white space: what a comparison of metadata does not see."""
    texts = []
    for old in (False, True):
        path = tmp_path / f"{old}.db"
        if old:
            old_file(path)
        asyncio.run(open_and_close(open_store(path, timeout=PATIENT)))
        connection = sqlite3.connect(path)
        rows = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        connection.close()
        texts.append({name: "".join(sql.split()) for name, sql in rows if sql})
    new, brought_up = texts
    by_old_release = {"stream_offsets", "skybridge_schema"}
    assert new.keys() == brought_up.keys()
    assert {name: new[name] for name in new if name not in by_old_release} == {
        name: text for name, text in brought_up.items() if name not in by_old_release
    }


async def open_and_close(store) -> None:
    await store.start()
    await store.stop()


async def test_a_file_of_the_first_schema_gets_all_tables(tmp_path):
    old_file(tmp_path / "store.db", version=1)
    store = open_store(tmp_path / "store.db", timeout=PATIENT)
    await store.start()
    await store.offsets.save_offsets("rabbit", "g", 5, {Partition("orders", 0): Commit(7)})
    assert len(await store.letters.find(ALL)) == 3
    await store.stop()


async def test_the_file_as_it_was_is_kept_beside_the_new_one(tmp_path):
    """Whoever goes back to the release before has something to go back to."""
    path = tmp_path / "store.db"
    old_file(path)
    before = path.read_bytes()
    store = open_store(path, timeout=PATIENT)
    await store.start()
    await store.stop()
    kept = sqlite3.connect(tmp_path / KEPT)
    assert kept.execute("SELECT version FROM skybridge_schema").fetchall() == [(2,)]
    assert kept.execute("SELECT count(*) FROM dead_letters").fetchall() == [(3,)]
    kept.close()
    assert path.read_bytes() != before
    await open_and_close(open_store(path, timeout=PATIENT))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["store.db", KEPT]


async def test_a_release_before_alembic_refuses_what_we_wrote(tmp_path):
    """It looks at one number, and must not know it."""
    await open_and_close(open_store(tmp_path / "store.db", timeout=PATIENT))
    connection = sqlite3.connect(tmp_path / "store.db")
    assert connection.execute("SELECT version FROM skybridge_schema").fetchall() == [(3,)]
    connection.close()


async def test_a_store_of_a_newer_release_is_refused_with_a_cure(database):
    """Reliability R15: state files are readable or refused loudly."""
    await open_and_close(database.opened())
    await asyncio.to_thread(set_revision, database.url, "0099")
    newer = database.opened()
    with pytest.raises(SetupError, match="newer release") as error:
        await newer.start()
    assert error.value.setting in {"store.path", "store.dsn"}
    assert error.value.cure
    await newer.stop()


def set_revision(url: str, revision: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{revision}'"))
    engine.dispose()


async def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path):
    """One transaction: the old release, or the next try, finds what it knows."""
    path = tmp_path / "store.db"
    old_file(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE disabled_subscriptions SET since = 'no time'")
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match="no time"):
        await open_store(path, timeout=PATIENT).start()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM disabled_subscriptions").fetchall() == [(1,)]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert "alembic_version" not in tables
    connection.close()


@pytest.mark.postgres
async def test_processes_that_start_together_bring_it_up_once(postgres, tmp_path):
    """One does it, the others wait and find it done."""
    dsn = fresh_database(postgres)
    await asyncio.to_thread(old_database, dsn, tmp_path)
    stores = [open_shared_store(dsn, timeout=PATIENT) for _ in range(4)]
    await asyncio.gather(*(store.start() for store in stores))
    assert [len(await store.letters.find(ALL)) for store in stores] == [3] * 4
    await asyncio.gather(*(store.stop() for store in stores))


def test_the_revisions_are_those_that_the_code_knows():
    """A new file under ``migrations`` must be known, or a store that has it is refused."""
    folder = Path(schema.__file__).parent / "migrations" / "versions"
    numbers = sorted(each.name[1:5] for each in folder.glob("r[0-9]*.py"))
    assert tuple(numbers) == schema.KNOWN
