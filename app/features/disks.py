"""Measure the free space of the volumes that store data."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.api.status.answers import DiskView
from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.config.model.store import SqliteStore


def folders_of(config: Config) -> Sequence[Path]:
    """Return the folders of the embedded logs, then the folder of the SQLite store. The result is empty if
    all data is on other machines."""
    logs = [each.path for each in config.brokers.values() if isinstance(each, EmbeddedBroker)]
    store = [config.store.path.parent] if isinstance(config.store, SqliteStore) else []
    return tuple(dict.fromkeys((*logs, *store)))


async def disks(folders: Sequence[Path]) -> Mapping[str, DiskView]:
    """Return size and free space by folder. A folder that cannot be read is left out. The folders are read in
    a thread, because a volume that hangs must not stop the event loop."""
    return await asyncio.to_thread(_disks, folders)


def _disks(folders: Sequence[Path]) -> Mapping[str, DiskView]:
    found: dict[str, DiskView] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            usage = shutil.disk_usage(folder)
            found[str(folder)] = DiskView(free=usage.free, size=usage.total)
    return found
