"""A backup takes the place of nothing that is somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.model.config import Config
from app.errors import SetupError
from app.features.storage.backup import back_up
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
