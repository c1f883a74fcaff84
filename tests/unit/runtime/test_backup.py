"""A backup takes the place of nothing that is somebody else's."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from app.config.model.config import Config
from app.errors import SetupError
from app.features.storage.backup import back_up
from app.features.storage.rotation import back_up_into
from app.store import open_store


async def configured(folder: Path) -> Config:
    """With a store that exists."""
    store = open_store(folder / "store.db", timeout=60)
    await store.start()
    await store.stop()
    return Config.model_validate(
        {
            "version": 1,
            "brokers": {"log": {"kind": "embedded", "path": folder / "log"}},
            "store": {"kind": "sqlite", "path": folder / "store.db"},
        }
    )


async def test_what_an_interrupted_backup_left_behind_goes(tmp_path: Path) -> None:
    config = await configured(tmp_path)
    (tmp_path / "b.part").mkdir()
    (tmp_path / "b.part" / "log-log.db-wal").write_text("left")
    copied, _ = back_up(config, tmp_path / "b", lambda *_: None)
    assert [each.file for each in copied] == ["store.db"]
    assert not (tmp_path / "b.part").exists()


@pytest.mark.parametrize("name", ["b.part/thesis.txt", "b.part"])
async def test_what_is_none_stays(tmp_path: Path, name: str) -> None:
    """A folder of that name was removed with all that was in it, before anything was copied."""
    config = await configured(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("years of work")
    with pytest.raises(SetupError, match="not an unfinished backup"):
        back_up(config, tmp_path / "b", lambda *_: None)
    assert (tmp_path / name).read_text() == "years of work"


def at(day: int) -> dt.datetime:
    return dt.datetime(2026, 1, day, 3, 17, tzinfo=dt.UTC)


async def test_a_folder_of_backups_keeps_the_newest(tmp_path: Path) -> None:
    """A schedule makes one each night. Other files of the folder stay, and so does an incomplete backup."""
    config, backups = await configured(tmp_path), tmp_path / "backups"
    (backups / "backup-20251231T031700Z").mkdir(parents=True)
    (backups / "thesis.txt").write_text("years of work")
    made = [back_up_into(config, backups, 2, at(day), lambda *_: None) for day in range(1, 5)]
    assert [each.folder.name for each in made] == [
        f"backup-2026010{n}T031700Z" for n in range(1, 5)
    ]
    deleted = [[path.name for path in each.deleted] for each in made]
    assert deleted == [[], [], ["backup-20260101T031700Z"], ["backup-20260102T031700Z"]]
    assert sorted(path.name for path in backups.iterdir()) == [
        "backup-20251231T031700Z",
        "backup-20260103T031700Z",
        "backup-20260104T031700Z",
        "thesis.txt",
    ]


async def test_what_an_interrupted_backup_left_in_the_folder_goes(tmp_path: Path) -> None:
    """The next one has another name."""
    config, backups = await configured(tmp_path), tmp_path / "backups"
    unfinished = backups / "backup-20260101T031700Z.part"
    unfinished.mkdir(parents=True)
    (unfinished / "store.db").write_text("half")
    back_up_into(config, backups, 2, at(2), lambda *_: None)
    assert [path.name for path in backups.iterdir()] == ["backup-20260102T031700Z"]


async def test_a_backup_that_fails_deletes_none(tmp_path: Path) -> None:
    config, backups = await configured(tmp_path), tmp_path / "backups"
    back_up_into(config, backups, 1, at(1), lambda *_: None)
    (tmp_path / "store.db").unlink()
    with pytest.raises(SetupError, match="exists yet"):
        back_up_into(config, backups, 1, at(2), lambda *_: None)
    assert [path.name for path in backups.iterdir()] == ["backup-20260101T031700Z"]
