"""``skybridge store`` as an operator runs it, on both kinds of store."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
from pathlib import Path

import pytest

from app.log.database import APPLICATION_ID
from app.store import open_shared_store, open_store, schema
from forked import completed
from postgres_server import PASSWORD, fresh_database
from store_samples import ALL, a_letter, offsets

OLD = Path(__file__).parent.parent / "unit" / "store" / "before_alembic.sql"


@pytest.fixture
def folder(tmp_path):
    return configured(tmp_path, "{kind: sqlite, path: ./store.db}")


def configured(folder, store):
    (folder / "skybridge.yaml").write_text(
        "version: 1\nbrokers: {log: {kind: embedded, path: ./log}}\n"
        f"routes: [{{name: all, to: {{broker: log, topic: events}}}}]\nstore: {store}\n"
    )
    return folder


def run(folder, *words):
    return completed("store", *words, "--config", "skybridge.yaml", cwd=folder)


def told(folder, *words):
    result = run(folder, *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def keep(store, *numbers):
    async def add():
        await store.start()
        for number in numbers:
            await store.letters.add(a_letter(number))
        found = await store.letters.find(ALL, 100_000)
        await store.stop()
        return offsets(found)

    return asyncio.run(add())


def test_status_tells_what_is_there_and_makes_nothing(folder):
    assert "does not exist yet" in told(folder, "status")
    assert not (folder / "store.db").exists()
    keep(open_store(folder / "store.db"), 1, 2)
    found = json.loads(told(folder, "status", "--json"))
    assert found["revision"] == found["known"]
    assert (found["rows"]["dead_letters"], found["rows"]["parked"]) == (2, 0)


def test_an_older_store_is_brought_up_before_the_service_starts(folder):
    connection = sqlite3.connect(folder / "store.db")
    connection.executescript(OLD.read_text())
    connection.close()
    assert "has schema 0000, this release knows" in told(folder, "status")
    told(folder, "migrate")
    assert json.loads(told(folder, "status", "--json"))["rows"]["dead_letters"] == 3
    assert (folder / f"store.db.before-{schema.HEAD}").exists()


def test_a_backup_is_put_back_and_what_was_there_is_kept(folder):
    """Reliability R15: going back must not be a way of losing things."""
    keep(open_store(folder / "store.db"), 1)
    told(folder, "backup", "copy")
    keep(open_store(folder / "store.db"), 2)
    told(folder, "restore", "copy")
    assert keep(open_store(folder / "store.db")) == [1]
    assert keep(open_store(folder / "store.db.before-restore-1")) == [2, 1]
    assert not list(folder.glob("*.part"))


def test_checksums_are_shown_and_those_that_sha256sum_makes(folder):
    keep(open_store(folder / "store.db"), 1)
    shown = told(folder, "backup", "copy").split()
    digest = hashlib.sha256((folder / "copy" / "store.db").read_bytes()).hexdigest()
    assert digest in shown
    assert (folder / "copy" / "SHA256SUMS").read_text() == f"{digest}  store.db\n"
    said = json.loads(told(folder, "backup", "again", "--json"))
    assert [(each["name"], len(each["sha256"])) for each in said["files"]] == [("store", 64)]


async def test_a_backup_is_made_while_a_service_writes(folder):
    """Each of its transactions is in it whole, or not at all."""
    store = open_store(folder / "store.db", alone=True)
    await store.start()
    ended = asyncio.Event()

    async def write():
        number = 0
        while not ended.is_set():
            number += 1
            await store.letters.add(a_letter(number))
        return number

    writing = asyncio.create_task(write())
    try:
        result = await asyncio.to_thread(run, folder, "backup", "copy")
        refused = await asyncio.to_thread(run, folder, "restore", "copy")
    finally:  # else a fault here would be told as one of the next test, which finds the open lock
        ended.set()
        written = await writing
        await store.stop()
    assert result.returncode == 0, result.stderr
    assert refused.returncode == 2
    assert f"stop process {os.getpid()}" in " ".join(refused.stderr.split())
    copied = await asyncio.to_thread(keep, open_store(folder / "copy" / "store.db"))
    assert sorted(copied) == sorted(range(1, len(copied) + 1))
    assert len(copied) <= written


def a_backup(folder, name, files, sums=None):
    """Of these contents by file, as ``backup`` would leave them; ``sums`` instead of the right ones."""
    (folder / name).mkdir()
    for file, content in files.items():
        (folder / name / file).write_bytes(content)
    lines = [f"{hashlib.sha256(content).hexdigest()}  {file}\n" for file, content in files.items()]
    (folder / name / "SHA256SUMS").write_text("".join(lines) if sums is None else sums)


TEXT = b"not a database, but long enough to be read as one" * 100


@pytest.mark.parametrize(
    ("files", "sums", "said"),
    [
        ({"store.db": TEXT}, None, "is not a complete store"),
        ({"store.db": b""}, None, "is not a store"),
        ({"log-log.db": TEXT}, None, "is not a complete log"),
        ({"log-log.db": b""}, None, "is not a log of Skybridge"),
        ({"log-other.db": TEXT}, None, "no broker or store: log-other.db"),
        ({"store.db": TEXT}, f"{'0' * 64}  store.db\n", "store.db does not match its checksum"),
        ({"store.db": TEXT}, f"{'0' * 64}  store.db\n{'0' * 64}  a.db\n", "a.db is missing"),
        ({}, "", "SHA256SUMS is empty"),
    ],
)
def test_what_is_no_backup_is_said_and_changes_nothing(folder, files, sums, said):
    a_backup(folder, "copy", files, sums)
    result = run(folder, "restore", "copy")
    assert (result.returncode, said in " ".join(result.stderr.split())) == (2, True), result.stderr
    assert sorted(each.name for each in folder.iterdir()) == ["copy", "skybridge.yaml"]


def test_a_log_of_a_newer_release_is_refused_before_anything_is_put_back(folder):
    """The store of the same backup would fit."""
    keep(open_store(folder / "store.db"), 1)
    told(folder, "backup", "first")
    newer = sqlite3.connect(folder / "newer.db")
    newer.executescript(
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99; CREATE TABLE t(x)"
    )
    newer.close()
    files = {"log-log.db": folder / "newer.db", "store.db": folder / "first" / "store.db"}
    a_backup(folder, "copy", {file: path.read_bytes() for file, path in files.items()})
    result = run(folder, "restore", "copy")
    assert (result.returncode, "has format 99" in result.stderr) == (2, True), result.stderr
    assert not (folder / "log").exists()
    assert not (folder / "store.db.before-restore-1").exists()


def test_nothing_to_copy_and_nothing_to_put_back_are_said(folder):
    assert "neither the store nor a log" in run(folder, "backup", "copy").stderr
    assert "is not a backup" in run(folder, "restore", "nothing").stderr
    assert not (folder / "store.db").exists()


def test_a_backup_replaces_no_file(folder):
    keep(open_store(folder / "store.db"), 1)
    (folder / "copy").write_text("somebody's")
    result = run(folder, "backup", "copy")
    assert (result.returncode, "exists already" in result.stderr) == (2, True)
    assert (folder / "copy").read_text() == "somebody's"


@pytest.mark.postgres
def test_a_database_is_told_of_and_left_to_its_own_means(tmp_path, postgres):
    """Its password is in no output."""
    dsn = fresh_database(postgres)
    folder = configured(tmp_path, f"{{kind: postgresql, dsn: '{dsn}'}}")
    assert "does not exist yet" in told(folder, "status")
    told(folder, "migrate")
    keep(open_shared_store(dsn), 1)
    assert json.loads(told(folder, "status", "--json"))["rows"]["dead_letters"] == 1
    (tmp_path / "log").mkdir()
    backup = run(folder, "backup", "copy")
    assert (backup.returncode, "pg_dump" in backup.stderr) == (2, True)
    assert PASSWORD not in backup.stderr
