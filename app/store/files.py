"""The file of an SQLite store: its user's alone, for it holds the data of events, and one process with workers a
file, for SQLite tells two of them apart no better than one.

The lock is a file beside the store, so that a backup, or a look with another program, meets nothing. It
goes with its process, however that ends.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from app.errors import InUse
from app.log.lock_file import Held, keep_private, take_lock

_log = logging.getLogger("skybridge.store")


class SoleUse:
    """``take`` until ``release``."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._file = store.with_name(f"{store.name}.lock")
        self._descriptor: int | None = None

    @property
    def begun(self) -> bool:
        """Whether any process ever asked."""
        return self._file.exists()

    def take(self) -> None:
        """Its folder is there. Raises InUse when another process has it, OSError when no file can be
        made."""
        keep_private(self._file, _log)
        try:
            self._descriptor = take_lock(self._file)
        except Held as held:
            raise InUse(
                f"{held.holder} runs workers on {self._store}",
                setting="store.path",
                cure=f"{held.cure}, or let all of them share store: {{kind: postgresql, dsn: ...}}",
            ) from held

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
