"""Files of the store and of the embedded log are readable by their user alone."""

from __future__ import annotations

import logging
import shutil
import stat
from pathlib import Path

import pytest

from app.store import open_store
from app.store.sqlite import copy
from log_steps import append_stored, numbered, started
from store_samples import sqlite_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_new_store_its_lock_and_its_folder_are_for_nobody_else(tmp_path: Path) -> None:
    """They hold events, as the log does."""
    file = sqlite_file(tmp_path)
    folder = file.parent
    store = open_store(file, timeout=60)
    await store.start()
    try:
        assert mode(folder) == 0o700
        assert {
            path.name: oct(mode(path)) for path in folder.iterdir() if mode(path) != 0o600
        } == {}
    finally:
        await store.stop()


async def test_a_store_that_others_could_read_is_corrected_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That of an earlier release. Its folder may be somebody else's, and stays."""
    file = sqlite_file(tmp_path)
    store = open_store(file, timeout=60)
    await store.start()
    await store.stop()
    file.chmod(0o644)
    file.parent.chmod(0o755)
    with caplog.at_level(logging.WARNING, "skybridge.store"):
        store = open_store(file, timeout=60)
        await store.start()
        await store.stop()
    assert (mode(file), mode(file.parent)) == (0o600, 0o755)
    assert [record.getMessage() for record in caplog.records] == [
        f"{file} was readable by other users: its permissions are 600 now"
    ]


async def test_a_copy_is_as_private_as_its_store(tmp_path: Path) -> None:
    """A backup holds the same events."""
    file = sqlite_file(tmp_path)
    store = open_store(file, timeout=60)
    await store.start()
    await store.stop()
    copy(file, tmp_path / "copy")
    assert mode(tmp_path / "copy") == 0o600


async def test_a_log_in_a_folder_that_is_there_is_for_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that a package or a volume made has 0755: the files protect themselves, new and old ones, and
    also those that a kill has left beside them."""
    folder = tmp_path / "log"
    folder.mkdir(mode=0o755)
    engine = await started(folder, partitions=1)
    await append_stored(engine, "t", *numbered(0, 1, 2))
    files = {path.name: oct(mode(path)) for path in folder.iterdir()}
    assert {name: bits for name, bits in files.items() if bits != "0o600"} == {}
    for path in folder.iterdir():
        path.chmod(0o644)
    assert {"log.db", "log.db-wal"} <= set(files)
    copied = tmp_path / "killed"
    shutil.copytree(folder, copied)  # as a kill leaves it: with what was not folded yet
    await engine.stop()

    with caplog.at_level(logging.WARNING, "app.log"):
        engine = await started(copied)
        assert {path.name for path in copied.glob("log.db*") if mode(path) != 0o600} == set()
        await engine.stop()
    assert any("was readable by other users" in each.getMessage() for each in caplog.records)
    assert mode(copied) == 0o755
