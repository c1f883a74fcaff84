"""Back up and restore the files of an installation, the embedded logs and the SQLite store, while it runs.

The logs are copied before the store. If a message is parked between the two copies, both copies contain it,
and it is delivered twice after a restore. In the other order, the message would be lost.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import msgspec

from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.config.model.store import SqliteStore
from app.errors import SetupError
from app.log import backup as log_backup
from app.log.database import FILE
from app.store import upkeep

SUMS = "SHA256SUMS"
_STORE = "store.db"


class BackupPart(msgspec.Struct, frozen=True):
    """A log or the store of an installation. ``name`` is its name for users. ``file`` is its file in the
    backup, and ``place`` is its file or folder in the installation."""

    name: str
    file: str
    place: Path
    setting: str
    is_log: bool


class Copied(msgspec.Struct, frozen=True):
    """A file of a backup that was written."""

    name: str
    file: str
    bytes: int
    sha256: str


class Restored(msgspec.Struct, frozen=True):
    """A part that was restored. ``kept`` is the place to which the previous data was moved, or "" if there
    was none."""

    name: str
    place: str
    kept: str


def parts(config: Config) -> list[BackupPart]:
    """Return the parts of an installation in the order of copying."""
    logs = [
        BackupPart(
            f"log {name}", f"log-{name}.db", broker.path, f"brokers.{name}.path", is_log=True
        )
        for name, broker in config.brokers.items()
        if isinstance(broker, EmbeddedBroker)
    ]
    if isinstance(config.store, SqliteStore):
        logs.append(BackupPart("store", _STORE, config.store.path, "store.path", is_log=False))
    return logs


def back_up(
    config: Config, folder: Path, progress: Callable[[str, int, int], None]
) -> tuple[list[Copied], list[BackupPart]]:
    """Copy all existing parts into a new folder. Return the copies, and the parts that do not exist yet.

    The folder is written completely or not at all.

    Args:
        config: The configuration of the installation.
        folder: The folder to create.
        progress: A function that receives the name of a part, its copied pages and all its pages.

    Raises:
        SetupError: Nothing exists to copy, the folder exists already, or it cannot be written.
    """
    there = [part for part in parts(config) if _is_there(part)]
    if not there:
        raise SetupError(
            "neither the store nor a log of this configuration exists yet",
            cure="name the configuration of an installation that has run; copy a "
            "PostgreSQL store with pg_dump, and a broker with its own tools",
        )
    if folder.exists():
        raise SetupError(f"{folder} exists already", cure="name a new folder")
    made = folder.with_name(f"{folder.name}.part")
    clear_unfinished(made, {part.file for part in parts(config)})
    try:
        made.mkdir(mode=0o700, parents=True)  # private, because it contains event data
        copied = [_copy(part, made, progress) for part in there]
        (made / SUMS).write_text("".join(f"{each.sha256}  {each.file}\n" for each in copied))
        made.rename(folder)
    except (OSError, sqlite3.Error, apsw.Error) as error:
        raise SetupError(
            f"the backup {folder} could not be written: {error}",
            cure="check the free space, and that this user may write there",
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return copied, [part for part in parts(config) if part not in there]


def clear_unfinished(made: Path, files: set[str]) -> None:
    """Delete the files of an interrupted backup. Raise SetupError if the folder contains other files."""
    if not made.exists():
        return
    own_files = tuple({*files, SUMS})
    if made.is_dir() and all(path.name.startswith(own_files) for path in made.iterdir()):
        shutil.rmtree(made, ignore_errors=True)
        return
    raise SetupError(
        f"{made} is not an unfinished backup",
        cure="name another folder, because a backup is first written there",
    )


def restore(config: Config, folder: Path) -> list[Restored]:
    """Restore a backup. First check that every file matches its checksum and belongs to a part of the
    configuration. If a check fails, nothing is changed.

    Raises:
        SetupError: The backup is incomplete, does not fit the configuration, or a service is running.
    """
    by_file = {part.file: part for part in parts(config)}
    files = list(_demand_unchanged(folder))
    if strange := sorted(set(files) - set(by_file)):
        raise SetupError(
            f"{folder} has files for which this configuration has no broker or store: {', '.join(strange)}",
            cure="use the configuration with which the backup was made",
        )
    chosen = [part for part in by_file.values() if part.file in files]
    for part in chosen:
        demand = log_backup.require_complete if part.is_log else upkeep.demand_restorable
        demand(folder / part.file)
    return [_put_back(part, folder / part.file) for part in chosen]


def _is_there(part: BackupPart) -> bool:
    return (part.place / FILE if part.is_log else part.place).exists()


def _copy(part: BackupPart, folder: Path, progress: Callable[[str, int, int], None]) -> Copied:
    target = folder / part.file
    if part.is_log:
        log_backup.back_up(part.place, target, lambda done, of: progress(part.name, done, of))
    else:
        upkeep.back_up(part.place, target)
        progress(part.name, 1, 1)
    return Copied(part.name, part.file, target.stat().st_size, _sum(target))


def _put_back(part: BackupPart, source: Path) -> Restored:
    if part.is_log:
        kept = log_backup.restore(part.place, source, part.setting)
    else:
        kept = upkeep.restore(part.place, source)
    return Restored(part.name, str(part.place), str(kept or ""))


def _demand_unchanged(folder: Path) -> Iterator[str]:
    """Yield the files of a backup. Raise SetupError with every fault if a file is missing or does not match
    its checksum."""
    try:
        lines = (folder / SUMS).read_text().splitlines()
    except OSError as error:
        raise SetupError(
            f"{folder} is not a backup: {SUMS} cannot be read: {error.strerror}",
            cure="name a folder that `skybridge store backup` made",
        ) from error
    faults = []
    for line in lines:
        due, _, file = line.partition("  ")
        path = folder / file
        if not path.is_file():
            faults.append(f"{file} is missing")
        elif _sum(path) != due:
            faults.append(f"{file} does not match its checksum")
        yield file
    if faults or not lines:
        raise SetupError(
            f"{folder} is not a complete backup: {'; '.join(faults) or f'{SUMS} is empty'}",
            cure="take another backup",
        )


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
