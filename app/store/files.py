"""The file of an SQLite store: private to its user, and used by one process with workers at a time.

The lock is a separate file, so that backups and other programs are not blocked. It ends with its process, however
that ends."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from app.errors import InUse
from app.log.lock_file import LockHeld, keep_private, take_lock

_log = logging.getLogger("skybridge.store")


class SoleUse:
    """The right to run workers on an SQLite store, from ``take`` until ``release``."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._file = store.with_name(f"{store.name}.lock")
        self._descriptor: int | None = None

    @property
    def begun(self) -> bool:
        """Return True if any process has ever taken the lock."""
        return self._file.exists()

    def take(self) -> None:
        """Take the lock. The folder must exist.

        Raises:
            InUse: another process has the lock.
            OSError: the file cannot be created.
        """
        keep_private(self._file, _log)
        try:
            self._descriptor = take_lock(self._file)
        except LockHeld as held:
            raise InUse(
                f"{held.holder} runs workers on {self._store}",
                setting="store.path",
                cure=f"{held.cure}, or let all of them share store: {{kind: postgresql, dsn: ...}}",
            ) from held

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
