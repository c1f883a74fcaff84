"""``check --connect`` and the store: what a start would meet, found before."""

from __future__ import annotations

import os
import sqlite3

import pytest

from app.config.load.loader import load
from app.features.storage.stores import check_store_connection
from app.store import open_store

DSN = "postgresql://sky:canary-5f1c@127.0.0.1:1/none"


@pytest.fixture
def loaded(tmp_path):
    def of(store):
        file = tmp_path / "skybridge.yaml"
        file.write_text(
            "version: 1\nbrokers: {log: {kind: embedded, path: /srv/l}}\n"
            f"routes: [{{name: r, to: {{broker: log, topic: t}}}}]\nstore: {store}\n"
        )
        return load(file, {})

    return of


@pytest.fixture
def file(tmp_path):
    return tmp_path / "store.db"


async def findings(loaded):
    return [str(found) for found in await check_store_connection(loaded)]


async def test_a_file_that_is_not_there_yet_is_fine_and_is_not_made(loaded, file):
    assert await findings(loaded(f"{{kind: sqlite, path: {file}}}")) == []
    assert list(file.parent.glob("store*")) == []


async def test_a_file_in_use_by_another_process_with_workers_is_a_warning(loaded, file):
    """A second one would be refused at its start."""
    store = open_store(file, alone=True, timeout=60)
    await store.start()
    (found,) = await findings(loaded(f"{{kind: sqlite, path: {file}}}"))
    await store.stop()
    assert found.startswith(f"line 4: warning store.path: process {os.getpid()} runs workers on")
    assert "postgresql" in found
    assert await findings(loaded(f"{{kind: sqlite, path: {file}}}")) == []


async def test_a_file_that_is_no_store_and_a_newer_one_are_errors(loaded, file):
    file.write_text("not a database, but long enough to be read as one" * 100)
    (found,) = await findings(loaded(f"{{kind: sqlite, path: {file}}}"))
    assert "error store.path: the store" in found
    file.unlink()
    connection = sqlite3.connect(file)
    connection.executescript(
        "CREATE TABLE alembic_version (version_num TEXT); INSERT INTO alembic_version VALUES ('9')"
    )
    connection.close()
    (found,) = await findings(loaded(f"{{kind: sqlite, path: {file}}}"))
    assert "written by a newer release" in found


async def test_a_database_that_does_not_answer_is_an_error_without_its_password(loaded):
    (found,) = await findings(loaded(f"{{kind: postgresql, dsn: '{DSN}'}}"))
    assert found.startswith("line 4: error store.dsn: the store postgresql://127.0.0.1:1/none")
    assert "canary" not in found
