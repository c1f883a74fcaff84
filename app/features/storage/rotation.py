"""Keep a folder of backups: write a new one, and delete the oldest. A schedule calls this each night."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from app.config.model.config import Config
from app.features.storage.backup import SUMS, BackupPart, Copied, back_up, clear_unfinished, parts

_BACKUP = re.compile(r"backup-\d{8}T\d{6}Z")


class Rotation(msgspec.Struct, frozen=True):
    """A new backup in a folder of backups. ``absent`` has the parts that do not exist yet. ``deleted`` has
    the older backups that were deleted."""

    folder: Path
    copied: Sequence[Copied]
    absent: Sequence[BackupPart]
    deleted: Sequence[Path]


def back_up_into(
    config: Config,
    folder: Path,
    keep: int,
    now: dt.datetime,
    progress: Callable[[str, int, int], None],
) -> Rotation:
    """Write a backup into a new folder of ``folder``, named after the time in UTC. Then delete all but the
    newest ``keep`` backups. Raise SetupError as ``back_up`` does; then no backup is deleted.

    Only complete backups with such a name are counted and deleted.
    """
    files = {part.file for part in parts(config)}
    for each in folder.glob("backup-*.part"):
        if _BACKUP.fullmatch(each.stem):
            clear_unfinished(each, files)
    made = folder / f"backup-{now.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}"
    copied, absent = back_up(config, made, progress)
    complete = sorted(each for each in folder.iterdir() if _is_backup(each))
    deleted = complete[:-keep]
    for each in deleted:
        shutil.rmtree(each)
    return Rotation(made, copied, absent, deleted)


def _is_backup(path: Path) -> bool:
    return _BACKUP.fullmatch(path.name) is not None and (path / SUMS).is_file()
